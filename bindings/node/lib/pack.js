/**
 * Packs lists of texts and bytes for the native module: all parts end to end, and a table with the number of parts of
 * each list and their lengths. Handing over thousands of small values one by one would cost more than sending them.
 */

const { isUint8Array } = require('node:util').types;
const { kindOf, text } = require('./arguments');

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

/** Names and values of each kind, in words for errors. */
const FIELDS = {
  all: 'The fields of a record',
  one: 'A field',
  name: 'The name of a field',
  value: 'The value of a field',
};

const MEMBERS = {
  all: 'The further members of an event',
  one: 'A member',
  name: 'The name of a member',
  value: 'The value of a member',
};

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

  /**
   * @param {typeof FIELDS} of
   * @param {unknown} pairs
   */
  addPairs(of, pairs) {
    if (typeof pairs !== 'object' || pairs === null) {
      throw new TypeError(`${of.all} are an object or pairs, not ${kindOf(pairs)}`);
    }
    const before = this.parts.length;
    if (Symbol.iterator in pairs) {
      for (const pair of /** @type {Iterable<unknown>} */ (pairs)) {
        if (!Array.isArray(pair) || pair.length !== 2) {
          throw new TypeError(`${of.one} is a pair: an array of its name and its value`);
        }
        this.add(of.name, pair[0]);
        this.add(of.value, pair[1]);
      }
    } else {
      for (const name of Object.keys(pairs)) {
        this.parts.push(name);
        this.add(of.value, /** @type {any} */ (pairs)[name]);
      }
    }
    this.counts.push(this.parts.length - before);
  }

  /**
   * @param {unknown} event
   * @param {unknown} job
   * @param {unknown} members
   */
  addSignal(event, job, members) {
    this.add('An event', event);
    this.parts.push(text('A job', job));
    this.counts.push(2);
    this.addPairs(MEMBERS, members);
  }

  /** @param {unknown} list */
  addCommand(list) {
    if (!Array.isArray(list)) throw new TypeError(`A command is an array, not ${kindOf(list)}`);
    for (const part of list) this.add('A part of a command', part);
    this.counts.push(list.length);
  }

  /** @returns {import('./native').Packed} Good until the next call. */
  packed() {
    return this.allText ? this.asText() : this.asBytes();
  }

  /** @returns {import('./native').Packed} */
  asText() {
    let text = '';
    for (const part of this.parts) text += part;
    if (!text.isWellFormed()) throw new TypeError('A text holds half a surrogate pair, which UTF-8 has no bytes for');
    return this.laidOut(text, this.parts);
  }

  /** @returns {import('./native').Packed} */
  asBytes() {
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
  packer.addPairs(FIELDS, fields);
  return packer.packed();
}

/**
 * @param {unknown} records
 * @returns {import('./native').Packed}
 */
function packRecords(records) {
  const packer = new Packer();
  for (const fields of iterable('Records', records)) packer.addPairs(FIELDS, fields);
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
 * An event to publish: a list of its name and its job, and a list of its further members.
 *
 * @param {unknown} event
 * @param {unknown} job
 * @param {unknown} [members]
 * @returns {import('./native').Packed}
 */
function packSignal(event, job, members = {}) {
  const packer = new Packer();
  packer.addSignal(event, job, members);
  return packer.packed();
}

/**
 * The same, and a list of the fields of a record.
 *
 * @param {unknown} fields
 * @param {unknown} event
 * @param {unknown} job
 * @param {unknown} [members]
 * @returns {import('./native').Packed}
 */
function packAnnounced(fields, event, job, members = {}) {
  const packer = new Packer();
  packer.addSignal(event, job, members);
  packer.addPairs(FIELDS, fields);
  return packer.packed();
}

/**
 * A job and something about it.
 *
 * @param {unknown} job
 * @param {string} what
 * @param {unknown} value
 * @returns {import('./native').Packed}
 */
function packAbout(job, what, value) {
  const packer = new Packer();
  packer.parts.push(text('A job', job));
  packer.add(what, value);
  packer.counts.push(2);
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

module.exports = { packAbout, packAnnounced, packCommand, packCommands, packRecord, packRecords, packSignal };
