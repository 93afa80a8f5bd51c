const { announced } = require('./announced');
const { checkOptions, count, instant, optional, start, text } = require('./arguments');
const { call } = require('./calls');
const { Consumer } = require('./consumer');
const { asTexts } = require('./options');
const { packAnnounced, packRecord, packRecords } = require('./pack');
const { Reader } = require('./reader');
const { Tail } = require('./tail');

/**
 * What every call that waits may be given.
 *
 * @typedef {object} CallOptions
 * @property {AbortSignal} [signal] Gives the waiting up: the promise is rejected with the signal's reason. What was sent
 *   is not taken back, so a record may still be written. With a signal that has fired before, nothing is sent.
 */

/**
 * @typedef {object} StreamOptions
 * @property {'one' | 'many'} [writers] How many clients append to the stream: `one`, unless given. See {@link Stream}.
 */

/**
 * @typedef {object} BatchOptions
 * @property {boolean} [atomic] Whether all records are written in one step, or none.
 * @property {boolean} [sequenced] Whether they are, on a stream of several writers.
 * @property {AbortSignal} [signal] As for every call.
 */

/**
 * How a range is read.
 *
 * @typedef {object} PageOptions
 * @property {number} [limit] The most records to give in all.
 * @property {number} [pageSize] How many records to ask for at a time, 1 000 unless given.
 * @property {number} [pageBytes] About how many bytes to ask for at a time, 4 MiB unless given: a page of large records has fewer
 * of them.
 * @property {AbortSignal} [signal] As for every call.
 */

/**
 * How a tail reads.
 *
 * @typedef {object} TailOptions
 * @property {number} [pageBytes] About how many bytes to read at once, and to hold ahead at most: 4 MiB unless given.
 * @property {AbortSignal} [signal] Gives the start up, and closes the tail later.
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
 * A consumer group, as the server had it at one instant.
 *
 * @typedef {object} GroupInfo
 * @property {string} name Its name; in one that another program gave, bytes that are not valid UTF-8 read as U+FFFD.
 * @property {number} pending How many entries were delivered and are not acknowledged.
 * @property {number | null} lag How many records were not delivered to the group yet; `null` where that is not known:
 *   where records were removed one by one ahead of the group, where the group began in the middle of the stream, and where
 *   many are ahead of it in a stream that was trimmed behind it.
 * @property {string} lastDelivered The entry id of the last entry that was delivered: the next one stands behind it.
 * @property {ConsumerInfo[]} consumers The consumers that the server knows, in its order.
 */

/**
 * A consumer of a group, as the server had it at one instant.
 *
 * @typedef {object} ConsumerInfo
 * @property {string} name Its name.
 * @property {number} pending How many entries were delivered to it and are not acknowledged.
 * @property {number} idle How many milliseconds ago it last asked for entries. Servers before 7.2 do not count an attempt
 *   that found nothing.
 */

/**
 * Where a reader begins: `new`, what is appended from now on; `head`, the oldest record there is; an id, the record behind
 * it; a Date, what was minted from that instant on. There is no default.
 *
 * @typedef {string | Date} Start
 */

/**
 * An append-only log of one queue.
 *
 * Its records carry a branded id, so that stream order, id order and the order of making are one. {@link Client.stream} is
 * told once how many writers the stream has:
 *
 * | | `writers: 'one'` | `writers: 'many'` |
 * |---|---|---|
 * | who appends | one client of one process | any number of clients, all with this |
 * | who makes the id | the writer | the writer, or the server where that id has no place |
 * | a second writer | its record is refused with `nonmonotonic` | is what it is for |
 * | an append is | one `XADD` | one call of a script |
 *
 * A refused record is never written elsewhere and never dropped in silence.
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
   * With many writers this is {@link Stream.appendSequenced}. What follows holds for one writer.
   *
   * The record is written once or reported, never twice: where the connection breaks before the answer came, the client
   * connects again and looks the id up.
   *
   * Fails with `reserved_field` for a field named `id`, `too_large`, `node_lease_lost` where no node id can be leased,
   * `clock_ahead` and `nonmonotonic`, and with `unknown_outcome`, with the id, when nobody could say by the deadline
   * whether the record is there.
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
   * Appends one record, and then publishes an event of the queue with its place: the members `stream` and `id` stand before
   * the further ones. A listener that missed something reads from the last id that it knows.
   *
   * Fails as {@link Stream.append} does, and as {@link Events.publish} for an event that cannot be published, which may not
   * have a member `stream` or `id` of its own either; nothing is published then. Once the record is there the call succeeds,
   * and says what became of the event.
   *
   * ```js
   * const { id, error } = await stream.appendAndPublish({ kind: 'guessed' }, 'completed', 'JOB000xY9Wvvcd');
   * if (error !== undefined) console.log(`${id} is written, and nobody was told: ${error.code}`);
   * ```
   *
   * @param {import('./pack').Fields} fields
   * @param {import('./pack').Value} event
   * @param {string} job
   * @param {import('./events').Members} [members]
   * @param {CallOptions} [options]
   * @returns {Promise<import('./announced').Announced>}
   */
  async appendAndPublish(fields, event, job, members, options) {
    const appending = (/** @type {number} */ slot) =>
      this.#native.appendAndPublish(slot, ...packAnnounced(fields, event, job, members));
    return announced(await call(appending, options?.signal));
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
   * Appends one record to a stream of several writers, and answers its branded id.
   *
   * The server decides in one step: the id is this client's own where that is above the stream's top, and else one of the
   * queue's sequencer. So no writer is refused, however late its clock or far its machine, and each one's own order is kept.
   *
   * Fails with `reserved_field`, `too_large`, `node_lease_lost` where no node id can be leased, `clock_ahead` when this
   * host's clock is more than a minute ahead of the server's, and `stream_ahead` when the stream's top or the sequencer is;
   * then nothing is written. Where the connection breaks before the answer came, the same question is asked again, and the
   * record is written once. `unknown_outcome`, with the id made here, is left for a deadline that passes, and for a record
   * that may have been written and removed meanwhile.
   *
   * ```js
   * const id = await stream.appendSequenced({ kind: 'guessed', player: 'PLR0NgWEfAEJfs' });
   * ```
   *
   * @param {import('./pack').Fields} fields
   * @param {CallOptions} [options]
   * @returns {Promise<string>}
   */
  appendSequenced(fields, options) {
    return call((slot) => this.#native.appendSequenced(slot, ...packRecord(fields)), options?.signal);
  }

  /**
   * Appends many records in one pipeline, and answers an id or an error for each, in their order.
   *
   * With `atomic` they are appended in one step of the server's, or none of them is: then the answer is ids, or the
   * promise is rejected. With `sequenced` the same holds, and the ids are made as by {@link Stream.appendSequenced}. A
   * record may then have up to 3 499 fields.
   *
   * With many writers all are appended in one step in any case. Without these options a record that is refused before it is
   * sent keeps its place and its error.
   *
   * @overload
   * @param {Iterable<import('./pack').Fields>} records
   * @param {BatchOptions & ({ atomic: true } | { sequenced: true })} options
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
      if (options?.sequenced) this.#native.appendBatchSequenced(slot, ...packed);
      else if (options?.atomic) this.#native.appendBatchAtomic(slot, ...packed);
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
    return new Reader(this.#native.read(...range(options)), options?.signal);
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
    const newest = count('How many records to read', records);
    return new Reader(this.#native.readLast(newest, ...pages(options)), options?.signal);
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

  /**
   * Starts a consumer of one of the stream's groups, which is made where it does not exist yet.
   *
   * When it answers, the group exists and its place is pinned on the server: what is appended from then on is seen. A signal
   * gives the start up, and stops the consumer later: its loop ends once the entry in hand is handled.
   *
   * Fails with `invalid_option`, `invalid_name`, `malformed_id` and `kind` for options, with `wrong_type` and whatever else
   * keeps the group from being made, and as {@link Client.connect} does.
   *
   * ```js
   * const consumer = await stream.consumer({ group: 'mailer', start: 'head', maxAttempts: 5, retry: '100..5000' });
   * console.log((await consumer.next()).attempts);
   * await consumer.stop(0);
   * ```
   *
   * @param {import('./generated').ConsumerOptions} options
   * @returns {Promise<Consumer>}
   */
  async consumer(options) {
    checkOptions(options);
    const { signal, ...others } = options;
    if (others.start !== undefined) others.start = start(others.start);
    const { names, values } = asTexts(/** @type {any} */ (others));
    const starting = (/** @type {number} */ slot) => this.#native.consumer(slot, names, values);
    const native = await call(starting, signal, (unwanted) => new Consumer(unwanted).stop(0));
    return new Consumer(native, signal);
  }

  /**
   * Follows the stream from a place on, for ever.
   *
   * When it answers, its place is pinned: what is appended from then on is seen. A signal gives the start up, and closes the
   * tail later.
   *
   * Fails with `wrong_type`, with `malformed_id`, `kind` and `invalid_option` for what is no start, and as
   * {@link Client.connect} does.
   *
   * @param {Start} from
   * @param {TailOptions} [options]
   * @returns {Promise<Tail>}
   */
  async tail(from, options) {
    const place = start(from);
    const pageBytes = optional(count, 'The bytes of a page', options?.pageBytes);
    const starting = (/** @type {number} */ slot) => this.#native.tail(slot, place, pageBytes);
    return new Tail(await call(starting, options?.signal, (unwanted) => unwanted.close()), options?.signal);
  }

  /**
   * Makes a consumer group, and the stream where it is missing. Answers whether this call made the group.
   *
   * A group that is there stays as it is, wherever it stands; {@link Stream.seek} moves it. Fails with `unknown_outcome`
   * when the answer was lost; making it again does no harm. Fails with `invalid_name`, and for what is no start as
   * {@link Stream.tail} does.
   *
   * @param {string} group
   * @param {Start} from
   * @param {CallOptions} [options]
   * @returns {Promise<boolean>}
   */
  createGroup(group, from, options) {
    const starting = (/** @type {number} */ slot) => this.#native.createGroup(slot, groupName(group), start(from));
    return call(starting, options?.signal);
  }

  /**
   * All consumer groups with their consumers, in the server's order, as they were at one instant. A stream that is not there
   * has none.
   *
   * ```js
   * for (const { name, pending, lag } of await stream.groups()) console.log(name, pending, lag ?? 'unknown');
   * ```
   *
   * @param {CallOptions} [options]
   * @returns {Promise<GroupInfo[]>}
   */
  groups(options) {
    return call((slot) => this.#native.groups(slot), options?.signal);
  }

  /**
   * One consumer group with its consumers, as it was at one instant. Fails with `no_group`, and with `invalid_name`.
   *
   * @param {string} group
   * @param {CallOptions} [options]
   * @returns {Promise<GroupInfo>}
   */
  group(group, options) {
    return call((slot) => this.#native.group(slot, groupName(group)), options?.signal);
  }

  /**
   * Moves a consumer group: what is delivered next is the first record of the start.
   *
   * What is pending stays pending. Records that the group moves back over are delivered again, those it moves on over are
   * not delivered to it. Fails with `no_group`, with `unknown_outcome` when no answer came in time, since moving it again
   * does no harm, and for what is no start as {@link Stream.tail} does.
   *
   * @param {string} group
   * @param {Start} to
   * @param {CallOptions} [options]
   * @returns {Promise<void>}
   */
  seek(group, to, options) {
    return call((slot) => this.#native.seek(slot, groupName(group), start(to)), options?.signal);
  }

  /**
   * Removes a consumer for which nothing is pending; looking and removing are one step of the server's.
   *
   * A consumer that reads on is made again by the server, and has lost nothing. Fails with `state`, naming how many, when
   * entries are pending for it, with `gone` when the group has no such consumer, with `no_group`, and with
   * `unknown_outcome` when the answer was lost; asking again does no harm.
   *
   * @param {string} group
   * @param {string} consumer
   * @param {CallOptions} [options]
   * @returns {Promise<void>}
   */
  removeConsumer(group, consumer, options) {
    const name = text('The name of a consumer', consumer);
    return call((slot) => this.#native.removeConsumer(slot, groupName(group), name), options?.signal);
  }

  /**
   * Removes all consumers of a group for which nothing is pending and that last asked more than that many milliseconds ago,
   * and answers their names. Looking and removing are one step of the server's.
   *
   * Fails with `no_group`, and with `unknown_outcome` when the answer was lost; asking again does no harm.
   *
   * @param {string} group
   * @param {number} idleMs
   * @param {CallOptions} [options]
   * @returns {Promise<string[]>}
   */
  sweepConsumers(group, idleMs, options) {
    const idle = (/** @type {number} */ slot) =>
      this.#native.sweepConsumers(slot, groupName(group), count('The idle time', idleMs));
    return call(idle, options?.signal);
  }

  /**
   * Removes a consumer group with all that is pending in it. Answers whether the group was there.
   *
   * The records stay. Fails with `unknown_outcome` when the answer was lost.
   *
   * @param {string} group
   * @param {CallOptions} [options]
   * @returns {Promise<boolean>}
   */
  removeGroup(group, options) {
    return call((slot) => this.#native.removeGroup(slot, groupName(group)), options?.signal);
  }

  /**
   * Reads the stream's dead letters, oldest first: what consumer groups gave up after its last attempt.
   *
   * A dead letter is a record with an id of its own and the fields `origin` (the id that it had; the entry id where it had
   * none), `group`, `attempts`, `error` and `at` (Unix milliseconds), and behind them its own fields as they were. Throws as
   * {@link Stream.read} does.
   *
   * ```js
   * for await (const letter of stream.deadLetters()) console.log(letter.get('origin'), letter.get('error'));
   * ```
   *
   * @param {RangeOptions} [options]
   * @returns {Reader}
   */
  deadLetters(options) {
    return new Reader(this.#native.deadLetters(...range(options)), options?.signal);
  }

  /**
   * Puts a dead letter back: its own fields become a new record of the stream, whose id is answered, and it is gone from the
   * dead letters, in one step. The new record is appended as by {@link Stream.appendSequenced}, for every group to see.
   *
   * It needs no node id. Fails with `gone` where there is no such dead letter, with `state` where the entry of that id is no
   * dead letter, with `malformed_id`, `kind`, `stream_ahead` and `clock_ahead`, and then nothing changed; and with
   * `unknown_outcome`, with the id that the record may have. Putting it back again does no harm.
   *
   * @param {string} id
   * @param {CallOptions} [options]
   * @returns {Promise<string>}
   */
  putBack(id, options) {
    return call((slot) => this.#native.putBack(slot, text('An id', id)), options?.signal);
  }
}

/**
 * @param {RangeOptions} [options]
 * @returns {[from?: string, to?: string, limit?: number, pageSize?: number, pageBytes?: number]}
 */
function range(options) {
  const from = optional(text, 'The id to read from', options?.from);
  return [from, optional(text, 'The id to read to', options?.to), ...paging(options)];
}

/** @param {unknown} name */
function groupName(name) {
  return text('The name of a group', name);
}

/**
 * @param {PageOptions} [options]
 * @returns {[limit?: number, pageSize?: number, pageBytes?: number]}
 */
function paging(options) {
  return [optional(count, 'The limit', options?.limit), ...pages(options)];
}

/**
 * @param {Omit<PageOptions, 'limit'>} [options]
 * @returns {[pageSize?: number, pageBytes?: number]}
 */
function pages(options) {
  const pageSize = optional(count, 'The size of a page', options?.pageSize);
  return [pageSize, optional(count, 'The bytes of a page', options?.pageBytes)];
}

module.exports = { Stream };
