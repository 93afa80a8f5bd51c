/** Starts and stops Valkey servers for tests and benchmarks, each on a free port with nothing on disk. */

const { spawn } = require('node:child_process');
const { randomInt } = require('node:crypto');
const { once } = require('node:events');
const { readFileSync } = require('node:fs');
const { createServer } = require('node:net');
const { setTimeout: pause } = require('node:timers/promises');
const { Plain } = require('./plain');

const PROGRAM = process.env.ECHOMQ_VALKEY_SERVER ?? 'valkey-server';
const DEFAULTS = [
  '--save',
  '',
  '--appendonly',
  'no',
  '--bind',
  '127.0.0.1',
  '--daemonize',
  'no',
  '--loglevel',
  'warning',
];

const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A port that nobody listens to, and that no outgoing connection is given while its server is down. */
async function freePort() {
  const outgoing = Number(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t')[0]);
  for (;;) {
    // Where that leaves too little room, the kernel picks.
    const listener = createServer().listen(outgoing > 12_000 ? randomInt(10_000, outgoing) : 0, '127.0.0.1');
    try {
      await once(listener, 'listening');
    } catch (error) {
      if (error.code === 'EADDRINUSE') continue;
      throw error;
    }
    const { port } = listener.address();
    listener.close();
    await once(listener, 'close');
    return port;
  }
}

/** Asks until the answer is true. */
async function until(what, condition) {
  for (let patience = 3000; patience > 0; patience--) {
    if (await condition()) return;
    await pause(10);
  }
  throw new Error(`waited in vain until ${what}`);
}

class Server {
  #child;
  #options;

  constructor(port, options) {
    this.port = port;
    this.#options = options;
  }

  /** Starts a server, with options of its own as on the command line. */
  static async start(...options) {
    const server = new Server(await freePort(), options);
    await server.run();
    return server;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Runs it, again after {@link Server.kill}, on the same port; answers once it does. */
  async run() {
    const child = spawn(PROGRAM, [...DEFAULTS, '--port', String(this.port), ...this.#options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      said += text;
    });
    this.#child = child;
    running.add(child);
    child.on('exit', () => running.delete(child));
    await once(child, 'spawn');
    await until('the server answers', async () => {
      if (child.exitCode !== null) throw new Error(`${PROGRAM} ended with ${child.exitCode}: ${said}`);
      const plain = this.plain();
      try {
        // Another program may answer on a port that this one failed to get.
        return (await plain.text('INFO', 'server')).includes(`process_id:${child.pid}\r\n`);
      } catch {
        return false;
      } finally {
        plain.close();
      }
    });
  }

  /** Kills it at once, and answers when it is gone. */
  async kill() {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  /** Stops and resumes its process, so that it is silent meanwhile. */
  freeze() {
    this.#child.kill('SIGSTOP');
  }

  thaw() {
    this.#child.kill('SIGCONT');
  }

  /** A connection without any of echomq. */
  plain() {
    return new Plain(this.port);
  }
}

module.exports = { Server, until };
