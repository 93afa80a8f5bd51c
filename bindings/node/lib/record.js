/**
 * One entry of a stream.
 *
 * An entry that echomq did not write is *foreign*: it has no branded id and shows all its fields.
 */
class Record {
  /** @type {import('./native').Row} */
  #row;

  /**
   * @internal
   * @param {import('./native').Row} row
   */
  constructor(row) {
    this.#row = row;
    /**
     * The branded id; `null` for a foreign entry.
     * @type {string | null}
     * @readonly
     */
    this.id = row[0];
    /**
     * The server's id of the entry.
     * @type {string}
     * @readonly
     */
    this.entryId = row[1];
    /** @type {[string, string][]} */
    const fields = [];
    for (let at = 2; at < row.length; at += 2) fields.push([asText(row[at]), asText(row[at + 1])]);
    /**
     * Names and values in order, duplicates kept, as text. Bytes that are not valid UTF-8 read as U+FFFD here; `raw`
     * has them as they are.
     * @type {[name: string, value: string][]}
     * @readonly
     */
    this.fields = fields;
  }

  /** Whether echomq did not write the entry. */
  get foreign() {
    return this.id === null;
  }

  /**
   * Names and values in order, byte for byte.
   *
   * @returns {[name: Buffer, value: Buffer][]} Copies of the caller's own.
   */
  get raw() {
    /** @type {[Buffer, Buffer][]} */
    const raw = [];
    for (let at = 2; at < this.#row.length; at += 2) raw.push([asBytes(this.#row[at]), asBytes(this.#row[at + 1])]);
    return raw;
  }

  /**
   * The first value of a name, as text; `undefined` where there is none.
   *
   * @param {string} name
   * @returns {string | undefined}
   */
  get(name) {
    return this.fields.find((field) => field[0] === name)?.[1];
  }
}

/** @param {string | Buffer | null} part */
function asText(part) {
  return typeof part === 'string' ? part : String(part);
}

/** @param {string | Buffer | null} part */
function asBytes(part) {
  return Buffer.from(/** @type {any} */ (part));
}

module.exports = { Record };
