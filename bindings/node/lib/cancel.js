const { getEventListeners } = require('node:events');
const { kindOf, text } = require('./arguments');
const { callFor } = require('./calls');
const { followWeakly } = require('./followers');
const { textOf } = require('./handlers');

/**
 * The error of a handler that stops because its token has tripped. It is no {@link EchoMQError}, and has no code.
 */
class Cancelled extends Error {
  /**
   * @internal
   * @param {string} reason
   * @param {ErrorOptions} [options]
   */
  constructor(reason, options) {
    super(`cancelled: ${reason}`, options);
    /**
     * Why.
     * @type {string}
     * @readonly
     */
    this.reason = reason;
  }
}

Object.defineProperty(Cancelled.prototype, 'name', { value: 'Cancelled', configurable: true, writable: true });

/**
 * Tokens of jobs whose signal somebody listens to: they may be forgotten by everybody else, and are needed all the same.
 *
 * @type {Set<CancelToken>}
 */
const listenedTo = new Set();

/** @type {(native: import('./native').NativeToken) => CancelToken} A token that other processes can trip. */
let watched;

/**
 * A token that a handler looks at, at points where it can stop safely.
 *
 * It trips once, and the first reason stays. {@link Events.watch} gives one that other processes can trip. Whatever takes an
 * `AbortSignal` takes {@link CancelToken.signal}. A token does not keep the process alive.
 *
 * ```js
 * const token = new CancelToken();
 * token.cancel('the player left');
 * console.log(token.cancelled, token.reason, token.signal.aborted); // true 'the player left' true
 * ```
 */
class CancelToken {
  /** @type {Cancelled | undefined} */
  #cancelled;
  /** @type {AbortController | undefined} */
  #controller;
  /** @type {import('./native').NativeToken | undefined} What other processes trip, until it has tripped. */
  #native;
  /** @type {Set<object> | undefined} Keeps the token while somebody listens to its signal. */
  #keeper;

  static {
    watched = (native) => {
      const token = new CancelToken();
      token.#native = native;
      token.#keeper = listenedTo;
      callFor(token, (slot) => native.tripped(slot), CancelToken.#told);
      return token;
    };
  }

  /**
   * A token that trips when a signal is aborted, or was before.
   *
   * Its reason is that of the {@link Cancelled} by which the signal was aborted, and else the signal's reason as text; the
   * signal's own reason is the `cause`.
   *
   * @param {AbortSignal} signal
   * @returns {CancelToken}
   */
  static from(signal) {
    if (!(signal instanceof AbortSignal)) throw new TypeError(`A signal is an AbortSignal, not ${kindOf(signal)}`);
    const token = new CancelToken();
    if (signal.aborted) {
      CancelToken.#aborted(token, signal.reason);
      return token;
    }
    token.#keeper = followWeakly(signal, token, CancelToken.#aborted).followers.kept;
    return token;
  }

  /**
   * @param {CancelToken} token
   * @param {unknown} cause
   */
  static #aborted(token, cause) {
    token.#trip(cause instanceof Cancelled ? cause.reason : textOf(cause), { cause });
  }

  /**
   * @param {CancelToken} token
   * @param {string | undefined} reason
   */
  static #told(token, reason) {
    if (reason !== undefined) token.#trip(reason);
  }

  /**
   * Trips the token, here alone: {@link Events.cancel} reaches other processes. Answers `false` where it had tripped before,
   * whose reason stays.
   *
   * @param {string} reason
   * @returns {boolean}
   */
  cancel(reason) {
    return !this.cancelled && this.#trip(text('A reason', reason));
  }

  /** Whether it has tripped. */
  get cancelled() {
    return this.#look() !== undefined;
  }

  /**
   * Why it has tripped; `undefined` where it has not.
   *
   * @returns {string | undefined}
   */
  get reason() {
    return this.#look()?.reason;
  }

  /** Throws a {@link Cancelled} where it has tripped. */
  throwIfCancelled() {
    const cancelled = this.#look();
    if (cancelled !== undefined) throw cancelled;
  }

  /**
   * A signal that is aborted when the token trips, with a {@link Cancelled} as its reason.
   *
   * Whoever listens to it keeps the token. A signal that `AbortSignal.any` made of it does not, as it keeps no controller:
   * hold the token for as long.
   *
   * @returns {AbortSignal}
   */
  get signal() {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      const cancelled = this.#look();
      if (cancelled !== undefined) this.#controller.abort(cancelled);
      else if (this.#keeper !== undefined) keepWhileListenedTo(this.#controller.signal, this, this.#keeper);
    }
    return this.#controller.signal;
  }

  /**
   * Why a token of {@link Events.watch} is not tripped by other processes any longer: its client was closed, or may not
   * listen any longer. `undefined` while it is.
   *
   * @returns {import('./errors').EchoMQError | undefined}
   */
  get watchError() {
    return this.#native?.error() ?? undefined;
  }

  /** A loop that never waits learns of it here. */
  #look() {
    if (this.#cancelled === undefined) {
      const reason = this.#native?.reason();
      if (typeof reason === 'string') this.#trip(reason);
    }
    return this.#cancelled;
  }

  /**
   * @param {string} reason
   * @param {ErrorOptions} [options]
   * @returns {boolean} Whether this has tripped it.
   */
  #trip(reason, options) {
    if (this.#cancelled !== undefined) return false;
    this.#cancelled = new Cancelled(reason, options);
    this.#native = undefined;
    this.#keeper?.delete(this);
    this.#controller?.abort(this.#cancelled);
    return true;
  }
}

/**
 * Keeps a token while its signal is listened to. The signal keeps it, too, for whoever holds nothing else.
 *
 * @param {AbortSignal} signal
 * @param {CancelToken} token
 * @param {Set<object>} keeper
 */
function keepWhileListenedTo(signal, token, keeper) {
  const look = () => {
    if (getEventListeners(signal, 'abort').length > 0 && !token.cancelled) keeper.add(token);
    else keeper.delete(token);
  };
  for (const name of /** @type {const} */ (['addEventListener', 'removeEventListener'])) {
    /** @param {Parameters<AbortSignal['addEventListener']>} given */
    const followed = (...given) => {
      AbortSignal.prototype[name].apply(signal, given);
      look();
    };
    Object.defineProperty(signal, name, { value: followed, configurable: true, writable: true });
  }
  // That of Node removes nothing when it is set to null, and tells nobody.
  /** @type {AbortSignal['onabort']} */
  let handler = null;
  /** @param {Event} event */
  const call = (event) => handler?.call(signal, event);
  Object.defineProperty(signal, 'onabort', {
    get: () => handler,
    /** @param {unknown} given */
    set(given) {
      handler = typeof given === 'function' ? /** @type {AbortSignal['onabort']} */ (given) : null;
      signal.removeEventListener('abort', call);
      if (handler !== null) signal.addEventListener('abort', call);
    },
    configurable: true,
    enumerable: true,
  });
}

module.exports = { CancelToken, Cancelled, watched };
