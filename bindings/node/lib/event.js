const native = require('./native');

/**
 * An event that was heard.
 *
 * Whatever comes on the channel is given. What is no JSON object, or has no text `event`, has the name `unknown`; its payload
 * has the bytes as they came.
 */
class Event {
  #payload;
  /** @type {{ [name: string]: string } | undefined} */
  #members;

  /**
   * @internal
   * @param {string} name
   * @param {string | null} job
   * @param {string | Buffer} payload
   */
  constructor(name, job, payload) {
    /**
     * Its name, for example `completed`.
     * @type {string}
     * @readonly
     */
    this.name = name;
    /**
     * The id of the job that it is about; `null` where the payload has no well-formed one.
     * @type {string | null}
     * @readonly
     */
    this.job = job;
    this.#payload = payload;
  }

  /**
   * The bytes as they came: a copy of the caller's own.
   *
   * @returns {Buffer}
   */
  get payload() {
    return Buffer.from(/** @type {any} */ (this.#payload));
  }

  /**
   * All members by name, `event` and `job` among them, in an object without a prototype. A value that is no string, which this
   * bus does not write, is its JSON text. It is empty for what is no JSON object.
   *
   * The payload is read when they are first asked for.
   *
   * @returns {{ readonly [name: string]: string }}
   */
  get members() {
    if (this.#members === undefined) {
      /** @type {{ [name: string]: string }} */
      const members = Object.create(null);
      const parts = native.eventMembers(this.#payload);
      for (let at = 0; at < parts.length; at += 2) members[parts[at]] = parts[at + 1];
      this.#members = members;
    }
    return this.#members;
  }

  /**
   * The value of a member; `undefined` where there is none.
   *
   * @param {string} name
   * @returns {string | undefined}
   */
  get(name) {
    return this.members[name];
  }
}

/**
 * A place where events are missing, or may be. What must not be missed belongs into a {@link Stream}.
 */
class EventGap {
  /**
   * @internal
   * @param {number} missed
   * @param {boolean} reconnected
   */
  constructor(missed, reconnected) {
    /**
     * How many events did not fit into the subscriber's buffer.
     * @type {number}
     * @readonly
     */
    this.missed = missed;
    /**
     * Whether the connection was lost and is there again: nobody knows how many events were published meanwhile.
     * @type {boolean}
     * @readonly
     */
    this.reconnected = reconnected;
  }
}

/**
 * What a listener hears: an event, or a gap in the place where events may be missing.
 *
 * @typedef {Event | EventGap} Heard
 */

/** How many of the values that the native module hands over make one event or gap. */
const WIDTH = 3;

/**
 * @param {import('./native').HeardValue[]} values
 * @param {number} at
 * @returns {Heard}
 */
function heardAt(values, at) {
  const name = /** @type {string | undefined} */ (values[at]);
  const second = /** @type {any} */ (values[at + 1]);
  const third = /** @type {any} */ (values[at + 2]);
  return name === undefined ? new EventGap(second, third) : new Event(name, second, third);
}

module.exports = { Event, EventGap, WIDTH, heardAt };
