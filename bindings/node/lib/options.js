const { kindOf } = require('./arguments');

/**
 * The core's name of an option: `nodeId` is `node_id` there.
 *
 * @param {string} name
 * @returns {string}
 */
function coreName(name) {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/**
 * Options as names and texts, which is how the core takes them.
 *
 * @param {{ readonly [name: string]: unknown }} options
 * @returns {{ names: string[], values: string[] }}
 */
function asTexts(options) {
  const names = [];
  const values = [];
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'bigint') {
      throw new TypeError(`The option ${name} is a string or a number, not ${kindOf(value)}`);
    }
    names.push(coreName(name));
    values.push(String(value));
  }
  return { names, values };
}

module.exports = { asTexts, coreName };
