const { checkFunction, count, optional } = require('./arguments');
const { call, callFor, hold, idleCall, release, whenAborted } = require('./calls');
const { Batch, Outbox, Puller } = require('./deliveries');
const { isPromise } = require('./handlers');
const { notices } = require('./notice');

/**
 * What every wait may be given.
 *
 * @typedef {object} WaitOptions
 * @property {AbortSignal} [signal] Gives the waiting up: the promise is rejected with the signal's reason, and no entry is
 *   lost.
 */

/**
 * A consumer of a group: it hands out the group's entries, each at least once.
 *
 * It reads on a connection of its own and ahead of its handlers, `count` entries at most. What is in hand is kept from
 * other consumers; what a dead consumer had comes to a living one after `minIdle`; what fails comes back. Handlers must be
 * idempotent: the branded id tells an entry that comes twice.
 *
 * Iterate it, and give each {@link Delivery} its verdict, or let {@link Consumer.run} call a handler. It keeps the process
 * alive as long as a loop or a `run` goes on, and no longer. A consumer that is forgotten is stopped.
 *
 * ```js
 * const consumer = await stream.consumer({ group: 'mailer', start: 'head' });
 * for await (const delivery of consumer) {
 *   if (delivery.get('kind') === 'guessed') delivery.ack();
 *   else delivery.fail('nobody knows this kind');
 *   if (delivery.settled) break;
 * }
 * ```
 */
class Consumer {
  #native;
  #outbox = new Outbox();
  /** @type {(Puller | undefined)[]} */
  #pullers = [];
  #stopping = false;
  #forgetSignal;

  /**
   * @internal
   * @param {import('./native').NativeConsumer} native
   * @param {AbortSignal} [signal]
   */
  constructor(native, signal) {
    this.#native = native;
    /**
     * The group's name.
     * @type {string}
     * @readonly
     */
    this.group = native.group();
    /**
     * The consumer's own name.
     * @type {string}
     * @readonly
     */
    this.name = native.name();
    this.#forgetSignal = whenAborted(signal, this, Consumer.#abort);
    callFor(this, (slot) => native.stopping(slot), Consumer.#close);
  }

  /** @param {Consumer} consumer */
  static #abort(consumer) {
    Consumer.#close(consumer);
    idleCall((slot) => consumer.#native.stop(slot));
  }

  /**
   * Begins nothing more, and gives back what was taken and not begun.
   *
   * @param {Consumer} consumer
   */
  static #close(consumer) {
    consumer.#stopping = true;
    consumer.#forgetSignal();
    consumer.#outbox.flush();
    for (const puller of consumer.#pullers) puller?.close();
  }

  /**
   * The next entry; `undefined` once the consumer has stopped.
   *
   * Fails once with the reason when the consumer cannot go on: `wrong_type`, `version_fence`, or `closed`. Everything else
   * is overcome and told by a {@link Notice}.
   *
   * @param {WaitOptions} [options]
   * @returns {Promise<import('./delivery').Delivery | undefined>}
   */
  async next(options) {
    hold();
    try {
      return await this.#puller(0).next(options?.signal);
    } finally {
      release();
    }
  }

  /**
   * Entry by entry, until the consumer stops. Fails as {@link Consumer.next} does.
   *
   * Leaving the loop stops the consumer at once: what was fetched and not begun is given back to the group, and what has no
   * verdict stays pending.
   *
   * @returns {AsyncGenerator<import('./delivery').Delivery, void, undefined>}
   */
  async *[Symbol.asyncIterator]() {
    const puller = this.#puller(0);
    let left = true;
    hold();
    try {
      for (;;) {
        const delivery = puller.pop() ?? (await puller.next());
        if (delivery === undefined) {
          left = false;
          return;
        }
        yield delivery;
      }
    } finally {
      try {
        await (left ? this.stop(0) : this.#flushed());
      } finally {
        release();
      }
    }
  }

  /**
   * Calls a handler with each entry until the consumer stops: as many at a time as `concurrency` says, one by one without
   * it.
   *
   * When the handler returns, or what it returns resolves, the entry is acknowledged. When it throws, or that rejects, the
   * entry failed, with the text of the error as the reason: it comes back, or becomes a dead letter, and the consumer goes
   * on. A handler may also give the verdict itself. Fails as {@link Consumer.next} does, once the handlers under way have
   * ended.
   *
   * ```js
   * const stopped = new AbortController();
   * const consumer = await stream.consumer({ group: 'run', start: 'head', concurrency: 4, signal: stopped.signal });
   * await consumer.run(async (delivery) => {
   *   console.log(delivery.id, delivery.get('kind'));
   *   stopped.abort();
   * });
   * ```
   *
   * @param {(delivery: import('./delivery').Delivery) => unknown} handler
   * @returns {Promise<void>}
   */
  async run(handler) {
    await this.#work(handler, async (worker) => {
      const puller = this.#puller(worker);
      for (;;) {
        const delivery = puller.pop() ?? (await puller.next());
        if (delivery === undefined) return;
        try {
          const handled = handler(delivery);
          if (isPromise(handled)) await handled;
        } catch (error) {
          if (!delivery.settled) delivery.fail(error);
        }
        if (!delivery.settled) delivery.ack();
      }
    });
  }

  /**
   * Calls a handler with batches of up to `maxN` entries, after waiting `maxWait` for more than are there; otherwise as
   * {@link Consumer.run}. The verdict is on all of the batch, but on those that the handler settled itself.
   *
   * @param {(deliveries: import('./delivery').Delivery[]) => unknown} handler
   * @returns {Promise<void>}
   */
  async runBatches(handler) {
    await this.#work(handler, async (worker) => {
      for (;;) {
        this.#outbox.flush();
        const taken = await idleCall((slot) => this.#native.takeBatch(slot, worker));
        if (taken === undefined) return;
        const batch = new Batch(taken, this.group, this.#outbox);
        if (this.#stopping) {
          batch.giveBackFrom(0);
          continue;
        }
        const deliveries = Array.from({ length: batch.size }, (_, number) => batch.delivery(number));
        try {
          await handler(deliveries);
        } catch (error) {
          for (const delivery of deliveries) if (!delivery.settled) delivery.fail(error);
        }
        for (const delivery of deliveries) if (!delivery.settled) delivery.ack();
      }
    });
  }

  /**
   * @param {unknown} handler
   * @param {(worker: number) => Promise<void>} work
   */
  async #work(handler, work) {
    checkFunction('A handler', handler);
    hold();
    try {
      const ended = await Promise.allSettled(Array.from({ length: this.#native.workers() }, (_, at) => work(at)));
      await this.#flushed();
      for (const outcome of ended) if (outcome.status === 'rejected') throw outcome.reason;
    } finally {
      release();
    }
  }

  /**
   * @param {number} worker
   * @returns {Puller}
   */
  #puller(worker) {
    let puller = this.#pullers[worker];
    if (puller === undefined) {
      puller = new Puller(this.#native, worker, this.#outbox);
      this.#pullers[worker] = puller;
      if (this.#stopping) puller.close();
    }
    return puller;
  }

  /** Waits for the verdicts on their way. One that does not arrive is told by a notice. */
  async #flushed() {
    await this.flush().catch(() => {});
  }

  /** Fetches and hands out nothing more until {@link Consumer.resume}. What is in hand stays there. */
  pause() {
    this.#native.pause();
    for (const puller of this.#pullers) puller?.giveBack();
  }

  /** Goes on after {@link Consumer.pause}. */
  resume() {
    this.#native.resume();
  }

  /**
   * Waits until every verdict given so far is on the server.
   *
   * Verdicts travel in batches of their own accord; this is for who must know. Fails with the reason when one could not be
   * brought there yet; it is tried again.
   *
   * @returns {Promise<void>}
   */
  async flush() {
    this.#outbox.flush();
    await call((slot) => this.#native.flush(slot));
  }

  /**
   * Hands out nothing more, waits that many milliseconds for what is in hand, and brings the last verdicts to the server.
   *
   * What was fetched and not handed out is given back to the group: another consumer takes it with its next beat. Without a
   * time it waits until each entry in hand has its verdict. Answers how many are left without one on the server; they stay
   * pending, and none is lost. Stopping again answers the same.
   *
   * @param {number} [withinMs]
   * @returns {Promise<number>}
   */
  async stop(withinMs) {
    const within = optional(count, 'The time to stop within', withinMs);
    Consumer.#close(this);
    return call((slot) => this.#native.stop(slot, within));
  }

  /**
   * What the consumer tells beside its deliveries, until it has stopped: lost and foreign entries, failures, dead letters,
   * troubles, and that the group was made again.
   *
   * The last 1 024 wait to be taken; each is taken once, by whoever asks first.
   *
   * @returns {AsyncGenerator<import('./notice').Notice, void, undefined>}
   */
  notices() {
    return notices(this.#native.notices());
  }

  /**
   * Stops the consumer at once, for `await using`: what has no verdict stays pending. See {@link Consumer.stop}.
   *
   * @returns {Promise<void>}
   */
  async [Symbol.asyncDispose]() {
    await this.stop(0);
  }
}

module.exports = { Consumer };
