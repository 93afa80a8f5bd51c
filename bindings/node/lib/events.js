const { announced } = require('./announced');
const { checkFunction, count, optional, text } = require('./arguments');
const { call } = require('./calls');
const { watched } = require('./cancel');
const { Listener } = require('./listener');
const { packAbout, packAnnounced, packSignal } = require('./pack');

/**
 * Further members of an event: an object of names and values, or names and values in pairs.
 *
 * Pairs keep any order. An object cannot: JavaScript puts names like `"7"` first.
 *
 * @typedef {import('./pack').Fields} Members
 */

/**
 * A verdict, and what became of its event.
 *
 * @template T
 * @typedef {object} Decided
 * @property {T} verdict What the transition answered.
 * @property {number | undefined} published How many listened; `undefined` where the event was not published.
 * @property {import('./errors').EchoMQError | undefined} error Why it was not. The transition has happened all the same.
 */

/**
 * @typedef {object} CancelOptions
 * @property {number} [ttl] For how many milliseconds the mark is kept; one day where none is given.
 * @property {AbortSignal} [signal] As for every call.
 */

/**
 * The lifecycle events of a queue: fire and forget.
 *
 * Delivery is at most once: whoever does not listen at that moment does not hear it. What must not be missed belongs into a
 * {@link Stream}.
 *
 * ```js
 * const events = client.events('codemojex');
 * const listened = await events.publish('failed', 'JOB000xY9Wvvcd', { attempts: '3' });
 * ```
 *
 * Every call can fail with `auth`, which names the channel rule where the user lacks it, with `overloaded`, `disconnected`,
 * `timeout`, `closed` and `server`. An argument of a wrong kind is a `TypeError`. Where bytes are taken they are UTF-8, or the
 * call fails with `invalid_option`.
 */
class Events {
  #native;

  /**
   * @internal
   * @param {import('./native').NativeEvents} native
   */
  constructor(native) {
    this.#native = native;
    /**
     * The channel on the server.
     * @type {string}
     * @readonly
     */
    this.channel = native.channel();
  }

  /**
   * Publishes an event about a job, and answers how many listened, as the server counts them.
   *
   * Any name is carried. Fails with `invalid_name` for one that is empty, `malformed_id` for a job that is no branded id,
   * `reserved_field` for a member named `event` or `job`, `invalid_option` for one that is given twice, `too_large`, and
   * with `unknown_outcome` when the connection broke before the answer came: it is not sent again, since it could be heard
   * twice.
   *
   * @param {import('./pack').Value} event
   * @param {string} job
   * @param {Members} [members]
   * @param {import('./stream').CallOptions} [options]
   * @returns {Promise<number>}
   */
  publish(event, job, members, options) {
    return call((slot) => this.#native.publish(slot, ...packSignal(event, job, members)), options?.signal);
  }

  /**
   * Writes a job's progress into its row and publishes the event `progress`, in one step of the server's. Answers how many
   * listened.
   *
   * Fails with `gone` where the job has no row, with `malformed_id`, `too_large` and `wrong_type`; nothing was changed then
   * and nothing published. Fails with `unknown_outcome` as {@link Events.publish} does.
   *
   * @param {string} job
   * @param {import('./pack').Value} progress
   * @param {import('./stream').CallOptions} [options]
   * @returns {Promise<number>}
   */
  updateProgress(job, progress, options) {
    const updating = (/** @type {number} */ slot) =>
      this.#native.updateProgress(slot, ...packAbout(job, 'Progress', progress));
    return call(updating, options?.signal);
  }

  /**
   * The same as {@link Stream.appendAndPublish} of a stream with one writer. It fails as that does, and with `invalid_name`
   * for the stream.
   *
   * ```js
   * const { id, error } = await events.appendAndPublish('games', { kind: 'guessed' }, 'completed', 'JOB000xY9Wvvcd');
   * if (error !== undefined) console.log(`${id} is written, and nobody was told: ${error.code}`);
   * ```
   *
   * @param {string} stream
   * @param {import('./pack').Fields} fields
   * @param {import('./pack').Value} event
   * @param {string} job
   * @param {Members} [members]
   * @param {import('./stream').CallOptions} [options]
   * @returns {Promise<import('./announced').Announced>}
   */
  async appendAndPublish(stream, fields, event, job, members, options) {
    const name = text('The name of a stream', stream);
    const appending = (/** @type {number} */ slot) =>
      this.#native.appendAndPublish(slot, ...packAnnounced(fields, event, job, members), name);
    return announced(await call(appending, options?.signal));
  }

  /**
   * The same for a stream of several writers.
   *
   * @param {string} stream
   * @param {import('./pack').Fields} fields
   * @param {import('./pack').Value} event
   * @param {string} job
   * @param {Members} [members]
   * @param {import('./stream').CallOptions} [options]
   * @returns {Promise<import('./announced').Announced>}
   */
  async appendSequencedAndPublish(stream, fields, event, job, members, options) {
    const name = text('The name of a stream', stream);
    const appending = (/** @type {number} */ slot) =>
      this.#native.appendSequencedAndPublish(slot, ...packAnnounced(fields, event, job, members), name);
    return announced(await call(appending, options?.signal));
  }

  /**
   * Runs a transition, and publishes an event when it has decided: when it answers a verdict, or a promise of one.
   *
   * Where it answers `undefined` or `null` nothing is published, and that is the answer; where it throws, the promise is
   * rejected with the same. The event is checked before the transition runs, as by {@link Events.publish}.
   *
   * ```js
   * const decided = await events.afterVerdict(async () => 'won', 'completed', 'JOB000xY9Wvvcd');
   * if (decided) console.log(decided.verdict, decided.published, decided.error?.code);
   * ```
   *
   * @template T
   * @param {() => T | PromiseLike<T>} transition
   * @param {import('./pack').Value} event
   * @param {string} job
   * @param {Members} [members]
   * @returns {Promise<Decided<NonNullable<T>> | Extract<T, undefined | null>>}
   */
  async afterVerdict(transition, event, job, members) {
    checkFunction('A transition', transition);
    const signal = this.#native.signal(...packSignal(event, job, members));
    const verdict = await transition();
    if (verdict === undefined || verdict === null) return /** @type {any} */ (verdict);
    const [published, error] = await call((slot) => this.#native.publishSignal(slot, signal)).then(
      (count) => [count, undefined],
      (error) => [undefined, error],
    );
    return { verdict, published, error };
  }

  /**
   * Listens to the queue's events. It answers when the server has confirmed the subscription. A signal gives that up, and
   * closes the listener later.
   *
   * Fails with `auth`, which names the channel rule where the user lacks it, with `disconnected` when there was no connection
   * until the client's `timeout`, and with `version_fence`.
   *
   * @param {import('./stream').CallOptions} [options]
   * @returns {Promise<Listener>}
   */
  async listen(options) {
    const signal = options?.signal;
    const native = await call(
      (slot) => this.#native.listen(slot),
      signal,
      (unwanted) => unwanted.close(),
    );
    return new Listener(native, signal);
  }

  /**
   * Cancels a job in whatever process it runs: writes a mark that passes after a while, and then publishes the event
   * `cancel` with the reason. Answers how many listened.
   *
   * Fails with `malformed_id`, `invalid_option` for a `ttl` of 0, `too_large`, and with `unknown_outcome`; cancelling again
   * does no harm.
   *
   * @param {string} job
   * @param {import('./pack').Value} reason
   * @param {CancelOptions} [options]
   * @returns {Promise<number>}
   */
  cancel(job, reason, options) {
    return call((slot) => {
      const ttl = optional(count, 'The ttl', options?.ttl);
      this.#native.cancel(slot, ...packAbout(job, 'A reason', reason), ttl);
    }, options?.signal);
  }

  /**
   * A token that trips when the job is cancelled, or was before, by whatever process. It answers when the subscription is
   * confirmed and the mark is read, which is read again after every gap.
   *
   * It watches for as long as somebody holds the token or its signal, or listens to its signal. Fails with `malformed_id`, and
   * as {@link Events.listen} does.
   *
   * ```js
   * const token = await events.watch('JOB000xY9Wvvcd');
   * for (const step of ['guess', 'check', 'score']) {
   *   token.throwIfCancelled();
   *   console.log(step);
   * }
   * ```
   *
   * @param {string} job
   * @param {import('./stream').CallOptions} [options]
   * @returns {Promise<import('./cancel').CancelToken>}
   */
  async watch(job, options) {
    return watched(await call((slot) => this.#native.watch(slot, text('A job', job)), options?.signal));
  }
}

module.exports = { Events };
