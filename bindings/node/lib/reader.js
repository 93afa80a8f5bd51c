const { call } = require('./calls');
const { Record } = require('./record');

/**
 * The records of a range, asked for a page at a time, so that any range is read in bounded memory.
 *
 * Iterate it once, by record, by page, or all at once. Records that are appended meanwhile are seen where they lie in
 * the range ahead. Asking for records fails as every call of a {@link Stream} does; after an error the same reader can
 * be asked again and goes on where it was.
 *
 * ```js
 * for await (const record of stream.read()) console.log(record.id, record.fields);
 * ```
 */
class Reader {
  #native;
  #signal;

  /**
   * @internal
   * @param {import('./native').NativeReader} native
   * @param {AbortSignal} [signal]
   */
  constructor(native, signal) {
    this.#native = native;
    this.#signal = signal;
  }

  /**
   * Record by record.
   *
   * @returns {AsyncGenerator<Record, void, undefined>}
   */
  async *[Symbol.asyncIterator]() {
    for await (const page of this.pages()) yield* page;
  }

  /**
   * Page by page, none of them empty.
   *
   * @returns {AsyncGenerator<Record[], void, undefined>}
   */
  async *pages() {
    for (;;) {
      /** @type {import('./native').Row[] | undefined} */
      const rows = await call((slot) => this.#native.page(slot), this.#signal);
      if (rows === undefined) return;
      yield rows.map((row) => new Record(row));
    }
  }

  /**
   * All that is left, in one array.
   *
   * @returns {Promise<Record[]>}
   */
  async toArray() {
    const records = [];
    for await (const record of this) records.push(record);
    return records;
  }
}

module.exports = { Reader };
