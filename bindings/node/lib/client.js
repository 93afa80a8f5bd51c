const native = require('./native');
const { checkOptions, count, optional, text } = require('./arguments');
const { call, copy } = require('./calls');
const { Events } = require('./events');
const { notices } = require('./notice');
const { asTexts } = require('./options');
const { packCommand, packCommands } = require('./pack');
const { answerQuestions } = require('./password');
const { Stream } = require('./stream');

/**
 * How a client's connection stands.
 *
 * @typedef {object} Status
 * @property {boolean} connected Whether there is a connection, as far as the client has noticed.
 * @property {number} reconnects How often the client has connected again.
 * @property {import('./errors').EchoMQError | undefined} error Why there is no connection.
 */

/**
 * A lease of a node: the right of one client to mint with it.
 *
 * @typedef {object} NodeLease
 * @property {number} node The node.
 * @property {string} owner The token that it is held under, a ULID.
 * @property {number} left How many milliseconds longer it holds unless it is renewed, by the server's clock.
 * @property {string} host The host of the process.
 * @property {string} process The number of the process on its host.
 * @property {string} clientName The client's name; empty where it has none.
 */

/**
 * @typedef {object} CommandOptions
 * @property {boolean} [raw] Whether texts in the reply are buffers. Otherwise they are strings, in which bytes that are
 *   not valid UTF-8 read as U+FFFD.
 * @property {AbortSignal} [signal] As for every call.
 */

/**
 * A client of one server.
 *
 * It has one connection, which all calls use at once and which is made again by itself whenever it breaks; until then
 * calls wait, up to their `timeout`. A client on its own does not keep the process alive; a call that waits does, and so
 * does a {@link Consumer} that runs.
 */
class Client {
  #native;

  /**
   * @internal
   * @param {import('./native').NativeClient} client
   */
  constructor(client) {
    this.#native = client;
  }

  /**
   * Connects to `redis://`, `rediss://`, `valkey://` or `valkeys://` with `[user[:password]@]host[:port][/database]`, or
   * to `unix:///path`. Options may also follow as the URL's query, by their names in snake_case.
   *
   * Fails with `invalid_option`, `tls`, `auth`, `version_fence`, or `disconnected` when the server cannot be reached
   * within `connectTimeout`.
   *
   * ```js
   * const client = await Client.connect('redis://localhost');
   * ```
   *
   * The option `password` may be a function, which is asked each time a connection is opened. Where it throws, or answers
   * anything but a string or a promise of one, there is no connection, for the reason `auth`; only the kind of what it threw is told.
   *
   * @param {string} url
   * @param {import('./generated').ConnectOptions} [options]
   * @returns {Promise<Client>}
   */
  static async connect(url, options = {}) {
    checkOptions(options);
    const { signal, password, ...others } = options;
    const ask = typeof password === 'function' ? password : undefined;
    const { names, values } = asTexts(ask === undefined ? { ...others, password } : others);
    /** @param {number} slot */
    const start = (slot) => {
      const questions = native.connect(copy, slot, text('A URL', url), names, values, ask !== undefined);
      if (ask !== undefined && questions !== null) answerQuestions(questions, ask);
    };
    return new Client(await call(start, signal));
  }

  /**
   * A stream of a queue. Throws with `invalid_name`, and with `invalid_option` for other writers than `one` and `many`.
   *
   * ```js
   * const stream = client.stream('codemojex', 'events', { writers: 'many' });
   * ```
   *
   * @param {string} queue
   * @param {string} name
   * @param {import('./stream').StreamOptions} [options]
   * @returns {Stream}
   */
  stream(queue, name, options = {}) {
    checkOptions(options);
    const writers = optional(text, 'The writers', options.writers);
    return new Stream(this.#native.stream(text('A queue', queue), text('The name of a stream', name), writers));
  }

  /**
   * The events of a queue. Throws with `invalid_name`.
   *
   * @param {string} queue
   * @returns {Events}
   */
  events(queue) {
    return new Events(this.#native.events(text('A queue', queue)));
  }

  /**
   * What the client tells, until it is closed: that its connection is there or lost and why, that its clock is ahead, that
   * another process has its node or its lease is lost, and that the server evicts keys.
   *
   * The last 1 024 wait to be taken; each is taken once, by whoever asks first. A loop over them keeps the process alive.
   *
   * ```js
   * for await (const notice of client.notices()) {
   *   console.log(notice.kind, notice.message);
   *   break;
   * }
   * ```
   *
   * @returns {AsyncGenerator<import('./notice').Notice, void, undefined>}
   */
  notices() {
    return notices(this.#native.notices());
  }

  /**
   * Makes one id, for {@link Stream.appendId}. It is there at once while the client has its node; the first one leases a
   * node, which takes the server.
   *
   * Fails with `clock_ahead`, with `node_lease_lost` where no node is free, with `node_conflict` where another process has the
   * one given and `onNodeConflict` says so, and with `mint_exhausted`.
   *
   * @param {import('./stream').CallOptions} [options]
   * @returns {Promise<string>}
   */
  mint(options) {
    return call((slot) => this.#native.mint(slot), options?.signal);
  }

  /**
   * The leases of nodes that have not run out, by node: this client's own, once it has made an id, and those of all others.
   *
   * Two of one node are of processes to which one `nodeId` was given. It only reads.
   *
   * @param {import('./stream').CallOptions} [options]
   * @returns {Promise<NodeLease[]>}
   */
  nodes(options) {
    return call((slot) => this.#native.nodes(slot), options?.signal);
  }

  /**
   * Sends any command of the server's, name and arguments as they are, for what this package has no call for.
   *
   * It shares the connection with every other call. What would make the server wait (`BLPOP`), change the connection
   * (`SELECT`, `MULTI`) or the number of answers (`SUBSCRIBE`) is refused with `invalid_option`. Fails with
   * `unknown_outcome` when the connection broke before the answer came, and with the code of what the server answered.
   *
   * ```js
   * const length = await client.command(['XLEN', stream.key]);
   * ```
   *
   * @param {readonly import('./pack').Value[]} command
   * @param {CommandOptions} [options]
   * @returns {Promise<import('./reply').Reply>}
   */
  command(command, options) {
    return call((slot) => this.#native.command(slot, ...packCommand(command), options?.raw === true), options?.signal);
  }

  /**
   * Sends many commands in one pipeline; answers a reply or an error for each. See {@link Client.command}.
   *
   * @param {Iterable<readonly import('./pack').Value[]>} commands
   * @param {CommandOptions} [options]
   * @returns {Promise<(import('./reply').Reply | import('./errors').EchoMQError)[]>}
   */
  pipeline(commands, options) {
    return call(
      (slot) => this.#native.pipeline(slot, ...packCommands(commands), options?.raw === true),
      options?.signal,
    );
  }

  /**
   * How the connection stands.
   *
   * @returns {Status}
   */
  get status() {
    const [connected, reconnects, error] = this.#native.status();
    return { connected, reconnects, error };
  }

  /**
   * Stops the client's consumers, tails and listeners, takes no more calls, waits for those under way, and closes the connection.
   *
   * What is not done within that many milliseconds is given up; answers how many calls that were. Without a time it waits
   * until each entry in hand has its verdict, and each call has ended or met its own deadline. Closing again answers 0.
   *
   * @param {number} [withinMs]
   * @returns {Promise<number>}
   */
  close(withinMs) {
    return call((slot) => this.#native.close(slot, optional(count, 'The time to close within', withinMs)));
  }

  /**
   * Closes the client, for `await using`. See {@link Client.close}.
   *
   * @returns {Promise<void>}
   */
  async [Symbol.asyncDispose]() {
    await this.close();
  }
}

module.exports = { Client };
