const { kindOf } = require('./arguments');

/** What handlers answer and throw. */

/**
 * @param {unknown} value
 * @returns {value is PromiseLike<unknown>}
 */
function isPromise(value) {
  return typeof value === 'object' && value !== null && 'then' in value;
}

/**
 * What was thrown, as a text.
 *
 * @param {unknown} reason
 * @returns {string}
 */
function textOf(reason) {
  try {
    return String(reason);
  } catch {
    return kindOf(reason);
  }
}

module.exports = { isPromise, textOf };
