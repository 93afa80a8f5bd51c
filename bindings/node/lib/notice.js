const { call } = require('./calls');

/**
 * Something that a consumer tells beside its deliveries, or a listener beside its events.
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
    /**
     * How many it stands for: the same trouble is told of at most once a second.
     * @type {number}
     * @readonly
     */
    this.times = parts.times;
  }
}

/**
 * @param {import('./native').NativeNotices} native
 * @returns {AsyncGenerator<Notice, void, undefined>}
 */
async function* notices(native) {
  for (;;) {
    /** @type {import('./native').NoticeParts | undefined} */
    const parts = await call((slot) => native.next(slot));
    if (parts === undefined) return;
    yield new Notice(parts);
  }
}

module.exports = { Notice, notices };
