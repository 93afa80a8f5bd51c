/**
 * Packs lists of texts and bytes for the native module: all parts end to end, and a table with the number of parts of
 * each list and their lengths. Handing over thousands of small values one by one would cost more than sending them.
 */

const { isUint8Array } = require('node:util').types;
const { kindOf } = require('./arguments');

/**
 * A name or a value: text, which becomes UTF-8, or bytes.
 *
 * @typedef {string | Uint8Array} Value
 */

/**
 * The fields of a record: an object of names and values, or names and values in pairs.
 *
 * Pairs keep any order and any number of equal names. An object cannot: JavaScript puts names like `"7"` first.
 *
 * @typedef {{ readonly [name: string]: Value } | Iterable<readonly [Value, Value]>} Fields
 */

let table = new Uint32Array(1024);

class Packer {
  /** @type {Value[]} All parts. */
  parts = [];
  /** @type {number[]} How many parts each list has. */
  counts = [];
  allText = true;

  /**
   * @param {string} what
   * @param {unknown} part
   */
  add(what, part) {
    if (typeof part !== 'string') {
      if (!isUint8Array(part)) throw new TypeError(`${what} is a string or a Uint8Array, not ${kindOf(part)}`);
      this.allText = false;
    }
    this.parts.push(/** @type {Value} */ (part));
  }

  /** @param {unknown} fields */
  addFields(fields) {
    if (typeof fields !== 'object' || fields === null) {
      throw new TypeError(`The fields of a record are an object or pairs, not ${kindOf(fields)}`);
    }
    const before = this.parts.length;
    if (Symbol.iterator in fields) {
      for (const pair of /** @type {Iterable<unknown>} */ (fields)) {
        if (!Array.isArray(pair) || pair.length !== 2) {
          throw new TypeError('A field is a pair: an array of its name and its value');
        }
        this.add('The name of a field', pair[0]);
        this.add('The value of a field', pair[1]);
      }
    } else {
      for (const name of Object.keys(fields)) {
        this.parts.push(name);
        this.add('The value of a field', /** @type {any} */ (fields)[name]);
      }
    }
    this.counts.push(this.parts.length - before);
  }

  /** @param {unknown} list */
  addCommand(list) {
    if (!Array.isArray(list)) throw new TypeError(`A command is an array, not ${kindOf(list)}`);
    for (const part of list) this.add('A part of a command', part);
    this.counts.push(list.length);
  }

  /** @returns {import('./native').Packed} Good until the next call. */
  packed() {
    return this.allText ? this.text() : this.bytes();
  }

  /** @returns {import('./native').Packed} */
  text() {
    let text = '';
    for (const part of this.parts) text += part;
    if (!text.isWellFormed()) throw new TypeError('A text holds half a surrogate pair, which UTF-8 has no bytes for');
    return this.laidOut(text, this.parts);
  }

  /** @returns {import('./native').Packed} */
  bytes() {
    const parts = this.parts.map((part) => {
      if (typeof part !== 'string') return part;
      if (part.isWellFormed()) return Buffer.from(part);
      throw new TypeError('A text holds half a surrogate pair, which UTF-8 has no bytes for');
    });
    return this.laidOut(Buffer.concat(parts), parts);
  }

  /**
   * @param {string | Uint8Array} content
   * @param {{ length: number }[]} parts
   * @returns {import('./native').Packed}
   */
  laidOut(content, parts) {
    const length = parts.length + this.counts.length;
    if (length > table.length) table = new Uint32Array(2 * length);
    let at = 0;
    let part = 0;
    for (const count of this.counts) {
      table[at++] = count;
      for (const end = part + count; part < end; ) table[at++] = parts[part++].length;
    }
    return [content, table, length];
  }
}

/**
 * @param {unknown} fields
 * @returns {import('./native').Packed}
 */
function packRecord(fields) {
  const packer = new Packer();
  packer.addFields(fields);
  return packer.packed();
}

/**
 * @param {unknown} records
 * @returns {import('./native').Packed}
 */
function packRecords(records) {
  const packer = new Packer();
  for (const fields of iterable('Records', records)) packer.addFields(fields);
  return packer.packed();
}

/**
 * @param {unknown} command
 * @returns {import('./native').Packed}
 */
function packCommand(command) {
  const packer = new Packer();
  packer.addCommand(command);
  return packer.packed();
}

/**
 * @param {unknown} commands
 * @returns {import('./native').Packed}
 */
function packCommands(commands) {
  const packer = new Packer();
  for (const command of iterable('Commands', commands)) packer.addCommand(command);
  return packer.packed();
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {Iterable<unknown>}
 */
function iterable(what, value) {
  if (typeof value === 'object' && value !== null && Symbol.iterator in value) {
    return /** @type {Iterable<unknown>} */ (value);
  }
  throw new TypeError(`${what} are an iterable, not ${kindOf(value)}`);
}

module.exports = { packRecord, packRecords, packCommand, packCommands };
