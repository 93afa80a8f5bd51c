const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { EchoMQError, EventId } = require('..');
const { suite } = require('./suite');

const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, byte) => byte);

describe('appending', () => {
  const at = suite();

  test('a record is its id and its fields, under the entry id that the id says', async () => {
    const stream = (await at.connect()).stream('append', 'one');
    const id = await stream.append({ kind: 'guessed', letter: 'é' });
    assert.equal(stream.key, 'emq:{append}:stream:one');
    const entry = [EventId.parse(id).entryId, ['id', id, 'kind', 'guessed', 'letter', 'é']];
    assert.deepEqual(await at.entries(stream.key), [entry]);
  });

  test('fields come as an object, as pairs, as a map, or from any iterable, and may be none', async () => {
    const stream = (await at.connect()).stream('append', 'shapes');
    function* pairs() {
      yield ['k', '1'];
      yield ['k', '2'];
    }
    await stream.append({ b: '1', a: '2' });
    await stream.append([
      ['b', '1'],
      ['a', '2'],
      ['7', '3'],
    ]);
    await stream.append(
      new Map([
        ['z', '1'],
        ['a', '2'],
      ]),
    );
    await stream.append(pairs());
    await stream.append({});
    await stream.append([]);
    const fields = (await at.entries(stream.key)).map(([, parts]) => parts.slice(2));
    const expected = [
      ['b', '1', 'a', '2'],
      ['b', '1', 'a', '2', '7', '3'],
      ['z', '1', 'a', '2'],
      ['k', '1', 'k', '2'],
      [],
      [],
    ];
    assert.deepEqual(fields, expected);
  });

  test('an iterable that appends itself does no harm', async () => {
    const stream = (await at.connect()).stream('append', 'nested');
    const inner = [];
    function* pairs() {
      yield ['outer', '1'];
      inner.push(stream.append({ inner: 'é' }));
      yield ['outer', '2'];
    }
    await stream.append(pairs());
    await Promise.all(inner);
    const fields = (await at.entries(stream.key)).map(([, parts]) => parts.slice(2));
    assert.deepEqual(fields, [
      ['inner', 'é'],
      ['outer', '1', 'outer', '2'],
    ]);
  });

  test('every byte is kept, in names and values, beside text of any script', async () => {
    const stream = (await at.connect()).stream('append', 'bytes');
    const parts = ['', '\0', '\r\n', 'ñandú', '日本語', '👩‍🚀', '\ufeffmark', 'id ', 'x'.repeat(70_000)];
    const bytes = [EVERY_BYTE, Uint8Array.of(0xc3, 0x28), Buffer.alloc(0), new Uint8Array(EVERY_BYTE.buffer, 250)];
    await stream.append(parts.map((part) => [part, part]));
    await stream.append([...parts, ...bytes].map((part) => [part, part]));
    const [[, text], [, mixed]] = await at.plain.command('XRANGE', stream.key, '-', '+');
    const expected = (values) => values.flatMap((value) => [Buffer.from(value), Buffer.from(value)]);
    assert.deepEqual(text.slice(2), expected(parts));
    assert.deepEqual(mixed.slice(2), expected([...parts, ...bytes]));
  });

  test('what is refused is refused by code, and nothing is written', async () => {
    const client = await at.connect({ maxRecordBytes: 100 });
    const stream = client.stream('append', 'refused');
    await assert.rejects(stream.append({ id: 'x' }), { code: 'reserved_field', subject: stream.key });
    await assert.rejects(stream.append({ k: 'x'.repeat(100) }), { code: 'too_large' });
    await assert.rejects(stream.appendId('x', {}), { code: 'malformed_id' });
    await assert.rejects(stream.appendId('JOB0NgWEfAER90', {}), { code: 'kind' });
    assert.throws(() => client.stream('append', 'a b'), { code: 'invalid_name' });
    assert.deepEqual(await at.plain.text('EXISTS', stream.key), 0);
    await at.plain.text('SET', 'emq:{append}:stream:text', 'x');
    await assert.rejects(client.stream('append', 'text').append({}), { code: 'wrong_type' });
  });

  test('an id of the caller’s own, and one that is not above the top', async () => {
    const client = await at.connect({ nodeId: undefined });
    const stream = client.stream('append', 'history');
    assert.equal(await stream.appendId('EVT0NgWEfAER90', { k: '1' }), 'EVT0NgWEfAER90');
    const error = await stream.appendId('EVT0NgWEfAER90', { k: '2' }).catch((error) => error);
    assert.deepEqual([error.code, error.name], ['nonmonotonic', 'NonmonotonicError']);
    assert.deepEqual([error.id, error.top], ['EVT0NgWEfAER90', '1780512970164-28714']);
    assert.deepEqual(await at.entries(stream.key), [['1780512970164-28714', ['id', 'EVT0NgWEfAER90', 'k', '1']]]);
  });

  test('a batch answers for each record, and an atomic one for all', async () => {
    const client = await at.connect();
    const stream = client.stream('append', 'batch');
    const results = await stream.appendBatch([{ n: '0' }, { id: '1' }, [['n', EVERY_BYTE]], []]);
    assert.ok(results[1] instanceof EchoMQError);
    assert.equal(results[1].code, 'reserved_field');
    const ids = [results[0], results[2], results[3]];
    assert.deepEqual(
      (await at.entries(stream.key)).map(([, parts]) => parts[1]),
      ids,
    );

    const atomic = await stream.appendBatch(new Set([{ n: '4' }, { n: '5' }]), { atomic: true });
    assert.deepEqual(
      (await at.entries(stream.key)).slice(3).map(([, parts]) => parts[1]),
      atomic,
    );
    await assert.rejects(stream.appendBatch([{ n: '6' }, { id: '7' }], { atomic: true }), { code: 'reserved_field' });
    assert.equal(await at.plain.text('XLEN', stream.key), 5);
    assert.deepEqual(await stream.appendBatch([]), []);
    assert.deepEqual(await stream.appendBatch([], { atomic: true }), []);
  });

  test('records of one client stand in the order of the calls, however many at once', async () => {
    const stream = (await at.connect()).stream('append', 'order');
    const ids = await Promise.all(Array.from({ length: 5000 }, (_, n) => stream.append({ n: String(n) })));
    const entries = await at.entries(stream.key);
    assert.deepEqual(
      entries.map(([, parts]) => parts[1]),
      ids,
    );
    assert.deepEqual(
      entries.map(([, parts]) => Number(parts[3])),
      Array.from(ids.keys()),
    );
  });

  test('clients of one process and one node mint no id twice', async () => {
    const clients = await Promise.all(Array.from({ length: 10 }, () => at.connect()));
    const minting = clients.flatMap((client) => Array.from({ length: 1000 }, () => client.mint()));
    const ids = await Promise.all(minting);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(EventId.parse(ids[0]).node, 7);
  });

  test('a clock that stands still pins the ids', async () => {
    const client = await at.connect({ nodeId: 3, clock: 1735689600001 });
    assert.equal(EventId.parse(await client.mint()).unixMs, 1735689600001);
  });
});
