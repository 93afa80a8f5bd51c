const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const { cpSync, mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const { createInterface } = require('node:readline');
const { after, describe, test } = require('node:test');
const { suite } = require('./suite');

/** A command of another user where this one is root, for whom the limit does not count. */
function asUser(command) {
  return process.getuid() === 0 ? ['setpriv', '--reuid=54321', '--clear-groups', ...command] : command;
}

const SOURCE = `
  const { createInterface } = require('node:readline');
  const { Client } = require(process.argv[1]);
  const url = process.argv[2];
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const tell = async (text) => { console.log(text); await lines.next(); };
  const code = (call) => call.then(() => 'fine', (error) => error.code);
  async function main() {
    await tell('ready');
    const codes = [];
    for (let n = 0; n < 3; n++) codes.push(await code(Client.connect(url)));
    await tell(codes.join(' '));
    const client = await Client.connect(url);
    await tell(await client.command(['PING']));
    const stream = client.stream('threads', 's');
    const id = await stream.append({ large: 'x'.repeat(500_000) });
    const [record] = await stream.read({ from: id }).toArray();
    const consumer = await stream.consumer({ group: 'g', start: 'head' });
    const delivery = await consumer.next();
    delivery.ack();
    await consumer.stop();
    await tell([record.id === id, delivery.id === id].join(' '));
    await client.close();
    process.exit();
  }
  main();
`;

describe('a system that gives no more threads', () => {
  const at = suite();
  const folder = mkdtempSync(join(tmpdir(), 'echomq-threads-'));
  after(() => rmSync(folder, { recursive: true }));

  test('is an error of the call, and the next one works', async () => {
    // Where another user can read it.
    for (const part of ['index.js', 'lib', 'package.json', 'echomq.node']) {
      cpSync(join(__dirname, '..', part), join(folder, part), { recursive: true, dereference: true });
    }
    execFileSync('chmod', ['-R', 'a+rX', folder]);
    const [program, ...rest] = asUser(['node', '-e', SOURCE, folder, at.server.url]);
    const child = spawn(program, rest, { stdio: ['pipe', 'pipe', 'inherit'], timeout: 60_000, killSignal: 'SIGKILL' });
    const ended = once(child, 'exit');
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const said = async () => (await lines.next()).value;
    const prlimit = (...options) => {
      const [program, ...rest] = asUser(['prlimit', '--pid', `${child.pid}`, ...options]);
      return execFileSync(program, rest, { encoding: 'utf8' }).trim();
    };
    const limit = (threads) => {
      prlimit(`--nproc=${threads}:`);
      child.stdin.write('\n');
    };

    assert.equal(await said(), 'ready');
    const before = prlimit('--nproc', '--output=SOFT', '--noheadings');
    limit(1);
    assert.equal(await said(), 'state state state');
    limit(before);
    assert.equal(await said(), 'PONG');
    // What has its threads needs no others.
    limit(1);
    assert.equal(await said(), 'true true');
    limit(before);
    assert.deepEqual(await ended, [0, null]);
  });
});
