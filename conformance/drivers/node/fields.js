/** Fields of the driver protocol: percent-encoded bytes, `%` for none of them, and a bare `|` between groups. */

const { isUtf8 } = require('node:buffer');

/** Reads a field as bytes. */
function bytes(text) {
  if (text === '%') return Buffer.alloc(0);
  return Buffer.from(
    text.replace(/%(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
}

/** Reads a field as text. */
function text(encoded) {
  return bytes(encoded).toString();
}

/** Reads a field as what a user would give: text where it is text, else bytes. */
function value(encoded) {
  const decoded = bytes(encoded);
  return isUtf8(decoded) ? decoded.toString() : decoded;
}

/** Writes bytes or text as a field. */
function field(content) {
  const written = Buffer.from(content).toString('latin1');
  if (written === '') return '%';
  return written.replace(
    /[^!-~]|[%|]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  );
}

/** Splits fields at the bare bars. */
function groups(fields) {
  const split = [[]];
  for (const encoded of fields) {
    if (encoded === '|') split.push([]);
    else split.at(-1).push(encoded);
  }
  return split;
}

/** Joins groups of fields by bare bars. */
function joined(lists) {
  return lists.flatMap((list, at) => (at === 0 ? list : ['|', ...list]));
}

/** Reads fields as names and values in pairs. */
function pairs(fields) {
  return Array.from({ length: fields.length / 2 }, (_, at) => [value(fields[2 * at]), value(fields[2 * at + 1])]);
}

module.exports = { field, groups, joined, pairs, text, value };
