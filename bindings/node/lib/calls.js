/**
 * Calls that wait: each has a slot, by whose number the native module names it when its answer has come.
 *
 * The native module keeps no process alive. A timer does, as long as a promise waits for its answer or a consumer
 * runs, and no longer.
 */

const native = require('./native');
const { makeError } = require('./errors');
const { follow, followWeakly, unfollow } = require('./followers');

/**
 * @typedef {object} Waiter
 * @property {(value: any) => void} resolve
 * @property {(reason: any) => void} reject
 * @property {boolean} idle Whether it does not keep the process alive.
 */

/** @type {(Waiter | undefined)[]} What waits for an answer, by slot. */
const waiters = [];

/** @type {number[]} Slots that no call uses. */
const free = [];

/** For how many reasons the process is kept alive. */
let reasons = 0;

const LONGEST = 2 ** 31 - 1;
const alive = setInterval(() => {}, LONGEST).unref();

/**
 * Starts a call, and answers when it has.
 *
 * @template T
 * @param {(slot: number) => void} start Starts it; what it throws, the promise is rejected with.
 * @param {AbortSignal} [signal] Gives the waiting up.
 * @param {(answer: any) => void} [unwanted] Is given the answer of a call that was given up.
 * @returns {Promise<T>}
 */
function call(start, signal, unwanted = ignore) {
  return signal === undefined ? wait(start, false) : waitUnless(signal, start, unwanted);
}

/**
 * The same for a call that does not keep the process alive.
 *
 * @param {(slot: number) => void} start
 * @returns {Promise<any>}
 */
function idleCall(start) {
  return wait(start, true);
}

/**
 * A call whose answer an object takes that may be forgotten meanwhile: it does not keep the process alive, nor the object.
 *
 * @template {object} T
 * @param {T} taker
 * @param {(slot: number) => void} start
 * @param {(taker: T, answer: any, failure?: unknown) => void} take It must not hold the object either.
 * @returns {Promise<void>}
 */
function callFor(taker, start, take) {
  return takeWeakly(idleCall(start), new WeakRef(taker), take);
}

/**
 * In a function of its own: a closure holds all that closures beside it use.
 *
 * @template {object} T
 * @param {Promise<any>} called
 * @param {WeakRef<T>} weak
 * @param {(taker: T, answer: any, failure?: unknown) => void} take
 * @returns {Promise<void>}
 */
async function takeWeakly(called, weak, take) {
  let answer;
  let failure;
  try {
    answer = await called;
  } catch (error) {
    failure = error;
  }
  const taker = weak.deref();
  if (taker !== undefined) take(taker, answer, failure);
}

/**
 * Tells an object when a signal fires, unless it was forgotten meanwhile.
 *
 * @template {object} T
 * @param {AbortSignal | undefined} signal
 * @param {T} taker
 * @param {(taker: T) => void} tell It must not hold the object.
 * @returns {() => void} Lets go of the signal.
 */
function whenAborted(signal, taker, tell) {
  if (signal === undefined) return ignore;
  if (signal.aborted) {
    queueMicrotask(tell.bind(undefined, taker));
    return ignore;
  }
  return unfollow.bind(undefined, signal, followWeakly(signal, taker, tell).step);
}

/**
 * @param {(slot: number) => void} start
 * @param {boolean} idle
 * @returns {Promise<any>}
 */
function wait(start, idle) {
  return new Promise((resolve, reject) => {
    open(start, { resolve, reject, idle });
  });
}

/**
 * @param {AbortSignal} signal
 * @param {(slot: number) => void} start
 * @param {(answer: any) => void} unwanted
 * @returns {Promise<any>}
 */
function waitUnless(signal, start, unwanted) {
  return new Promise((resolve, reject) => {
    checkSignal(signal);
    /** @param {unknown} reason */
    const abort = (reason) => {
      // The slot is free again only when the answer has come: until then it may not name another call.
      waiters[slot] = { resolve: unwanted, reject: ignore, idle: true };
      release();
      reject(reason);
    };
    /** @param {(value: any) => void} settle */
    const unless = (settle) => (/** @type {any} */ value) => {
      unfollow(signal, abort);
      settle(value);
    };
    const slot = open(start, { resolve: unless(resolve), reject: unless(reject), idle: false });
    // What was packed may have run code of the caller's.
    if (signal.aborted) abort(signal.reason);
    else follow(signal, abort);
  });
}

/**
 * Waits for a promise, which is left as it is when the signal fires.
 *
 * @template T
 * @param {Promise<T>} promise
 * @param {AbortSignal} signal
 * @returns {Promise<T>}
 */
async function unlessAborted(promise, signal) {
  checkSignal(signal);
  let abort = ignore;
  const aborted = new Promise((_, reject) => {
    abort = reject;
    follow(signal, abort);
  });
  try {
    return await Promise.race([promise, /** @type {Promise<never>} */ (aborted)]);
  } finally {
    unfollow(signal, abort);
  }
}

/**
 * Throws the reason of a signal that has fired.
 *
 * @param {AbortSignal | undefined} signal
 */
function checkSignal(signal) {
  if (signal === undefined) return;
  if (!(signal instanceof AbortSignal)) throw new TypeError('The signal is no AbortSignal');
  signal.throwIfAborted();
}

function ignore() {}

/** Keeps the process alive until the release. */
function hold() {
  if (reasons++ === 0) alive.ref();
}

function release() {
  if (--reasons === 0) alive.unref();
}

/**
 * @param {(slot: number) => void} start
 * @param {Waiter} waiter
 * @returns {number} The slot.
 */
function open(start, waiter) {
  const slot = free.pop() ?? waiters.push(undefined) - 1;
  try {
    start(slot);
  } catch (error) {
    free.push(slot);
    throw error;
  }
  waiters[slot] = waiter;
  if (!waiter.idle) hold();
  return slot;
}

/** @param {unknown[]} completions Slot, answer, slot, answer … */
function settle(completions) {
  for (let at = 0; at < completions.length; at += 2) {
    const slot = /** @type {number} */ (completions[at]);
    const answer = completions[at + 1];
    const waiter = waiters[slot];
    waiters[slot] = undefined;
    free.push(slot);
    if (waiter === undefined) continue;
    if (!waiter.idle) release();
    if (answer instanceof Error) waiter.reject(answer);
    else waiter.resolve(answer);
  }
}

/**
 * @param {unknown[]} items
 * @returns {unknown[]}
 */
function makeArray(...items) {
  return items;
}

/** This copy of the package, as the native module knows it. */
const copy = native.install(settle, makeError, makeArray);

module.exports = { call, callFor, checkSignal, copy, idleCall, unlessAborted, whenAborted, hold, release };
