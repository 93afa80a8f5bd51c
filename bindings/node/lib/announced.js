/** What the core answers to an append that is published. */

/**
 * A record that was appended, and what became of its event.
 *
 * @typedef {object} Announced
 * @property {string} id The record's branded id. It is in the stream, whatever became of the event.
 * @property {number | undefined} published How many listened; `undefined` where the event was not published.
 * @property {import('./errors').EchoMQError | undefined} error Why it was not.
 */

/**
 * @param {[id: string, published: number | import('./errors').EchoMQError]} answer
 * @returns {Announced}
 */
function announced([id, published]) {
  return typeof published === 'number'
    ? { id, published, error: undefined }
    : { id, published: undefined, error: published };
}

module.exports = { announced };
