const native = require('./native');

/**
 * Whose value, on an error, is its code. It is the same for every copy of this package that a process has loaded, as test
 * runners do: an error of one copy is an instance of the other's classes.
 */
const CODE = Symbol.for('echomq.error.code');

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
   * @param {boolean} retryable
   * @param {unknown} [cause]
   */
  constructor(code, message, subject, id, top, retryable, cause) {
    super(message, cause ? { cause } : undefined);
    Object.defineProperty(this, CODE, { value: code });
    /**
     * The cause, one word of the protocol's list.
     * @type {import('./generated').Code}
     * @readonly
     */
    this.code = /** @type {import('./generated').Code} */ (code);
    /**
     * Whether the same call may succeed later without any change by the caller.
     * @type {boolean}
     * @readonly
     */
    this.retryable = retryable;
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

/** The code of the base class: any. */
const ANY = Symbol('any');

/**
 * The code of each class of this copy.
 *
 * @type {Map<unknown, string | symbol>}
 */
const codeOf = new Map([[EchoMQError, ANY]]);

Object.defineProperty(EchoMQError, Symbol.hasInstance, {
  /**
   * @this {unknown}
   * @param {unknown} value
   * @returns {boolean} Whether it is an error of this class, made by whichever copy of this package.
   */
  value: function hasInstance(value) {
    if (Function.prototype[Symbol.hasInstance].call(this, value)) return true;
    // A class that somebody derived has no code of its own here, and no instances but its own.
    const own = codeOf.get(this);
    const code = /** @type {any} */ (value)?.[CODE];
    return own !== undefined && code !== undefined && (own === ANY || own === code);
  },
});

/** @type {Map<string, typeof EchoMQError>} */
const classes = new Map();
for (const code of native.codes()) {
  const name = className(code);
  const made = { [name]: class extends EchoMQError {} }[name];
  Object.defineProperty(made.prototype, 'name', { value: name, configurable: true, writable: true });
  classes.set(code, made);
  codeOf.set(made, code);
}

/** @type {import('./native').MakeError} */
function makeError(code, message, subject, id, top, retryable = false, cause = null) {
  return new (classes.get(code) ?? EchoMQError)(code, message, subject, id, top, retryable, cause);
}

module.exports = { EchoMQError, classes, className, makeError };
