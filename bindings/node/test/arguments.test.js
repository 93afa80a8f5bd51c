const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { BrandedId, Client, EntryId, EventId, Keyspace } = require('..');
const { suite } = require('./suite');

const ID = 'EVT0NgWEfAER90';

describe('arguments of a wrong kind', () => {
  const at = suite();
  const stream = async () => (await at.connect()).stream('arguments', 'refused');

  test('an id is a string: a number is refused everywhere, whole or not', async () => {
    const { appendId, read } = bound(await stream());
    for (const id of [Number('653247040368672769'), 1, 1.5, NaN, 653247040368672769n, null, {}, [ID], new String(ID)]) {
      await assert.rejects(appendId(id, {}), TypeError);
      assert.throws(() => read({ from: id }), TypeError);
      assert.throws(() => read({ to: id }), TypeError);
      assert.throws(() => BrandedId.parse(id), TypeError);
      assert.throws(() => EventId.parse(id), TypeError);
      assert.throws(() => EventId.fromEntryId(id), TypeError);
      assert.throws(() => EntryId.parse(id), TypeError);
    }
    await assert.rejects(appendId(undefined, {}), TypeError);
  });

  test('values are strings or Uint8Arrays', async () => {
    const { append, appendBatch } = bound(await stream());
    for (const value of [
      1,
      1n,
      true,
      null,
      undefined,
      {},
      [],
      new Date(),
      Symbol('s'),
      new Uint16Array(2),
      new ArrayBuffer(2),
    ]) {
      await assert.rejects(append({ k: value }), TypeError);
      await assert.rejects(append([['k', value]]), TypeError);
      await assert.rejects(append([[value, 'v']]), TypeError);
      await assert.rejects(appendBatch([{ k: '1' }, { k: value }]), TypeError);
      await assert.rejects(appendBatch([{ k: '1' }, { k: value }], { atomic: true }), TypeError);
    }
  });

  test('fields are an object or pairs', async () => {
    const { append } = bound(await stream());
    for (const fields of [
      undefined,
      null,
      'ab',
      5,
      true,
      ['kv'],
      [['k']],
      [['k', 'v', 'w']],
      new Uint8Array([1, 2]),
      new Set(['kv']),
    ]) {
      await assert.rejects(append(fields), TypeError);
    }
  });

  test('records and commands are iterables of them', async () => {
    const { appendBatch } = bound(await stream());
    const client = await at.connect();
    for (const records of [undefined, null, 'ab', 5, { k: 'v' }]) {
      await assert.rejects(appendBatch(records), TypeError);
      await assert.rejects(client.pipeline(records), TypeError);
    }
    for (const command of [undefined, 'PING', { 0: 'PING' }, ['XLEN', 5]]) {
      await assert.rejects(client.command(command), TypeError);
      await assert.rejects(client.pipeline([command]), TypeError);
    }
  });

  test('half a surrogate pair has no bytes, alone or where two parts meet', async () => {
    const { append } = bound(await stream());
    for (const fields of [
      { k: '\ud83d' },
      { k: '\ude00x' },
      { '\ud83d': 'v' },
      { k: '\ud83d', l: new Uint8Array(1) },
    ]) {
      await assert.rejects(append(fields), TypeError);
    }
    await assert.rejects(append([['k\ud83d', '\ude00v']]), TypeError);
    await assert.rejects(
      append([
        ['é', '\ud83d'],
        ['\ude00', 'v'],
      ]),
      TypeError,
    );
  });

  test('instants are Dates', async () => {
    const { readWindow, readSince, trim } = bound(await stream());
    for (const instant of [0, Date.now(), '2026-06-03', undefined, null, {}]) {
      assert.throws(() => readWindow(instant, new Date()), TypeError);
      assert.throws(() => readWindow(new Date(), instant), TypeError);
      assert.throws(() => readSince(instant), TypeError);
      await assert.rejects(trim({ minId: instant }), TypeError);
    }
    const never = new Date(NaN);
    assert.throws(() => readWindow(never, never), { code: 'invalid_option' });
    assert.throws(() => readSince(never), { code: 'invalid_option' });
    await assert.rejects(trim({ minId: never }), { code: 'invalid_option' });
  });

  test('counts are whole numbers', async () => {
    const client = await at.connect();
    const { read, readLast, trim } = bound(client.stream('arguments', 'refused'));
    for (const count of [-1, 1.5, NaN, Infinity, 2 ** 53]) {
      assert.throws(() => read({ limit: count }), RangeError);
      assert.throws(() => read({ pageSize: count }), RangeError);
      assert.throws(() => read({ pageBytes: count }), RangeError);
      assert.throws(() => readLast(count), RangeError);
      await assert.rejects(trim({ maxLen: count }), RangeError);
      await assert.rejects(client.close(count), RangeError);
    }
    for (const count of ['1', 1n, null, {}]) {
      assert.throws(() => read({ limit: count }), TypeError);
      assert.throws(() => readLast(count), TypeError);
      await assert.rejects(trim({ maxLen: count }), TypeError);
      await assert.rejects(client.close(count), TypeError);
    }
    for (const options of [undefined, {}, { maxLen: 1, minId: new Date() }]) {
      await assert.rejects(trim(options), TypeError);
    }
  });

  test('names, URLs and snowflakes', async () => {
    const client = await at.connect();
    for (const name of [undefined, null, 5, {}]) {
      assert.throws(() => client.stream(name, 's'), TypeError);
      assert.throws(() => client.stream('q', name), TypeError);
      assert.throws(() => new Keyspace(name), TypeError);
      assert.throws(() => new Keyspace('q').stream(name), TypeError);
      assert.throws(() => new Keyspace('q').key(name), TypeError);
      assert.throws(() => Keyspace.slot(name), TypeError);
      assert.throws(() => BrandedId.encode(name, 1n), TypeError);
      await assert.rejects(Client.connect(name), TypeError);
    }
    for (const snowflake of [1, '1', null, undefined])
      assert.throws(() => BrandedId.encode('EVT', snowflake), TypeError);
  });

  test('nothing of all this reached the server', async () => {
    assert.deepEqual(await at.plain.text('KEYS', '*'), []);
  });
});

/** The methods of an object, callable on their own. */
function bound(object) {
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(object));
  return Object.fromEntries(names.map((name) => [name, object[name].bind(object)]));
}
