/** What most test files need: a server of their own, clients of it, and children that run a script. */

const { execFile } = require('node:child_process');
const { after, before } = require('node:test');
const { Client } = require('..');
const { Server } = require('./server');

/** A server for the tests of one file, and everything opened through it, closed at the end. */
function suite(...options) {
  const clients = [];
  const suite = {
    /** @type {Server} */
    server: undefined,
    /** A plain connection. */
    plain: undefined,
    /** A client; each has a stream of its own name to write to. */
    async connect(given = {}) {
      const client = await Client.connect(suite.server.url, { nodeId: 7, ...given });
      clients.push(client);
      return client;
    },
    /** The entries of a key as the server has them, texts as strings. */
    entries: (key) => suite.plain.text('XRANGE', key, '-', '+'),
  };
  before(async () => {
    suite.server = await Server.start(...options);
    suite.plain = suite.server.plain();
  });
  after(async () => {
    suite.plain.close();
    await Promise.all(clients.map((client) => client.close(0)));
    await suite.server.kill();
  });
  return suite;
}

/**
 * Runs a script in a node process of its own; `echomq` is this package, if loaded, and `url` the server's address there.
 *
 * Answers its exit code, the signal that ended it, and what it wrote.
 */
function child(source, { url = '', flags = [], load = true } = {}) {
  const loaded = load ? `const echomq = require(${JSON.stringify(require.resolve('..'))});` : '';
  const head = `${loaded} const url = ${JSON.stringify(url)};`;
  return new Promise((resolve) => {
    const options = { timeout: 300_000, killSignal: 'SIGABRT', maxBuffer: 1 << 24 };
    const script = `${head}\n${source}`;
    const started = execFile(process.execPath, [...flags, '-e', script], options, (_, stdout, stderr) => {
      resolve({ code: started.exitCode, signal: started.signalCode, stdout, stderr });
    });
  });
}

module.exports = { child, suite };
