const native = require('./native');

/**
 * What went wrong: one class of errors for each code, and this base of them all.
 *
 * Decide by `code` or by class. The message is for people and may change.
 */
class EchoMQError extends Error {
  /**
   * @internal
   * @param {string} code
   * @param {string} message
   * @param {string | null} subject
   * @param {string | null} id
   * @param {string | null} top
   */
  constructor(code, message, subject, id, top) {
    super(message);
    /**
     * The cause, one word of the protocol's list.
     * @type {import('./generated').Code}
     * @readonly
     */
    this.code = /** @type {import('./generated').Code} */ (code);
    if (subject !== null) {
      /**
       * The key or name concerned, where there is one.
       * @type {string | undefined}
       * @readonly
       */
      this.subject = subject;
    }
    if (id !== null) {
      /**
       * The id of the record concerned: with `unknown_outcome`, the one to ask again with through `appendId`; with
       * `nonmonotonic`, the one that was refused.
       * @type {string | undefined}
       * @readonly
       */
      this.id = id;
    }
    if (top !== null) {
      /**
       * With `nonmonotonic`, the entry id of the stream's top.
       * @type {string | undefined}
       * @readonly
       */
      this.top = top;
    }
  }
}

Object.defineProperty(EchoMQError.prototype, 'name', { value: 'EchoMQError', configurable: true, writable: true });

/**
 * The name of a code's class: `unknown_outcome` has `UnknownOutcomeError`.
 *
 * @param {string} code
 * @returns {string}
 */
function className(code) {
  return `${code.replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase())}Error`;
}

/** @type {Map<string, typeof EchoMQError>} */
const classes = new Map();
for (const code of native.codes()) {
  const name = className(code);
  const made = { [name]: class extends EchoMQError {} }[name];
  Object.defineProperty(made.prototype, 'name', { value: name, configurable: true, writable: true });
  classes.set(code, made);
}

/** @type {import('./native').MakeError} */
function makeError(code, message, subject, id, top) {
  return new (classes.get(code) ?? EchoMQError)(code, message, subject, id, top);
}

module.exports = { EchoMQError, classes, className, makeError };
