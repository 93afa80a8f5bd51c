const native = require('./native');
const { text } = require('./arguments');

/**
 * The keys of one queue. They share a cluster slot.
 *
 * ```js
 * new Keyspace('orders').stream('events'); // 'emq:{orders}:stream:events'
 * ```
 */
class Keyspace {
  /**
   * Throws with `invalid_name`.
   *
   * @param {string} queue
   */
  constructor(queue) {
    native.checkQueue(text('A queue', queue));
    /**
     * The queue's name.
     * @type {string}
     * @readonly
     */
    this.queue = queue;
  }

  /**
   * The key of a stream. Throws with `invalid_name`.
   *
   * @param {string} name
   * @returns {string}
   */
  stream(name) {
    return native.streamKey(this.queue, text('The name of a stream', name));
  }

  /**
   * The key of any type, for example `stream:events` or `seq`. Throws with `invalid_name`.
   *
   * @param {string} type
   * @returns {string}
   */
  key(type) {
    return native.key(this.queue, text('The type of a key', type));
  }

  /**
   * The cluster slot of a key.
   *
   * @param {string} key
   * @returns {number}
   */
  static slot(key) {
    return native.slot(text('A key', key));
  }
}

module.exports = { Keyspace };
