const { count, optional } = require('./arguments');
const { makeError } = require('./errors');
const { textOf } = require('./handlers');
const { Record } = require('./record');

/**
 * How a delivery fails.
 *
 * @typedef {object} FailOptions
 * @property {number} [delay] After how many milliseconds the entry is to come back, `minIdle` at most, whatever the
 *   consumer's `retry` says.
 */

/**
 * An entry in hand: a record that gets one verdict, {@link Delivery.ack} or {@link Delivery.fail}.
 *
 * While it is in hand it is kept from other consumers, however long that takes. One that is forgotten without a verdict
 * stays pending, and comes back to some consumer `minIdle` after it was collected as garbage.
 *
 * A second verdict throws with `state`.
 */
class Delivery extends Record {
  #batch;
  #number;
  #settled = false;

  /**
   * @internal
   * @param {import('./deliveries').Batch} batch
   * @param {number} number
   * @param {import('./native').Row} row
   * @param {number} attempts
   */
  constructor(batch, number, row, attempts) {
    super(row);
    this.#batch = batch;
    this.#number = number;
    /**
     * How often the entry was delivered, this delivery included.
     * @type {number}
     * @readonly
     */
    this.attempts = attempts;
    /**
     * The group that it was delivered to.
     * @type {string}
     * @readonly
     */
    this.group = batch.group;
  }

  /** Whether it has its verdict, or was given back. */
  get settled() {
    return this.#settled;
  }

  /**
   * The entry was handled: the group forgets it.
   *
   * The acknowledgement leaves together with others; see {@link Consumer.flush}.
   */
  ack() {
    this.#settle();
    this.#batch.ack(this.#number);
  }

  /**
   * The entry was not handled: it comes back, or becomes a dead letter, which keeps the reason.
   *
   * @param {unknown} reason An error, or any text.
   * @param {FailOptions} [options]
   */
  fail(reason, options) {
    const delay = optional(count, 'The delay', options?.delay);
    this.#settle();
    this.#batch.fail(this.#number, textOf(reason), delay);
  }

  /**
   * Shows a sign of life for this entry now.
   *
   * The consumer does so by itself, on a thread of its own, at a third of `minIdle`.
   */
  extend() {
    this.#check();
    this.#batch.extend(this.#number);
  }

  /**
   * Gives the entry back as if it had not been handed out: to the front of what its consumer has, or to the group where
   * the consumer has stopped.
   */
  giveBack() {
    this.#settle();
    this.#batch.giveBack(this.#number);
  }

  #settle() {
    this.#check();
    this.#settled = true;
  }

  #check() {
    if (this.#settled) throw makeError('state', 'the delivery has its verdict already', this.entryId, this.id, null);
  }
}

module.exports = { Delivery };
