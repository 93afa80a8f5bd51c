const { WIDTH, heardAt } = require('./event');
const { Pull } = require('./pull');

/**
 * One of any number that hear a {@link Listener}'s events, each at its own pace and with its own buffer.
 *
 * Iterate it: it gives events in the order in which the server handed them out, each at most once, and an {@link EventGap} in
 * the place where something may be missing. It keeps the process alive as long as a loop goes on. A subscriber that is
 * forgotten is closed.
 *
 * ```js
 * const listener = await events.listen();
 * const subscriber = listener.subscribe();
 * await events.publish('completed', 'JOB000xY9Wvvcd');
 * for await (const heard of subscriber) {
 *   if (heard instanceof EventGap) console.log('something may be missing here: read the stream');
 *   else console.log(heard.name, heard.job);
 *   break;
 * }
 * listener.close();
 * ```
 */
class Subscriber {
  #pull;

  /**
   * @internal
   * @param {import('./native').NativeSubscriber} native
   * @param {AbortSignal} [signal]
   */
  constructor(native, signal) {
    this.#pull = new Pull(native, WIDTH, heardAt, signal);
  }

  /**
   * What comes next; `undefined` once the subscriber was closed, or its listener was and all that it heard was given.
   *
   * Fails once with the reason when the listener cannot go on: `auth` when the user may not listen any longer,
   * `version_fence`, or `closed` when the client was closed. Whatever else happens it goes on.
   *
   * @param {import('./consumer').WaitOptions} [options]
   * @returns {Promise<import('./event').Heard | undefined>}
   */
  next(options) {
    return this.#pull.next(options?.signal);
  }

  /**
   * What is heard, until the end, which leaving the loop is. Fails as {@link Subscriber.next} does.
   *
   * @returns {AsyncGenerator<import('./event').Heard, void, undefined>}
   */
  [Symbol.asyncIterator]() {
    return this.#pull[Symbol.asyncIterator]();
  }

  /** Ends the subscriber: whoever waits for it gets `undefined`. */
  close() {
    this.#pull.close();
  }

  /**
   * Closes the subscriber, for `await using`.
   *
   * @returns {Promise<void>}
   */
  async [Symbol.asyncDispose]() {
    this.close();
  }
}

module.exports = { Subscriber };
