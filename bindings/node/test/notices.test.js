const assert = require('node:assert/strict');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { describe, test } = require('node:test');
const { Notice } = require('..');
const native = require('../lib/native');
const { until } = require('./server');
const { suite } = require('./suite');

describe('notices', () => {
  const at = suite();
  const kinds = new Set();

  /** A new stream, a consumer of it, and a function that answers its first notice of a kind. */
  async function watched(name, options, client = {}) {
    const stream = (await at.connect(client)).stream('notices', name);
    const consumer = await stream.consumer({ group: 'g', start: 'head', beat: 10, ...options });
    const notices = consumer.notices();
    const told = async (kind) => {
      for (;;) {
        const { value } = await notices.next();
        assert.ok(value instanceof Notice);
        assert.ok(value.message.length > 0);
        kinds.add(value.kind);
        if (value.kind === kind) return value;
      }
    };
    return { stream, consumer, notices, told };
  }

  test('a group that vanished was made again, and nothing appended since is missed', async () => {
    const { stream, consumer, told } = await watched('group', { consumer: 'me' });
    await at.plain.text('DEL', stream.key);
    await told('group_recreated');
    const id = await stream.append({ n: '1' });
    assert.equal((await consumer.next()).id, id);
    await consumer.stop(0);
  });

  test('a pending entry without data is lost, and acknowledged', async () => {
    const stream = (await at.connect()).stream('notices', 'lost');
    const ids = await stream.appendBatch([{ n: '0' }, { n: '1' }, { n: '2' }]);
    await stream.createGroup('g', 'head');
    const entries = await at.plain.text('XREADGROUP', 'GROUP', 'g', 'me', 'COUNT', '3', 'STREAMS', stream.key, '>');
    await at.plain.text('XTRIM', stream.key, 'MAXLEN', '1');
    const { consumer, told } = await watched('lost', { consumer: 'me' });
    for (const n of [0, 1]) {
      const notice = await told('lost');
      assert.deepEqual([notice.entryId, notice.id], [entries[0][1][n][0], ids[n]]);
    }
    const delivery = await consumer.next();
    assert.deepEqual([delivery.id, delivery.attempts], [ids[2], 2]);
    delivery.ack();
    assert.equal(await consumer.stop(), 0);
    assert.equal((await stream.group('g')).pending, 0);
  });

  test('a foreign entry is delivered without an id, skipped, or failed', async () => {
    for (const onForeign of ['deliver', 'skip', 'fail']) {
      const { stream, consumer, told } = await watched(`foreign-${onForeign}`, { onForeign, maxAttempts: 1 });
      await at.plain.text('XADD', stream.key, '5-5', 'k', 'v');
      if (onForeign === 'deliver') {
        const delivery = await consumer.next();
        assert.deepEqual([delivery.id, delivery.foreign, delivery.entryId], [null, true, '5-5']);
        assert.deepEqual(delivery.fields, [['k', 'v']]);
        delivery.ack();
        assert.throws(() => delivery.ack(), { code: 'state', subject: '5-5' });
      } else {
        const notice = await told('foreign');
        assert.deepEqual([notice.entryId, notice.id], ['5-5', undefined]);
      }
      if (onForeign === 'fail') await told('dead_letter');
      await consumer.stop();
      assert.equal((await stream.group('g')).pending, 0);
    }
  });

  test('failures and dead letters say which entry and which attempt', async () => {
    const { stream, consumer, told } = await watched('failed', { maxAttempts: 2, retry: 1 });
    const id = await stream.append({ n: '0' });
    for (const attempts of [1, 2]) {
      (await consumer.next()).fail('of no use');
      const notice = await told('failed');
      assert.deepEqual(
        [notice.id, notice.attempts, notice.message, notice.code],
        [id, attempts, 'of no use', undefined],
      );
    }
    const notice = await told('dead_letter');
    assert.deepEqual([notice.id, notice.attempts], [id, 2]);
    const [letter] = await stream.deadLetters().toArray();
    assert.ok(notice.message.includes(letter.id));
    await consumer.stop(0);
  });

  test('a lost connection, and verdicts that cannot be brought, are told with their cause', async () => {
    const options = { timeout: 2000, reconnectMin: 1, reconnectMax: 10 };
    const { stream, consumer, told } = await watched('server', {}, options);
    await stream.append({ n: '0' });
    const delivery = await consumer.next();
    await at.server.kill();
    assert.ok(['disconnected', 'timeout', 'server'].includes((await told('disconnected')).code));
    delivery.ack();
    const { code } = await told('trouble');
    assert.ok(['disconnected', 'timeout', 'unknown_outcome'].includes(code), code);
    await at.server.run();
    at.plain.close();
    at.plain = at.server.plain();
    await told('reconnected');
    await consumer.stop(0);
  });

  test('the same trouble is told once a second, with how many it stands for', async () => {
    const { stream, consumer, told } = await watched('times', {});
    await stream.append({ n: '0' });
    const delivery = await consumer.next();
    await at.plain.text('ACL', 'SETUSER', 'default', '-xack');
    delivery.ack();
    const first = await told('trouble');
    assert.deepEqual([first.code, first.times], ['auth', 1]);
    const next = await told('trouble');
    assert.equal(next.code, 'auth');
    assert.ok(next.times > 1, String(next.times));
    await at.plain.text('ACL', 'SETUSER', 'default', '+xack');
    await until('the verdict arrives', async () => (await stream.group('g')).pending === 0);
    await consumer.stop(0);
  });

  test('those beyond 1 024 that nobody takes are counted, and the rest are given until the end', async () => {
    const { stream, consumer, notices } = await watched('missed', { count: 2000 });
    await stream.appendBatch(Array.from({ length: 1030 }, (_, n) => ({ n: String(n) })));
    for (let n = 0; n < 1030; n++) (await consumer.next()).fail(String(n));
    await until('all are failed', async () => (await consumer.stop(0)) === 0);
    const { value: missed } = await notices.next();
    kinds.add(missed.kind);
    assert.deepEqual([missed.kind, missed.message.split(' ')[0]], ['missed', '6']);
    const left = [];
    for await (const { message } of notices) left.push(message);
    assert.deepEqual([left.length, left[0], left.at(-1)], [1024, '6', '1029']);
    assert.deepEqual(await notices.next(), { done: true, value: undefined });
  });

  test('a client tells of its connection, until it is closed', async () => {
    const client = await at.connect();
    const told = client.notices();
    assert.deepEqual((await told.next()).value.kind, 'connected');
    await client.close();
    assert.deepEqual(await told.next(), { done: true, value: undefined });
  });

  test('every kind of a consumer was seen, and every kind is declared', () => {
    const ofClients = ['clock_ahead', 'connected', 'eviction_policy', 'node_conflict', 'node_lease_lost'];
    assert.deepEqual([...kinds, ...ofClients].sort(), native.noticeKinds().sort());
    const types = readFileSync(join(__dirname, '../index.d.ts'), 'utf8');
    const declared = types.match(/export type NoticeKind =\n([\s\S]*?);/)[1];
    assert.deepEqual(
      Array.from(declared.matchAll(/'(\w+)'/g), (match) => match[1]).sort(),
      native.noticeKinds().sort(),
    );
  });
});
