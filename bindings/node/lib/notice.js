/**
 * Something that a consumer tells beside its deliveries.
 */
class Notice {
  /**
   * @internal
   * @param {import('./native').NoticeParts} parts
   */
  constructor(parts) {
    /**
     * What it is about.
     * @type {import('./generated').NoticeKind}
     * @readonly
     */
    this.kind = /** @type {import('./generated').NoticeKind} */ (parts.kind);
    /**
     * A sentence for people.
     * @type {string}
     * @readonly
     */
    this.message = parts.message;
    /**
     * The server's id of the entry concerned, where there is one.
     * @type {string | undefined}
     * @readonly
     */
    this.entryId = parts.entryId;
    /**
     * The branded id that belongs to the entry's place, where there is one.
     * @type {string | undefined}
     * @readonly
     */
    this.id = parts.id;
    /**
     * How often the entry was delivered, where that matters.
     * @type {number | undefined}
     * @readonly
     */
    this.attempts = parts.attempts;
    /**
     * The cause of a trouble.
     * @type {import('./generated').Code | undefined}
     * @readonly
     */
    this.code = /** @type {import('./generated').Code | undefined} */ (parts.code);
  }
}

module.exports = { Notice };
