const { count, instant, optional, text } = require('./arguments');
const { call } = require('./calls');
const { packRecord, packRecords } = require('./pack');
const { Reader } = require('./reader');

/**
 * What every call that waits may be given.
 *
 * @typedef {object} CallOptions
 * @property {AbortSignal} [signal] Gives the waiting up: the promise is rejected with the signal's reason. What was sent
 *   is not taken back, so a record may still be written. With a signal that has fired before, nothing is sent.
 */

/**
 * @typedef {object} BatchOptions
 * @property {boolean} [atomic] Whether all records are written in one step, or none.
 * @property {AbortSignal} [signal] As for every call.
 */

/**
 * How a range is read.
 *
 * @typedef {object} PageOptions
 * @property {number} [limit] The most records to give in all.
 * @property {number} [pageSize] How many records to ask for at a time.
 * @property {AbortSignal} [signal] As for every call.
 */

/**
 * A range by ids: `-` and `+` for the ends of the stream, an id, or `(` and an id for what lies behind or before it.
 * Without a bound the range reaches to the end of the stream.
 *
 * @typedef {PageOptions & { from?: string, to?: string }} RangeOptions
 */

/**
 * What to keep of a stream: that many of the newest records, or what was minted at or after an instant.
 *
 * Unless `exact` is asked for, the server lets go of whole nodes of its tree only. That is much cheaper and may keep
 * about a hundred records more, never fewer.
 *
 * @typedef {{ maxLen: number, exact?: boolean, signal?: AbortSignal }
 *   | { minId: Date, exact?: boolean, signal?: AbortSignal }} TrimOptions
 */

/**
 * An append-only log of one queue.
 *
 * Its records carry a branded id made by the writer, so that stream order, id order and the order of making are one. For
 * that it has *one writer*: one client of one process. A record of a second writer whose id is not above the stream's
 * top is refused with `nonmonotonic`, never written elsewhere and never dropped in silence.
 *
 * A call is sent when the method is called, not when its promise is awaited: several calls in a row go out in that order,
 * together, and awaiting them afterwards costs one round trip in all.
 *
 * Every call can fail with `wrong_type`, `auth`, `out_of_memory` and `server`, when the server says so; with `overloaded`
 * when too many calls wait; with `disconnected` when there was no connection until the client's `timeout`; with
 * `timeout` when only the answer was late; with `closed`. An argument of a wrong kind is a `TypeError`.
 */
class Stream {
  #native;

  /**
   * @internal
   * @param {import('./native').NativeStream} native
   */
  constructor(native) {
    this.#native = native;
    /**
     * The stream's key on the server.
     * @type {string}
     * @readonly
     */
    this.key = native.key();
  }

  /**
   * Appends one record and answers its branded id.
   *
   * The record is written once or reported, never twice: where the connection breaks before the answer came, the client
   * connects again and looks the id up.
   *
   * Fails with `reserved_field` for a field named `id`, `too_large`, `invalid_option` without a node id, `clock_ahead`
   * and `nonmonotonic`, and with `unknown_outcome`, with the id, when nobody could say by the deadline whether the record
   * is there.
   *
   * ```js
   * const id = await stream.append({ kind: 'guessed', player: 'PLR0NgWEfAEJfs' });
   * const next = await stream.append([['letter', 'e'], ['letter', 'n'], ['picture', new Uint8Array([0, 255])]]);
   * ```
   *
   * @param {import('./pack').Fields} fields
   * @param {CallOptions} [options]
   * @returns {Promise<string>}
   */
  append(fields, options) {
    return call((slot) => this.#native.append(slot, ...packRecord(fields)), options?.signal);
  }

  /**
   * Appends one record under an id of the caller's, to repeat history or to ask again after `unknown_outcome`.
   *
   * Fails as {@link Stream.append} does, and with `malformed_id` and `kind`; it needs no node id and does not look at the
   * clock.
   *
   * @param {string} id
   * @param {import('./pack').Fields} fields
   * @param {CallOptions} [options]
   * @returns {Promise<string>}
   */
  appendId(id, fields, options) {
    return call((slot) => this.#native.appendId(slot, ...packRecord(fields), text('An id', id)), options?.signal);
  }

  /**
   * Appends many records in one pipeline, and answers an id or an error for each, in their order.
   *
   * With `atomic` they are appended in one step of the server's, or none of them is: then the answer is ids, or the
   * promise is rejected. A record may then have up to 3 499 fields.
   *
   * @overload
   * @param {Iterable<import('./pack').Fields>} records
   * @param {BatchOptions & { atomic: true }} options
   * @returns {Promise<string[]>}
   */
  /**
   * @overload
   * @param {Iterable<import('./pack').Fields>} records
   * @param {BatchOptions} [options]
   * @returns {Promise<(string | import('./errors').EchoMQError)[]>}
   */
  /**
   * @param {Iterable<import('./pack').Fields>} records
   * @param {BatchOptions} [options]
   * @returns {Promise<any>}
   */
  appendBatch(records, options) {
    return call((slot) => {
      const packed = packRecords(records);
      if (options?.atomic) this.#native.appendBatchAtomic(slot, ...packed);
      else this.#native.appendBatch(slot, ...packed);
    }, options?.signal);
  }

  /**
   * Reads a range, oldest first. Throws with `malformed_id` or `kind` for a bound that is no id.
   *
   * @param {RangeOptions} [options]
   * @returns {Reader}
   */
  read(options) {
    const from = optional(text, 'The id to read from', options?.from);
    const to = optional(text, 'The id to read to', options?.to);
    return new Reader(this.#native.read(from, to, ...paging(options)), options?.signal);
  }

  /**
   * Reads what was minted in the closed interval of two instants, oldest first.
   *
   * Throws with `invalid_window` when the second is before the first.
   *
   * @param {Date} first
   * @param {Date} last
   * @param {PageOptions} [options]
   * @returns {Reader}
   */
  readWindow(first, last, options) {
    const window = [instant('The start of a window', first), instant('The end of a window', last)];
    return new Reader(this.#native.readWindow(window[0], window[1], ...paging(options)), options?.signal);
  }

  /**
   * Reads what was minted at or after an instant, oldest first.
   *
   * @param {Date} first
   * @param {PageOptions} [options]
   * @returns {Reader}
   */
  readSince(first, options) {
    const since = instant('The instant to read from', first);
    return new Reader(this.#native.readSince(since, ...paging(options)), options?.signal);
  }

  /**
   * Reads that many of the newest records, newest first.
   *
   * @param {number} records
   * @param {Omit<PageOptions, 'limit'>} [options]
   * @returns {Reader}
   */
  readLast(records, options) {
    const pageSize = optional(count, 'The size of a page', options?.pageSize);
    return new Reader(this.#native.readLast(count('How many records to read', records), pageSize), options?.signal);
  }

  /**
   * Lets go of old records and answers how many went.
   *
   * Nothing looks at consumer groups here: a record goes whether it was read or not. Fails with `unknown_outcome` when
   * the connection broke before the answer came; trimming again does no harm then.
   *
   * ```js
   * await stream.trim({ maxLen: 100_000 });
   * await stream.trim({ minId: new Date(Date.now() - 86_400_000), exact: true });
   * ```
   *
   * @param {TrimOptions} options
   * @returns {Promise<number>}
   */
  trim(options) {
    return call((slot) => {
      const exact = options.exact === true;
      if ('maxLen' in options === 'minId' in options) throw new TypeError('Trimming needs one of maxLen and minId');
      if ('maxLen' in options) this.#native.trimMaxLen(slot, count('maxLen', options.maxLen), exact);
      else this.#native.trimMinId(slot, instant('minId', options.minId), exact);
    }, options?.signal);
  }
}

/**
 * @param {PageOptions} [options]
 * @returns {[limit?: number, pageSize?: number]}
 */
function paging(options) {
  return [optional(count, 'The limit', options?.limit), optional(count, 'The size of a page', options?.pageSize)];
}

module.exports = { Stream };
