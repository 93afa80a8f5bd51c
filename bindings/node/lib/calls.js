/**
 * Calls that wait: each has a slot, by whose number the native module names it when its answer has come.
 *
 * The native module keeps no process alive. A timer does, as long as a promise waits for its answer, and no longer.
 */

const native = require('./native');
const { makeError } = require('./errors');

/**
 * @typedef {object} Waiter
 * @property {(value: any) => void} resolve
 * @property {(reason: any) => void} reject
 */

/** @type {(Waiter | undefined)[]} What waits for an answer, by slot; nothing where the caller gave up or none is. */
const waiters = [];

/** @type {number[]} Slots that no call uses. */
const free = [];

/** How many promises wait. */
let waiting = 0;

const LONGEST = 2 ** 31 - 1;
const alive = setInterval(() => {}, LONGEST).unref();

/**
 * Starts a call, and answers when it has.
 *
 * @template T
 * @param {(slot: number) => void} start Starts it; what it throws, the promise is rejected with.
 * @param {AbortSignal} [signal] Gives the waiting up.
 * @returns {Promise<T>}
 */
function call(start, signal) {
  return signal === undefined ? wait(start) : waitUnless(signal, start);
}

/**
 * @param {(slot: number) => void} start
 * @returns {Promise<any>}
 */
function wait(start) {
  return new Promise((resolve, reject) => {
    open(start, { resolve, reject });
  });
}

/**
 * @param {AbortSignal} signal
 * @param {(slot: number) => void} start
 * @returns {Promise<any>}
 */
function waitUnless(signal, start) {
  return new Promise((resolve, reject) => {
    if (!(signal instanceof AbortSignal)) throw new TypeError('The signal is no AbortSignal');
    signal.throwIfAborted();
    const abort = () => {
      // The slot is free again only when the answer has come: until then it may not name another call.
      waiters[slot] = undefined;
      rest();
      reject(signal.reason);
    };
    /** @param {(value: any) => void} settle */
    const unless = (settle) => (/** @type {any} */ value) => {
      signal.removeEventListener('abort', abort);
      settle(value);
    };
    const slot = open(start, { resolve: unless(resolve), reject: unless(reject) });
    signal.addEventListener('abort', abort, { once: true });
    // What was packed may have run code of the caller's.
    if (signal.aborted) abort();
  });
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
  if (waiting++ === 0) alive.ref();
  return slot;
}

function rest() {
  if (--waiting === 0) alive.unref();
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
    rest();
    if (answer instanceof Error) waiter.reject(answer);
    else waiter.resolve(answer);
  }
}

native.install(settle, makeError);

module.exports = { call };
