const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { EventId, Gap, Record, Tail } = require('..');
const { suite } = require('./suite');

describe('following a stream', () => {
  const at = suite();

  async function filled(name, count) {
    const stream = (await at.connect()).stream('tail', name);
    const ids = await stream.appendBatch(Array.from({ length: count }, (_, n) => ({ n: String(n) })));
    return { stream, ids };
  }

  test('it gives what is there and what comes, in order, until the loop is left', async () => {
    const { stream, ids } = await filled('loop', 3000);
    const tail = await stream.tail('head');
    assert.ok(tail instanceof Tail);
    const seen = [];
    for await (const record of tail) {
      assert.ok(record instanceof Record);
      assert.equal(record.get('n'), String(seen.length));
      seen.push(record.id);
      if (seen.length === 3000) ids.push(await stream.append({ n: '3000' }));
      if (seen.length === 3001) break;
    }
    assert.deepEqual(seen, ids);
    assert.equal(await tail.next(), undefined);
  });

  test('it begins at the end, at the head, behind an id, or at an instant', async () => {
    const stream = (await at.connect()).stream('tail', 'starts');
    const date = new Date('2026-06-03T00:00:00Z');
    const ids = [0, 1, 2].map((n) => EventId.fromEntryId(`${date.getTime() + n}-0`));
    for (const id of ids) await stream.appendId(id, {});
    const expected = [
      ['head', ids[0]],
      [ids[0], ids[1]],
      [new Date(date.getTime() + 2), ids[2]],
      [`@${date.getTime() + 1}`, ids[1]],
    ];
    for (const [start, first] of expected) {
      const tail = await stream.tail(start);
      assert.equal((await tail.next()).id, first);
      tail.close();
    }
    const tail = await stream.tail('new');
    const id = await stream.append({});
    assert.equal((await tail.next()).id, id);
    tail.close();
    await assert.rejects(stream.tail('x'), { code: 'malformed_id' });
    await assert.rejects(stream.tail('JOB0NgWEfAER90'), { code: 'kind' });
    await assert.rejects(stream.tail(new Date(NaN)), { code: 'invalid_option' });
    for (const start of [undefined, null, 0, {}]) await assert.rejects(stream.tail(start), TypeError);
  });

  test('a place behind the trimmed edge gives a gap first', async () => {
    const { stream, ids } = await filled('gap', 50);
    await stream.trim({ maxLen: 10, exact: true });
    const tail = await stream.tail(ids[4]);
    const gap = await tail.next();
    assert.ok(gap instanceof Gap);
    assert.deepEqual([gap.from, gap.to], [EventId.parse(ids[4]).entryId, EventId.parse(ids[40]).entryId]);
    const [next] = await at.entries(stream.key);
    assert.deepEqual([(await tail.next()).id, next[0]], [ids[40], gap.to]);
    await tail[Symbol.asyncDispose]();
    assert.equal(await tail.next(), undefined);
  });

  test('it can be taken up from the last id that it gave', async () => {
    const { stream, ids } = await filled('resumed', 20);
    const seen = [];
    let start = 'head';
    while (seen.length < 20) {
      for await (const record of await stream.tail(start)) {
        start = record.id;
        if (seen.push(record.id) % 7 === 0 || seen.length === 20) break;
      }
    }
    assert.deepEqual(seen, ids);
  });

  test('giving a wait up loses nothing, and a signal ends the tail', async () => {
    const { stream } = await filled('signal', 0);
    const controller = new AbortController();
    const tail = await stream.tail('head', { signal: controller.signal });
    await assert.rejects(tail.next({ signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' });
    const id = await stream.append({});
    assert.equal((await tail.next()).id, id);
    const waiting = tail.next();
    controller.abort();
    assert.equal(await waiting, undefined);
    assert.equal(require('node:events').getEventListeners(controller.signal, 'abort').length, 0);
    const reason = new Error('not wanted');
    await assert.rejects(stream.tail('head', { signal: AbortSignal.abort(reason) }), reason);
  });

  test('it ends with the reason when it cannot go on', async () => {
    const client = await at.connect();
    const stream = client.stream('tail', 'ends');
    await at.plain.text('SET', stream.key, 'x');
    await assert.rejects(stream.tail('head'), { code: 'wrong_type' });
    await at.plain.text('DEL', stream.key);
    const broken = await stream.tail('head');
    const failed = assert.rejects(broken.next(), { code: 'wrong_type' });
    await at.plain.text('SET', stream.key, 'x');
    await failed;
    assert.equal(await broken.next(), undefined);
    const closed = await client.stream('tail', 'closed').tail('head');
    const outcome = closed.next().catch((error) => error.code);
    await client.close(5000);
    assert.equal(await outcome, 'closed');
  });

  test('it goes on where it was when the server comes back', async () => {
    const client = await at.connect({ reconnectMin: 1, reconnectMax: 10 });
    const stream = client.stream('tail', 'back');
    const tail = await stream.tail('head');
    await stream.append({ n: '0' });
    assert.equal((await tail.next()).get('n'), '0');
    await at.server.kill();
    await at.server.run();
    at.plain.close();
    at.plain = at.server.plain();
    const id = await stream.append({ n: '1' });
    let next = await tail.next();
    while (next instanceof Gap) next = await tail.next();
    assert.equal(next.id, id);
    tail.close();
  });
});
