const { callFor, hold, release, unlessAborted, whenAborted } = require('./calls');
const { Record } = require('./record');

/**
 * A place in a stream where records may be missing, since they were trimmed away before they were read. Both ends are
 * excluded.
 */
class Gap {
  /**
   * @internal
   * @param {string} from
   * @param {string} to
   */
  constructor(from, to) {
    /**
     * The entry id of the last entry that the tail had been given, or the position that it was to begin behind.
     * @type {string}
     * @readonly
     */
    this.from = from;
    /**
     * The entry id of the first entry that is there again; on an empty stream of the last one that was ever there.
     * @type {string}
     * @readonly
     */
    this.to = to;
  }
}

/**
 * A stream's records as they are appended, for ever, in order.
 *
 * Iterate it: it gives records, and a {@link Gap} in the place of what was trimmed away, never a silent jump. It can be
 * taken up later from the last id that it gave. It keeps the process alive as long as a loop goes on. A tail that is
 * forgotten is closed.
 *
 * ```js
 * for await (const next of await stream.tail('head')) {
 *   if (next instanceof Gap) console.log(`records between ${next.from} and ${next.to} may be missing`);
 *   else console.log(next.id, next.fields);
 *   break;
 * }
 * ```
 */
class Tail {
  #native;
  /** @type {import('./native').TailedRow[]} What was taken and not given. */
  #rows = [];
  #next = 0;
  /** @type {Promise<void> | undefined} */
  #filling;
  #ended = false;
  /** @type {unknown} Why there is no more, until somebody is told. */
  #failure;
  #forgetSignal;

  /**
   * @internal
   * @param {import('./native').NativeTail} native
   * @param {AbortSignal} [signal]
   */
  constructor(native, signal) {
    this.#native = native;
    this.#forgetSignal = whenAborted(signal, new WeakRef(this), (tail) => tail.close());
  }

  /**
   * What comes next; `undefined` once the tail was closed.
   *
   * Fails once with the reason when the tail cannot go on: `wrong_type`, `version_fence`, or `closed` when the client was
   * closed. Whatever else happens it goes on where it was.
   *
   * @param {import('./consumer').WaitOptions} [options]
   * @returns {Promise<Record | Gap | undefined>}
   */
  async next(options) {
    const signal = options?.signal;
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

  /**
   * Record by record, until the tail is closed, which leaving the loop does. Fails as {@link Tail.next} does.
   *
   * @returns {AsyncGenerator<Record | Gap, void, undefined>}
   */
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

  /** Ends the tail: whoever waits for it gets `undefined`. */
  close() {
    this.#forgetSignal();
    this.#rows = [];
    this.#next = 0;
    this.#ended = true;
    this.#native.close();
  }

  /**
   * Closes the tail, for `await using`.
   *
   * @returns {Promise<void>}
   */
  async [Symbol.asyncDispose]() {
    this.close();
  }

  #pop() {
    if (this.#next === this.#rows.length) return undefined;
    const row = this.#rows[this.#next++];
    return row[0] === undefined ? new Gap(row[1], row[2]) : new Record(row);
  }

  #fill() {
    if (this.#filling === undefined) {
      this.#filling = callFor(this, (slot) => this.#native.take(slot), Tail.#filled);
    }
    return this.#filling;
  }

  /**
   * @param {Tail} tail
   * @param {import('./native').TailedRow[] | undefined} rows
   * @param {unknown} [failure]
   */
  static #filled(tail, rows, failure) {
    tail.#filling = undefined;
    if (tail.#ended) return;
    tail.#failure = failure;
    tail.#ended = rows === undefined;
    tail.#rows = rows ?? [];
    tail.#next = 0;
  }
}

module.exports = { Gap, Tail };
