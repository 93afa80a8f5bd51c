const assert = require('node:assert/strict');
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const { after, describe, test } = require('node:test');
const { Client, EchoMQError } = require('..');
const { until } = require('./server');
const { suite } = require('./suite');

const folder = mkdtempSync(join(tmpdir(), 'echomq-outage-'));
after(() => rmSync(folder, { recursive: true }));

describe('a server that fails', () => {
  // Each write is on disk before it is answered, so that a kill loses nothing that was answered.
  const at = suite('--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always');

  const ids = async (key) => (await at.plain.text('XRANGE', key, '-', '+')).map(([, parts]) => parts[1]);

  async function restart() {
    await at.server.kill();
    await at.server.run();
    at.plain.close();
    at.plain = at.server.plain();
  }

  test('a client is there when its server is, at once, or not at all, as `connect` says', async () => {
    const { url } = at.server;
    const quick = { reconnectMin: 1, reconnectMax: 20, timeout: 60_000, connectTimeout: 60_000 };
    await at.server.kill();
    await assert.rejects(Client.connect(url, { connect: 'once' }), { code: 'disconnected' });
    const lazy = await Client.connect(url, { ...quick, connect: 'lazy' });
    assert.equal(lazy.status.connected, false);
    const waiting = Client.connect(url, { ...quick, connect: 'wait' });
    const asked = lazy.command(['PING']);
    await at.server.run();
    at.plain.close();
    at.plain = at.server.plain();
    assert.equal(await asked, 'PONG');
    const waited = await waiting;
    assert.equal(waited.status.connected, true);
    await Promise.all([lazy.close(0), waited.close(0)]);
  });

  test('killed and started again under appends: all are settled, and stored are those that were answered', async () => {
    const client = await at.connect({ reconnectMin: 1, reconnectMax: 20, timeout: 20_000 });
    const stream = client.stream('outage', 'killed');
    const answers = [];
    for (let round = 0; round < 3; round++) {
      let running = true;
      const lanes = Array.from({ length: 100 }, async () => {
        while (running) answers.push(await stream.append({ k: 'v' }).catch((error) => error));
      });
      await until('many are answered', () => answers.length > (round + 1) * 2000);
      await restart();
      const before = answers.length;
      await until('more are answered', () => answers.length > before + 1000);
      running = false;
      await Promise.all(lanes);
    }
    for (const failed of answers.filter((answer) => typeof answer !== 'string')) {
      assert.ok(failed instanceof EchoMQError, failed);
    }
    const answered = answers.filter((answer) => typeof answer === 'string');
    assert.equal(new Set(answered).size, answered.length);
    assert.deepEqual(await ids(stream.key), answered.sort());
    assert.equal(client.status.connected, true);
    assert.equal(client.status.reconnects, 3);
  });

  test('calls in flight and calls made meanwhile are settled once it is back', async () => {
    const client = await at.connect({ reconnectMin: 1, reconnectMax: 20, timeout: 20_000 });
    const stream = client.stream('outage', 'queued');
    await stream.append({ k: 'first' });
    const first = Array.from({ length: 100 }, () => stream.append({ k: 'in flight' }));
    await at.server.kill();
    await until('the client has noticed', () => !client.status.connected);
    const second = Array.from({ length: 100 }, () => stream.append({ k: 'meanwhile' }));
    await restart();
    const answers = await Promise.all([...first, ...second]);
    assert.deepEqual(answers, [...answers].sort());
    assert.deepEqual((await ids(stream.key)).slice(1), answers);
  });

  test('a server that closes idle connections: the next call is written once', async () => {
    const client = await at.connect({ reconnectMin: 1, reconnectMax: 20 });
    const stream = client.stream('outage', 'idle');
    const first = await stream.append({ k: 'v' });
    for (let round = 1; round <= 3; round++) {
      const [, own] = /id=(\d+)/.exec(await client.command(['CLIENT', 'INFO']));
      await at.plain.text('CLIENT', 'KILL', 'ID', own);
      assert.equal(typeof (await stream.append({ k: 'v' })), 'string');
      assert.equal(client.status.reconnects, round);
    }
    assert.equal((await ids(stream.key)).length, 4);
    assert.equal((await ids(stream.key))[0], first);
  });

  test('a silent server: calls fail by their deadline, and those that may be written say so with their id', async () => {
    const client = await at.connect({ timeout: 2000 });
    const stream = client.stream('outage', 'silent');
    await stream.append({ k: 'v' });
    at.server.freeze();
    const error = await stream.append({ k: 'v' }).catch((error) => error);
    at.server.thaw();
    assert.equal(error.code, 'unknown_outcome');
    assert.match(error.id, /^EVT[0-9A-Za-z]{11}$/);
    const settled = await stream.appendId(error.id, { k: 'v' }).catch((error) => error);
    assert.ok(settled === error.id || settled.code === 'nonmonotonic');
    assert.ok((await ids(stream.key)).includes(error.id));
  });

  test('too many calls at once: the surplus is refused, the others are written', async () => {
    const client = await at.connect({ maxInFlight: 10 });
    const stream = client.stream('outage', 'overload');
    const calls = Array.from({ length: 1000 }, () => stream.append({ k: 'v' }).catch((error) => error));
    const answers = await Promise.all(calls);
    const written = answers.filter((answer) => typeof answer === 'string');
    const refused = answers.filter((answer) => answer.code === 'overloaded');
    assert.ok(written.length >= 10);
    assert.ok(refused.length > 0);
    assert.equal(written.length + refused.length, 1000);
    assert.deepEqual(await ids(stream.key), written);
    assert.equal(typeof (await stream.append({ k: 'v' })), 'string');
  });

  test('closing gives up what cannot be done in time and says how much', async () => {
    const client = await at.connect();
    const stream = client.stream('outage', 'closing');
    await stream.append({});
    at.server.freeze();
    const calls = Array.from({ length: 5 }, () => stream.append({ k: 'v' }).catch((error) => error));
    const unfinished = await client.close(20);
    at.server.thaw();
    assert.equal(unfinished, 5);
    for (const error of await Promise.all(calls)) assert.ok(['closed', 'unknown_outcome'].includes(error.code), error);
    assert.equal(await client.close(20), 0);
    await assert.rejects(stream.append({}), { code: 'closed' });
    await assert.rejects(stream.read().toArray(), { code: 'closed' });
  });

  test('closing waits for what is under way', async () => {
    const client = await at.connect();
    const stream = client.stream('outage', 'waiting');
    const calls = Array.from({ length: 1000 }, () => stream.append({ k: 'v' }));
    assert.equal(await client.close(), 0);
    assert.deepEqual(await ids(stream.key), await Promise.all(calls));
  });
});
