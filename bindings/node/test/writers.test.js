const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { EchoMQError, EventId } = require('..');
const { suite } = require('./suite');

describe('a stream that has many writers', () => {
  const at = suite();

  /** Two clients whose clocks stand five seconds apart, so that the second one's ids never are above the first one's. */
  async function pair(name) {
    const clock = Date.now();
    const clients = [await at.connect({ nodeId: 1, clock }), await at.connect({ nodeId: 2, clock: clock - 5000 })];
    return clients.map((client) => client.stream('writers', name, { writers: 'many' }));
  }

  test('every append of its handle is sequenced', async () => {
    const [ahead, behind] = await pair('all');
    const ids = [await ahead.append({ n: '0' }), await behind.append({ n: '1' })];
    ids.push(...(await ahead.appendBatch([{ n: '2' }, { n: '3' }])));
    ids.push(...(await behind.appendBatch([{ n: '4' }, { n: '5' }], { atomic: true })));
    const { id, published, error } = await behind.appendAndPublish({ n: '6' }, 'completed', 'JOB000xY9Wvvcd');
    assert.deepEqual([published, error], [0, undefined]);
    ids.push(id, await ahead.append({ n: '7' }));
    assert.deepEqual(ids, ids.toSorted?.() ?? [...ids].sort());
    assert.equal(EventId.parse(ids[1]).node, 1023);
    assert.deepEqual(
      (await at.entries(ahead.key)).map(([entryId, parts]) => [entryId, parts]),
      ids.map((id, n) => [EventId.parse(id).entryId, ['id', id, 'n', String(n)]]),
    );
  });

  test('a batch has one result for each record', async () => {
    const [stream] = await pair('batch');
    const results = await stream.appendBatch([{ k: '1' }, { id: 'x' }, { k: '2' }]);
    assert.ok(results[1] instanceof EchoMQError);
    assert.equal(results[1].code, 'reserved_field');
    const written = (await at.entries(stream.key)).map(([, parts]) => parts[1]);
    assert.deepEqual([results[0], results[2]], written);
  });

  test('one writer is what a stream has unless it is told otherwise', async () => {
    const [ahead, behind] = await pair('one');
    await ahead.append({});
    const client = await at.connect({ nodeId: 2, clock: Date.now() - 5000 });
    for (const stream of [client.stream('writers', 'one'), client.stream('writers', 'one', { writers: 'one' })]) {
      const refused = await stream.append({}).catch((error) => error);
      assert.equal(refused.code, 'nonmonotonic');
    }
    await behind.append({});
    assert.throws(() => client.stream('writers', 'one', { writers: 'two' }), {
      code: 'invalid_option',
      subject: 'writers',
    });
    assert.throws(() => client.stream('writers', 'one', { writers: 2 }), TypeError);
    assert.throws(() => client.stream('writers', 'one', null), TypeError);
  });
});
