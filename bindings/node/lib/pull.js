const { callFor, hold, release, unlessAborted, whenAborted } = require('./calls');

/**
 * What a tail or a subscriber has natively: it takes all there is at once.
 *
 * @typedef {object} Source
 * @property {(slot: number) => void} take
 * @property {() => void} close
 */

/**
 * Takes much at a time from the native module, ahead of whoever asks, and gives it one by one, to tails and subscribers.
 *
 * @template T
 */
class Pull {
  #source;
  #width;
  #make;
  /** @type {any[]} What was taken and not given. */
  #taken = [];
  #next = 0;
  /** @type {any[] | undefined} What was taken behind it. */
  #ahead;
  /** @type {Promise<void> | undefined} */
  #filling;
  #ended = false;
  /** @type {unknown} Why there is no more, until somebody is told. */
  #failure;
  #forgetSignal;

  /**
   * @param {Source} source
   * @param {number} width How many of the values taken make one.
   * @param {(taken: any[], at: number) => T} make Makes one of those that begin there.
   * @param {AbortSignal} [signal] Closes it.
   */
  constructor(source, width, make, signal) {
    this.#source = source;
    this.#width = width;
    this.#make = make;
    this.#forgetSignal = whenAborted(signal, this, (pull) => pull.close());
  }

  /**
   * @param {AbortSignal} [signal]
   * @returns {Promise<T | undefined>} What comes next; nothing at the end.
   */
  async next(signal) {
    hold();
    try {
      for (;;) {
        const next = this.#pop();
        if (next !== undefined) return next;
        if (this.#failure !== undefined) {
          const failure = this.#failure;
          this.#failure = undefined;
          throw failure;
        }
        if (this.#ended) return undefined;
        const filled = this.#fill();
        await (signal === undefined ? filled : unlessAborted(filled, signal));
      }
    } finally {
      release();
    }
  }

  /** @returns {AsyncGenerator<T, void, undefined>} One by one to the end, which leaving the loop is. */
  async *[Symbol.asyncIterator]() {
    hold();
    try {
      for (;;) {
        const next = this.#pop() ?? (await this.next());
        if (next === undefined) return;
        yield next;
      }
    } finally {
      release();
      this.close();
    }
  }

  close() {
    this.#forgetSignal();
    this.#taken = [];
    this.#next = 0;
    this.#ahead = undefined;
    this.#ended = true;
    this.#source.close();
  }

  #pop() {
    if (this.#next === this.#taken.length && !this.#turn()) return undefined;
    const at = this.#next;
    this.#next += this.#width;
    return this.#make(this.#taken, at);
  }

  /** Goes on with what was taken ahead, where there is any, and has more taken meanwhile. */
  #turn() {
    if (this.#ahead === undefined) return false;
    this.#taken = this.#ahead;
    this.#next = 0;
    this.#ahead = undefined;
    if (!this.#ended) this.#fill();
    return true;
  }

  #fill() {
    if (this.#filling === undefined) {
      this.#filling = callFor(this, (slot) => this.#source.take(slot), Pull.#filled);
    }
    return this.#filling;
  }

  /**
   * @param {Pull<any>} pull
   * @param {any[] | undefined} taken
   * @param {unknown} [failure]
   */
  static #filled(pull, taken, failure) {
    pull.#filling = undefined;
    if (pull.#ended) return;
    pull.#failure = failure;
    pull.#ended = taken === undefined;
    pull.#ahead = taken;
  }
}

module.exports = { Pull };
