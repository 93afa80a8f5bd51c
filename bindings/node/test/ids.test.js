const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { BrandedId, EntryId, EventId, Keyspace } = require('..');
const vectors = require('../../../conformance/vectors.json');

describe('ids and keys', () => {
  test('every id of the vectors, both ways', () => {
    for (const fact of vectors.ids) {
      const id = EventId.parse(fact.evt);
      assert.deepEqual([id.unixMs, id.node, id.sequence], [fact.unix_ms, fact.node, fact.seq]);
      assert.equal(id.entryId, fact.entry_id);
      assert.equal(EventId.fromEntryId(fact.entry_id), fact.evt);
      assert.equal(id.snowflake, BigInt(fact.snowflake));
    }
    for (const fact of vectors.branded) {
      const id = BrandedId.parse(fact.id);
      assert.deepEqual([id.namespace, id.snowflake, String(id)], [fact.ns, BigInt(fact.snowflake), fact.id]);
      assert.equal(BrandedId.encode(fact.ns, BigInt(fact.snowflake)), fact.id);
    }
  });

  test('an id is text all the way, through JSON too', () => {
    const id = BrandedId.encode('EVT', 653247040368672769n);
    const back = JSON.parse(JSON.stringify({ id })).id;
    assert.equal(typeof back, 'string');
    assert.equal(EventId.parse(back).snowflake, 653247040368672769n);
  });

  test('an event id and its entry id name each other', () => {
    assert.equal(EventId.parse('EVT0NgWEfAER90').entryId, '1780512970164-28714');
    assert.equal(EventId.fromEntryId('1780512970164-28714'), 'EVT0NgWEfAER90');
    assert.ok(BrandedId.parse('EVT0NgWEfAER90') instanceof EventId);
    const { ms, seq } = EntryId.parse('18446744073709551615-18446744073709551615');
    assert.deepEqual([ms, seq], [18446744073709551615n, 18446744073709551615n]);
  });

  test('what is no id is refused by code', () => {
    for (const text of ['', 'EVT', 'evt0NgWEfAER90', 'EVT000xY9Wvv-d', 'EVTzzzzzzzzzzz', 'EVT0NgWEfAER9\u00e9']) {
      assert.throws(() => BrandedId.parse(text), { code: 'malformed_id' });
      assert.throws(() => EventId.parse(text), { code: 'malformed_id' });
    }
    assert.throws(() => EventId.parse('JOB0NgWEfAER90'), { code: 'kind' });
    for (const text of ['', '1', '1-', '01-1', '1-2-3', '-1-1']) {
      assert.throws(() => EntryId.parse(text), { code: 'malformed_id' });
    }
    assert.throws(() => EventId.fromEntryId('1-1'), { code: 'malformed_id' });
    for (const snowflake of [-1n, 2n ** 63n, 2n ** 64n, 2n ** 200n, -(2n ** 200n)]) {
      assert.throws(() => BrandedId.encode('EVT', snowflake), { code: 'malformed_id' });
    }
    assert.equal(BrandedId.encode('EVT', 2n ** 63n - 1n), 'EVTAzL8n0Y58m7');
    assert.throws(() => BrandedId.encode('ev', 1n), { code: 'malformed_id' });
  });

  test('keys and slots', () => {
    const keys = new Keyspace('orders');
    assert.equal(keys.queue, 'orders');
    assert.equal(keys.stream('events'), 'emq:{orders}:stream:events');
    assert.equal(keys.key('seq'), 'emq:{orders}:seq');
    assert.equal(Keyspace.slot('emq:{orders}:stream:events'), 105);
    assert.equal(Keyspace.slot('123456789'), 12739);
    assert.throws(() => new Keyspace('emq'), { code: 'invalid_name' });
    assert.throws(() => new Keyspace('a:b'), { code: 'invalid_name' });
    assert.throws(() => keys.stream(''), { code: 'invalid_name' });
  });
});
