const { hold, idleCall, release, whenAborted } = require('./calls');
const { WIDTH, heardAt } = require('./event');
const { isPromise, textOf } = require('./handlers');

/**
 * A state that a handler folds a listener's events into, made by {@link Listener.reduce}.
 *
 * It goes on until it or its listener is closed, whether or not anybody holds it, and does not keep the process alive.
 *
 * @template S
 */
class Reduction {
  #native;
  #handler;
  #onFailure;
  /** @type {S} */
  #state;
  #failures = 0;
  /** @type {unknown} */
  #lastFailure;
  /** @type {import('./errors').EchoMQError | undefined} */
  #error;
  #forgetSignal;
  /** @type {Promise<void>} */
  #ended;

  /**
   * @internal
   * @param {import('./native').NativeSubscriber} native
   * @param {(state: S, heard: import('./event').Heard) => S | PromiseLike<S>} handler
   * @param {S} state
   * @param {(failure: unknown, heard: import('./event').Heard) => unknown} onFailure
   * @param {AbortSignal} [signal]
   */
  constructor(native, handler, state, onFailure, signal) {
    this.#native = native;
    this.#handler = handler;
    this.#state = state;
    this.#onFailure = onFailure;
    this.#forgetSignal = whenAborted(signal, this, (reduction) => reduction.close());
    this.#ended = this.#fold();
  }

  /**
   * The state as it is now.
   *
   * @returns {S}
   */
  get state() {
    return this.#state;
  }

  /** How often the handler failed. */
  get failures() {
    return this.#failures;
  }

  /**
   * What the handler threw last; `undefined` while it has not failed.
   *
   * @returns {unknown}
   */
  get lastFailure() {
    return this.#lastFailure;
  }

  /**
   * Why it ended, where its listener could not go on; see {@link Subscriber.next}.
   *
   * @returns {import('./errors').EchoMQError | undefined}
   */
  get error() {
    return this.#error;
  }

  /** Ends it: it hears nothing more. What was heard already is folded still, and the state stays. */
  close() {
    this.#native.close();
  }

  /**
   * Closes it and waits until what was heard is folded, for `await using`.
   *
   * @returns {Promise<void>}
   */
  async [Symbol.asyncDispose]() {
    this.close();
    hold();
    try {
      await this.#ended;
    } finally {
      release();
    }
  }

  async #fold() {
    try {
      for (let taking = this.#take(); ; ) {
        const taken = await taking;
        if (taken === undefined) return;
        // While the handler works on these.
        taking = this.#take();
        for (let at = 0; at < taken.length; at += WIDTH) {
          const heard = heardAt(taken, at);
          try {
            const state = this.#handler(this.#state, heard);
            this.#state = isPromise(state) ? await state : state;
          } catch (failure) {
            this.#failed(failure, heard);
          }
        }
      }
    } catch (error) {
      this.#error = /** @type {import('./errors').EchoMQError} */ (error);
    } finally {
      this.#forgetSignal();
    }
  }

  /** @returns {Promise<import('./native').HeardValue[] | undefined>} */
  #take() {
    const taking = idleCall((slot) => this.#native.take(slot));
    // Whoever awaits it is told; that may be later.
    taking.catch(() => {});
    return taking;
  }

  /**
   * @param {unknown} failure
   * @param {import('./event').Heard} heard
   */
  #failed(failure, heard) {
    this.#failures++;
    this.#lastFailure = failure;
    try {
      const reported = this.#onFailure(failure, heard);
      if (isPromise(reported)) Promise.resolve(reported).catch(warn);
    } catch (error) {
      warn(error);
    }
  }
}

/**
 * Reports a failure that nobody else does, as Node warns of an unhandled rejection.
 *
 * @param {unknown} failure
 */
function warn(failure) {
  const detail = failure instanceof Error ? failure.stack : undefined;
  process.emitWarning(`A handler of events failed: ${textOf(failure)}`, { type: 'EchoMQWarning', detail });
}

module.exports = { Reduction, warn };
