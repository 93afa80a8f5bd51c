/**
 * What is done when a signal is aborted. However much it is, the signal has one listener, and none when there is nothing to
 * do: Node warns of a leak where a signal has more than ten.
 */

/** @typedef {(reason: unknown) => void} Step It must not throw. */

/** @type {WeakMap<AbortSignal, Followers>} Of the signals that have a listener. */
const followersOf = new WeakMap();

const forgotten = new FinalizationRegistry(
  (/** @type {{ followers: WeakRef<Followers>, step: Step }} */ { followers, step }) => followers.deref()?.delete(step),
);

class Followers {
  /** Whatever holds these would keep the signal otherwise. */
  #signal;
  /** @type {Set<Step>} */
  #steps = new Set();

  /**
   * What is kept for as long as the signal is.
   *
   * @type {Set<object>}
   */
  kept = new Set();

  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.#signal = new WeakRef(signal);
    followersOf.set(signal, this);
    signal.addEventListener('abort', this.#abort, { once: true });
  }

  /** @param {Step} step */
  add(step) {
    this.#steps.add(step);
  }

  /** @param {Step} step */
  delete(step) {
    const signal = this.#signal.deref();
    if (!this.#steps.delete(step) || this.#steps.size > 0 || signal === undefined) return;
    followersOf.delete(signal);
    signal.removeEventListener('abort', this.#abort);
  }

  #abort = () => {
    const signal = /** @type {AbortSignal} */ (this.#signal.deref());
    followersOf.delete(signal);
    for (const step of this.#steps) step(signal.reason);
  };
}

/**
 * Does something when a signal is aborted that has not been yet.
 *
 * @param {AbortSignal} signal
 * @param {Step} step
 * @returns {Followers}
 */
function follow(signal, step) {
  const followers = followersOf.get(signal) ?? new Followers(signal);
  followers.add(step);
  return followers;
}

/**
 * @param {AbortSignal} signal
 * @param {Step} step
 */
function unfollow(signal, step) {
  followersOf.get(signal)?.delete(step);
}

/**
 * Tells an object when a signal is aborted that has not been yet, unless the object is forgotten by then.
 *
 * @template {object} T
 * @param {AbortSignal} signal
 * @param {T} follower
 * @param {(follower: T, reason: unknown) => void} tell It must not hold the object.
 * @returns {{ followers: Followers, step: Step }}
 */
function followWeakly(signal, follower, tell) {
  const step = telling(new WeakRef(follower), tell);
  const followers = follow(signal, step);
  forgotten.register(follower, { followers: new WeakRef(followers), step });
  return { followers, step };
}

/**
 * In a function of its own: a closure holds all that closures beside it use.
 *
 * @template {object} T
 * @param {WeakRef<T>} weak
 * @param {(follower: T, reason: unknown) => void} tell
 * @returns {Step}
 */
function telling(weak, tell) {
  return (reason) => {
    const follower = weak.deref();
    if (follower !== undefined) tell(follower, reason);
  };
}

module.exports = { follow, followWeakly, unfollow };
