const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { EventId } = require('..');
const { suite } = require('./suite');

describe('a stream of several writers', () => {
  const at = suite();

  test('the id is the client’s own where it is above the top, and else the sequencer’s', async () => {
    const clock = Date.now();
    const [ahead, behind] = [
      await at.connect({ nodeId: 1, clock }),
      await at.connect({ nodeId: 2, clock: clock - 5000 }),
    ].map((client) => client.stream('sequenced', 'two'));
    const first = await ahead.appendSequenced({ n: '0' });
    const second = await behind.appendSequenced([['n', '1']]);
    const third = await ahead.appendSequenced({ n: '2' });
    assert.deepEqual([EventId.parse(first).unixMs, EventId.parse(first).node], [clock, 1]);
    assert.equal(EventId.parse(second).node, 1023);
    assert.ok(first < second && second < third);
    assert.deepEqual(
      (await at.entries(ahead.key)).map(([entryId, parts]) => [entryId, parts]),
      [first, second, third].map((id, n) => [EventId.parse(id).entryId, ['id', id, 'n', String(n)]]),
    );
    await assert.rejects(behind.append({ n: '3' }), { code: 'nonmonotonic' });
  });

  test('a batch is written whole, or not at all', async () => {
    const clock = Date.now();
    const stream = (await at.connect({ nodeId: 1, clock })).stream('sequenced', 'batch');
    const late = (await at.connect({ nodeId: 2, clock: clock - 5000 })).stream('sequenced', 'batch');
    const top = await stream.appendSequenced({});
    const records = Array.from({ length: 100 }, (_, n) => ({ n: String(n) }));
    const ids = await late.appendBatch(records, { sequenced: true });
    assert.deepEqual(
      (await at.entries(stream.key)).slice(1).map(([, parts]) => [parts[1], parts[3]]),
      ids.map((id, n) => [id, String(n)]),
    );
    assert.ok(ids.every((id, n) => id > (ids[n - 1] ?? top)));
    await assert.rejects(late.appendBatch([{}, { id: 'x' }], { sequenced: true }), { code: 'reserved_field' });
    assert.equal(await at.plain.text('XLEN', stream.key), 101);
    assert.deepEqual(await late.appendBatch([], { sequenced: true }), []);
  });

  test('what is refused', async () => {
    const stream = (await at.connect()).stream('sequenced', 'refused');
    await assert.rejects(stream.appendSequenced({ id: 'x' }), { code: 'reserved_field' });
    await assert.rejects(stream.appendSequenced({ k: 1 }), TypeError);
    await assert.rejects(stream.appendSequenced({}, { signal: AbortSignal.abort() }), { name: 'AbortError' });
    await stream.appendId(EventId.fromEntryId(`${Date.now() + 3_600_000}-0`), {});
    await assert.rejects(stream.appendSequenced({}), { code: 'stream_ahead' });
    assert.equal(await at.plain.text('XLEN', stream.key), 1);
  });
});
