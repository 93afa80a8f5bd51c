const { isDate } = require('node:util').types;

/** Checks of what kind an argument is. What it may say, the core decides. */

/**
 * @param {unknown} value
 * @returns {string} Its kind, in words for an error.
 */
function kindOf(value) {
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object'
    ? `an object (${value.constructor?.name ?? 'without a class'})`
    : `a ${typeof value}`;
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {string}
 */
function text(what, value) {
  if (typeof value === 'string') return value;
  throw new TypeError(`${what} is a string, not ${kindOf(value)}`);
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {number} Milliseconds since 1970.
 */
function instant(what, value) {
  if (isDate(value)) return value.getTime();
  throw new TypeError(`${what} is a Date, not ${kindOf(value)}`);
}

/**
 * Where to begin, as text: what is a text already, or an instant.
 *
 * @param {unknown} value
 * @returns {string}
 */
function start(value) {
  return typeof value === 'string' ? value : `@${instant('A start that is no string', value)}`;
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {number}
 */
function count(what, value) {
  if (typeof value !== 'number') throw new TypeError(`${what} is a number, not ${kindOf(value)}`);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new RangeError(`${what} is a whole number from 0 on, not ${value}`);
}

/**
 * @param {string} what
 * @param {unknown} value
 */
function checkFunction(what, value) {
  if (typeof value !== 'function') throw new TypeError(`${what} is a function, not ${kindOf(value)}`);
}

/** @param {unknown} value */
function checkOptions(value) {
  if (typeof value === 'object' && value !== null) return;
  throw new TypeError(`The options are an object, not ${kindOf(value)}`);
}

/**
 * @template T, R
 * @param {(what: string, value: T) => R} check
 * @param {string} what
 * @param {T | undefined} value
 * @returns {R | undefined}
 */
function optional(check, what, value) {
  return value === undefined ? undefined : check(what, value);
}

module.exports = { kindOf, text, instant, start, count, checkFunction, checkOptions, optional };
