/** Deliveries on their way between the native module and handlers: many cross at once, and so do their verdicts. */

const { callFor, unlessAborted } = require('./calls');
const { Delivery } = require('./delivery');

/**
 * What the native module answers: the attempts and the record of each delivery, then what holds them natively.
 *
 * @typedef {(number | import('./native').Row | import('./native').NativeDeliveries)[]} Taken
 */

/** Acknowledgements that wait for others to cross with them: until the event loop turns at the longest. */
class Outbox {
  /** @type {Set<Batch>} */
  #batches = new Set();

  /** @param {Batch} batch */
  add(batch) {
    if (this.#batches.size === 0) setImmediate(() => this.flush());
    this.#batches.add(batch);
  }

  flush() {
    for (const batch of this.#batches) batch.flush();
    this.#batches.clear();
  }
}

/** Deliveries that were taken together. */
class Batch {
  #taken;
  #native;
  #outbox;
  /** @type {number[]} */
  #acks = [];
  #since = 0;

  /**
   * @param {Taken} taken
   * @param {string} group
   * @param {Outbox} outbox
   */
  constructor(taken, group, outbox) {
    this.#native = /** @type {import('./native').NativeDeliveries} */ (taken.pop());
    this.#taken = taken;
    this.#outbox = outbox;
    this.group = group;
    this.size = taken.length / 2;
  }

  /**
   * @param {number} number
   * @returns {Delivery}
   */
  delivery(number) {
    const attempts = /** @type {number} */ (this.#taken[2 * number]);
    const row = /** @type {import('./native').Row} */ (this.#taken[2 * number + 1]);
    return new Delivery(this, number, row, attempts);
  }

  /** @param {number} number */
  ack(number) {
    const now = Date.now();
    if (this.#acks.length === 0) {
      this.#since = now;
      this.#outbox.add(this);
    }
    this.#acks.push(number);
    // A handler that takes its time keeps none of them back.
    if (this.#acks.length === this.size || now !== this.#since) this.flush();
  }

  flush() {
    if (this.#acks.length === 0) return;
    const acks = this.#acks;
    this.#acks = [];
    this.#native.ack(acks);
  }

  /**
   * @param {number} number
   * @param {string} reason
   * @param {number} [delay]
   */
  fail(number, reason, delay) {
    this.#native.fail(number, reason, delay);
  }

  /** @param {number} number */
  extend(number) {
    this.#native.extend(number);
  }

  /** @param {number} first Gives back this one and all behind it. */
  giveBackFrom(first) {
    this.#native.giveBack(Array.from({ length: this.size - first }, (_, at) => first + at));
  }

  /** @param {number} number */
  giveBack(number) {
    this.#native.giveBack([number]);
  }
}

/** Takes entries ahead of whoever asks for them one by one. */
class Puller {
  #native;
  #worker;
  #group;
  #outbox;
  /** @type {Batch | undefined} What was taken and is not all begun. */
  #batch;
  #next = 0;
  /** @type {Promise<void> | undefined} */
  #filling;
  #ended = false;
  /** @type {unknown} Why there are no more, until somebody is told. */
  #failure;
  /** Whether what comes is given back. */
  #closed = false;

  /**
   * @param {import('./native').NativeConsumer} native
   * @param {number} worker
   * @param {Outbox} outbox
   */
  constructor(native, worker, outbox) {
    this.#native = native;
    this.#worker = worker;
    this.#group = native.group();
    this.#outbox = outbox;
  }

  /** @returns {Delivery | undefined} The next entry, where one is there. */
  pop() {
    const batch = this.#batch;
    if (batch === undefined) return undefined;
    const delivery = batch.delivery(this.#next++);
    if (this.#next === batch.size) this.#batch = undefined;
    return delivery;
  }

  /**
   * @param {AbortSignal} [signal]
   * @returns {Promise<Delivery | undefined>} The next entry; nothing at the end.
   */
  async next(signal) {
    for (;;) {
      const delivery = this.pop();
      if (delivery !== undefined) return delivery;
      if (this.#failure !== undefined) {
        const failure = this.#failure;
        this.#failure = undefined;
        throw failure;
      }
      if (this.#ended) return undefined;
      const filled = this.#fill();
      await (signal === undefined ? filled : unlessAborted(filled, signal));
    }
  }

  #fill() {
    if (this.#filling === undefined) {
      this.#outbox.flush();
      this.#filling = callFor(this, (slot) => this.#native.take(slot, this.#worker), Puller.#filled);
    }
    return this.#filling;
  }

  /**
   * @param {Puller} puller
   * @param {Taken | undefined} taken
   * @param {unknown} [failure]
   */
  static #filled(puller, taken, failure) {
    puller.#filling = undefined;
    if (taken === undefined) {
      puller.#ended = true;
      puller.#failure = failure;
      return;
    }
    puller.#batch = new Batch(taken, puller.#group, puller.#outbox);
    puller.#next = 0;
    if (puller.#closed) puller.giveBack();
  }

  /** Gives back what is not begun. */
  giveBack() {
    this.#batch?.giveBackFrom(this.#next);
    this.#batch = undefined;
  }

  /** Gives back what is not begun, and whatever comes. */
  close() {
    this.#closed = true;
    this.giveBack();
  }
}

module.exports = { Batch, Outbox, Puller };
