const { checkFunction, checkOptions } = require('./arguments');
const { checkSignal, whenAborted } = require('./calls');
const { notices } = require('./notice');
const { asTexts } = require('./options');
const { Reduction, warn } = require('./reduction');
const { Subscriber } = require('./subscriber');

/**
 * How a listener's subscription stands.
 *
 * @typedef {object} ListenerStatus
 * @property {boolean} connected Whether the server sends events, as far as the listener has noticed.
 * @property {number} resubscriptions How often the channel was subscribed to again.
 * @property {import('./errors').EchoMQError | undefined} error Why there is no connection.
 */

/**
 * What is done about failures of a handler.
 *
 * @typedef {object} FailureOptions
 * @property {(failure: unknown, heard: import('./event').Heard) => unknown} [onFailure] Is told what the handler threw, and at
 *   what. Without it each failure is a warning of the process's, of the type `EchoMQWarning`.
 */

/** @typedef {import('./generated').SubscriberOptions & FailureOptions} ReduceOptions */

/**
 * A listener on a queue's events: one subscription, off which any number of subscribers hear.
 *
 * The subscription was confirmed when the listener was made, and is made again by itself after each loss of the connection,
 * for as long as it takes. All listeners of a client share one connection. A listener does not keep the process alive; a
 * loop over one of its subscribers does.
 *
 * It ends when it is closed, or when it is forgotten and its last subscriber has ended.
 */
class Listener {
  #native;
  #forgetSignal;

  /**
   * @internal
   * @param {import('./native').NativeListener} native
   * @param {AbortSignal} [signal]
   */
  constructor(native, signal) {
    this.#native = native;
    /**
     * The queue.
     * @type {string}
     * @readonly
     */
    this.queue = native.queue();
    /**
     * The channel on the server.
     * @type {string}
     * @readonly
     */
    this.channel = native.channel();
    this.#forgetSignal = whenAborted(signal, this, (listener) => listener.close());
  }

  /**
   * Hears every event from now on, with a buffer of its own. A signal closes the subscriber later.
   *
   * Throws with `invalid_option` for a buffer without room.
   *
   * @param {import('./generated').SubscriberOptions} [options]
   * @returns {Subscriber}
   */
  subscribe(options = {}) {
    checkOptions(options);
    const { signal, ...others } = options;
    checkSignal(signal);
    return new Subscriber(this.#subscribe(others), signal);
  }

  /**
   * Folds everything that is heard from now on into a state, which can be read at any time. A signal closes the reduction
   * later.
   *
   * The handler gets the state and what was heard, one by one, and answers the next state, or a promise of it. One that
   * throws, or whose promise is rejected, leaves the state as it was and is reported; it goes on with the next event.
   *
   * Throws as {@link Listener.subscribe} does.
   *
   * ```js
   * const listener = await events.listen();
   * const isCompleted = (heard) => heard instanceof Event && heard.name === 'completed';
   * const completed = listener.reduce((count, heard) => (isCompleted(heard) ? count + 1 : count), 0);
   * await events.publish('completed', 'JOB000xY9Wvvcd');
   * await completed[Symbol.asyncDispose]();
   * console.log(`${completed.state} jobs completed`);
   * listener.close();
   * ```
   *
   * @template S
   * @param {(state: S, heard: import('./event').Heard) => S | PromiseLike<S>} handler
   * @param {S} state
   * @param {ReduceOptions} [options]
   * @returns {Reduction<S>}
   */
  reduce(handler, state, options = {}) {
    checkOptions(options);
    const { signal, onFailure = warn, ...others } = options;
    checkFunction('A handler', handler);
    checkFunction('What is told of failures', onFailure);
    checkSignal(signal);
    return new Reduction(this.#subscribe(others), handler, state, onFailure, signal);
  }

  /** @param {{ readonly [name: string]: unknown }} options */
  #subscribe(options) {
    const { names, values } = asTexts(options);
    return this.#native.subscribe(names, values);
  }

  /**
   * What the listener tells beside its events, until it has ended: `disconnected` as soon as the connection is lost, and
   * `reconnected` once the channel is subscribed to again. Of one loss each is told once, however many attempts it takes.
   *
   * The last 1 024 wait to be taken; each is taken once, by whoever asks first. A loop over them keeps the process alive.
   *
   * ```js
   * const listener = await events.listen();
   * const watching = (async () => {
   *   for await (const notice of listener.notices()) console.log(notice.kind, notice.message);
   * })();
   * listener.close();
   * await watching;
   * ```
   *
   * @returns {AsyncGenerator<import('./notice').Notice, void, undefined>}
   */
  notices() {
    return notices(this.#native.notices());
  }

  /**
   * How the subscription stands.
   *
   * @returns {ListenerStatus}
   */
  get status() {
    const [connected, resubscriptions, error] = this.#native.status();
    return { connected, resubscriptions, error };
  }

  /** Ends the listener. Its subscribers give what they have heard already. */
  close() {
    this.#forgetSignal();
    this.#native.close();
  }

  /**
   * Closes the listener, for `await using`.
   *
   * @returns {Promise<void>}
   */
  async [Symbol.asyncDispose]() {
    this.close();
  }
}

module.exports = { Listener };
