const native = require('./native');
const { kindOf, text } = require('./arguments');

/**
 * What an id of any namespace says, for example of a job. Ids themselves are strings everywhere.
 *
 * Within one namespace, ids sort as text in the order in which they were minted.
 */
class BrandedId {
  /**
   * @internal
   * @param {string} id
   * @param {import('./native').IdParts} parts
   */
  constructor(id, parts) {
    /**
     * The id.
     * @type {string}
     * @readonly
     */
    this.id = id;
    /**
     * Its three letters.
     * @type {string}
     * @readonly
     */
    this.namespace = parts.namespace;
    /**
     * Its number, 63 bits of it.
     * @type {bigint}
     * @readonly
     */
    this.snowflake = parts.snowflake;
    /**
     * The instant of the mint, in milliseconds since 1970.
     * @type {number}
     * @readonly
     */
    this.unixMs = parts.unixMs;
    /**
     * The node that minted: 0 to 1022 for a host, 1023 for the sequencer.
     * @type {number}
     * @readonly
     */
    this.node = parts.node;
    /**
     * The sequence within the millisecond: 0 to 4095.
     * @type {number}
     * @readonly
     */
    this.sequence = parts.sequence;
  }

  /**
   * Reads an id. Throws with `malformed_id`.
   *
   * @param {string} id
   * @returns {BrandedId}
   */
  static parse(id) {
    const parts = native.parseBrandedId(text('An id', id));
    return parts.entryId === undefined ? new BrandedId(id, parts) : new EventId(id, parts);
  }

  /**
   * The id of a snowflake in a namespace. Throws with `malformed_id`.
   *
   * @param {string} namespace
   * @param {bigint} snowflake
   * @returns {string}
   */
  static encode(namespace, snowflake) {
    if (typeof snowflake !== 'bigint') throw new TypeError(`A snowflake is a bigint, not ${kindOf(snowflake)}`);
    return native.encodeBrandedId(text('A namespace', namespace), snowflake);
  }

  /** The id. */
  toString() {
    return this.id;
  }
}

/**
 * What the id of a stream record says.
 *
 * ```js
 * EventId.parse('EVT0NgWEfAER90').entryId; // '1780512970164-28714'
 * EventId.fromEntryId('1780512970164-28714'); // 'EVT0NgWEfAER90'
 * ```
 */
class EventId extends BrandedId {
  /**
   * @internal
   * @param {string} id
   * @param {import('./native').IdParts} parts
   */
  constructor(id, parts) {
    super(id, parts);
    /**
     * Where the record stands in its stream: the server's own id of it.
     * @type {string}
     * @readonly
     */
    this.entryId = /** @type {string} */ (parts.entryId);
  }

  /**
   * Reads an id. Throws with `malformed_id`, and with `kind` for another namespace.
   *
   * @override
   * @param {string} id
   * @returns {EventId}
   */
  static parse(id) {
    return new EventId(id, native.parseEventId(text('An id', id)));
  }

  /**
   * The id of the record with that entry id. Throws with `malformed_id` where no record can have it.
   *
   * @param {string} entryId
   * @returns {string}
   */
  static fromEntryId(entryId) {
    return native.eventIdOfEntry(text('An entry id', entryId));
  }
}

/** What the server's own id of an entry says: `<ms>-<seq>`. */
class EntryId {
  /**
   * @internal
   * @param {string} id
   * @param {{ ms: bigint, seq: bigint }} parts
   */
  constructor(id, parts) {
    /**
     * The entry id.
     * @type {string}
     * @readonly
     */
    this.id = id;
    /**
     * Milliseconds since 1970.
     * @type {bigint}
     * @readonly
     */
    this.ms = parts.ms;
    /**
     * The part behind the dash.
     * @type {bigint}
     * @readonly
     */
    this.seq = parts.seq;
  }

  /**
   * Reads an entry id. Throws with `malformed_id`.
   *
   * @param {string} entryId
   * @returns {EntryId}
   */
  static parse(entryId) {
    return new EntryId(entryId, native.parseEntryId(text('An entry id', entryId)));
  }

  /** The entry id. */
  toString() {
    return this.id;
  }
}

module.exports = { BrandedId, EventId, EntryId };
