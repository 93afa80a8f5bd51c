/**
 * @template {object} T
 * @typedef {{ followers: Followers<T>, place: WeakRef<T> }} Place
 */

/** @type {WeakMap<AbortSignal, Followers<any>>} */
const followersOf = new WeakMap();

const forgotten = new FinalizationRegistry((/** @type {Place<any>} */ { followers, place }) => followers.remove(place));

/**
 * Objects that are told when a signal is aborted, and can be forgotten before that. However many there are, the signal has
 * one listener, and none once all are forgotten.
 *
 * @template {object} T
 */
class Followers {
  #signal;
  /** @type {Map<WeakRef<T>, (follower: T, reason: unknown) => void>} */
  #places = new Map();

  /**
   * Those that are kept for as long as the signal is.
   *
   * @type {Set<T>}
   */
  kept = new Set();

  /** @param {AbortSignal} signal */
  constructor(signal) {
    // Whatever holds a follower would keep the signal otherwise.
    this.#signal = new WeakRef(signal);
    followersOf.set(signal, this);
    signal.addEventListener('abort', this.#abort, { once: true });
  }

  /**
   * @template {object} T
   * @param {AbortSignal} signal
   * @returns {Followers<T>}
   */
  static of(signal) {
    return followersOf.get(signal) ?? new Followers(signal);
  }

  /**
   * @param {T} follower
   * @param {(follower: T, reason: unknown) => void} tell It must not hold the follower.
   */
  add(follower, tell) {
    const place = new WeakRef(follower);
    this.#places.set(place, tell);
    forgotten.register(follower, { followers: this, place });
  }

  /** @param {WeakRef<T>} place */
  remove(place) {
    this.#places.delete(place);
    const signal = this.#signal.deref();
    if (this.#places.size > 0 || signal === undefined) return;
    followersOf.delete(signal);
    signal.removeEventListener('abort', this.#abort);
  }

  #abort = () => {
    const reason = this.#signal.deref()?.reason;
    for (const [place, tell] of this.#places) {
      const follower = place.deref();
      if (follower !== undefined) tell(follower, reason);
    }
  };
}

module.exports = { Followers };
