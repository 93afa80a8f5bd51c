const { Pull } = require('./pull');
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
  #pull;

  /**
   * @internal
   * @param {import('./native').NativeTail} native
   * @param {AbortSignal} [signal]
   */
  constructor(native, signal) {
    this.#pull = new Pull(native, 1, tailed, signal);
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
  next(options) {
    return this.#pull.next(options?.signal);
  }

  /**
   * Record by record, until the tail is closed, which leaving the loop does. Fails as {@link Tail.next} does.
   *
   * @returns {AsyncGenerator<Record | Gap, void, undefined>}
   */
  [Symbol.asyncIterator]() {
    return this.#pull[Symbol.asyncIterator]();
  }

  /** Ends the tail: whoever waits for it gets `undefined`. */
  close() {
    this.#pull.close();
  }

  /**
   * Closes the tail, for `await using`.
   *
   * @returns {Promise<void>}
   */
  async [Symbol.asyncDispose]() {
    this.close();
  }
}

/**
 * @param {import('./native').TailedRow[]} rows
 * @param {number} at
 * @returns {Record | Gap}
 */
function tailed(rows, at) {
  const row = rows[at];
  return row[0] === undefined ? new Gap(row[1], row[2]) : new Record(row);
}

module.exports = { Gap, Tail };
