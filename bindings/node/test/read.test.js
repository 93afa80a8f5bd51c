const assert = require('node:assert/strict');
const { before, describe, test } = require('node:test');
const { EventId, Reader, Record } = require('..');
const { suite } = require('./suite');

/** The id of that instant, node 0. */
function idAt(ms, sequence = 0) {
  return EventId.fromEntryId(`${ms}-${sequence}`);
}

const START = Date.UTC(2026, 5, 3);

describe('reading', () => {
  const at = suite();
  let stream;
  const ids = Array.from({ length: 10 }, (_, n) => idAt(START + n));

  before(async () => {
    stream = (await at.connect()).stream('read', 'ten');
    for (const [n, id] of ids.entries()) await stream.appendId(id, { n: String(n) });
  });

  const read = async (reader) => (await reader.toArray()).map((record) => record.id);

  test('a range by ids', async () => {
    assert.deepEqual(await read(stream.read()), ids);
    assert.deepEqual(await read(stream.read({ from: '-', to: '+' })), ids);
    assert.deepEqual(await read(stream.read({ from: ids[3] })), ids.slice(3));
    assert.deepEqual(await read(stream.read({ from: `(${ids[3]}` })), ids.slice(4));
    assert.deepEqual(await read(stream.read({ to: ids[3] })), ids.slice(0, 4));
    assert.deepEqual(await read(stream.read({ to: `(${ids[3]}` })), ids.slice(0, 3));
    assert.deepEqual(await read(stream.read({ from: ids[5], to: ids[4] })), []);
    assert.throws(() => stream.read({ from: 'x' }), { code: 'malformed_id' });
    assert.throws(() => stream.read({ to: 'JOB0NgWEfAER90' }), { code: 'kind' });
  });

  test('a window has both its ends, and an instant begins its millisecond', async () => {
    const date = (n) => new Date(START + n);
    assert.deepEqual(await read(stream.readWindow(date(2), date(4))), ids.slice(2, 5));
    assert.deepEqual(await read(stream.readWindow(date(2), date(2))), ids.slice(2, 3));
    assert.deepEqual(await read(stream.readWindow(new Date(-1), new Date(8.64e15))), ids);
    assert.deepEqual(await read(stream.readSince(date(8))), ids.slice(8));
    assert.deepEqual(await read(stream.readSince(date(10))), []);
    assert.throws(() => stream.readWindow(date(3), date(2)), { code: 'invalid_window', subject: stream.key });
  });

  test('the newest, newest first', async () => {
    assert.deepEqual(await read(stream.readLast(3)), ids.slice(7).reverse());
    assert.deepEqual(await read(stream.readLast(100, { pageSize: 3 })), [...ids].reverse());
    assert.deepEqual(await read(stream.readLast(0)), []);
  });

  test('limits, pages, and stopping in between', async () => {
    assert.deepEqual(await read(stream.read({ limit: 4, pageSize: 3 })), ids.slice(0, 4));
    assert.deepEqual(await read(stream.readSince(new Date(START), { limit: 2 })), ids.slice(0, 2));
    assert.deepEqual(
      await read(stream.readWindow(new Date(START), new Date(START + 9), { limit: 2 })),
      ids.slice(0, 2),
    );
    assert.deepEqual(await read(stream.read({ pageBytes: 1 })), ids);
    assert.deepEqual(await read(stream.readLast(3, { pageSize: 2, pageBytes: 1 })), ids.slice(7).reverse());
    const sizes = [];
    for await (const page of stream.read({ pageSize: 4 }).pages()) sizes.push(page.length);
    assert.deepEqual(sizes, [4, 4, 2]);

    const reader = stream.read({ pageSize: 4 });
    assert.ok(reader instanceof Reader);
    const seen = [];
    for await (const record of reader) {
      assert.ok(record instanceof Record);
      seen.push(record.id);
      if (seen.length === 2) break;
    }
    assert.deepEqual(seen, ids.slice(0, 2));
  });

  test('a page is asked for when it is needed, so that what comes meanwhile is seen', async () => {
    const growing = (await at.connect()).stream('read', 'growing');
    for (const n of [0, 1, 2]) await growing.appendId(idAt(START + n), {});
    const seen = [];
    for await (const record of growing.read({ pageSize: 2 })) {
      if (seen.push(record.id) === 1) await growing.appendId(idAt(START + 3), {});
    }
    assert.deepEqual(
      seen,
      [0, 1, 2, 3].map((n) => idAt(START + n)),
    );
  });

  test('fields as text, raw as bytes, the first value of a name', async () => {
    const client = await at.connect();
    const bytes = client.stream('read', 'bytes');
    const raw = [
      ['k', '1'],
      ['k', '2'],
      ['', ''],
      ['é', '👩‍🚀'],
      [Buffer.of(0xff), Buffer.of(0xc3, 0x28)],
      ['\ufeffm', '\0'],
    ];
    const id = await bytes.append(raw);
    const [record] = await bytes.read().toArray();
    assert.deepEqual([record.id, record.entryId, record.foreign], [id, EventId.parse(id).entryId, false]);
    assert.deepEqual(
      record.raw,
      raw.map((pair) => pair.map((part) => Buffer.from(part))),
    );
    assert.deepEqual(
      record.fields,
      raw.map((pair) => pair.map((part) => Buffer.from(part).toString())),
    );
    assert.deepEqual(
      [record.get('k'), record.get('é'), record.get('id'), record.get('no')],
      ['1', '👩‍🚀', undefined, undefined],
    );
    assert.equal(typeof JSON.parse(JSON.stringify(record)).id, 'string');
    record.raw[0][1][0] = 0;
    assert.equal(record.raw[0][1].toString(), '1');
  });

  test('an entry of another hand is foreign and keeps all its fields', async () => {
    const foreign = (await at.connect()).stream('read', 'foreign');
    const id = await foreign.appendId(idAt(START), { k: 'v' });
    await at.plain.text('XADD', foreign.key, `${START}-1`, 'id', id, 'k', 'w');
    await at.plain.text('XADD', foreign.key, `${START + 1}-9999999`, 'k', 'x');
    const records = await foreign.read().toArray();
    assert.deepEqual(
      records.map((record) => [record.id, record.entryId, record.foreign, record.fields]),
      [
        [id, `${START}-0`, false, [['k', 'v']]],
        [
          null,
          `${START}-1`,
          true,
          [
            ['id', id],
            ['k', 'w'],
          ],
        ],
        [null, `${START + 1}-9999999`, true, [['k', 'x']]],
      ],
    );
  });

  test('a stream that is not there is empty, and a key of another type is not', async () => {
    const client = await at.connect();
    assert.deepEqual(await read(client.stream('read', 'nothing').read()), []);
    await at.plain.text('SET', 'emq:{read}:stream:text', 'x');
    await assert.rejects(read(client.stream('read', 'text').read()), { code: 'wrong_type' });
  });

  test('asked for many pages at once, a reader gives each record once', async () => {
    const pages = stream.read({ pageSize: 2 }).pages();
    const asked = await Promise.all(Array.from({ length: 7 }, () => pages.next()));
    assert.deepEqual(
      asked.flatMap(({ value }) => value ?? []).map((record) => record.id),
      ids,
    );
  });

  test('trimming answers how many went', async () => {
    const trimmed = (await at.connect()).stream('read', 'trimmed');
    await trimmed.appendBatch(Array.from({ length: 1000 }, () => ({ k: 'v' })));
    const kept = async () => at.plain.text('XLEN', trimmed.key);
    const went = await trimmed.trim({ maxLen: 500 });
    assert.equal(await kept(), 1000 - went);
    assert.ok((await kept()) >= 500);
    assert.equal(await trimmed.trim({ maxLen: 10, exact: true }), 1000 - went - 10);
    assert.equal(await kept(), 10);
    const last = await trimmed.appendId(idAt(Date.now() + 3_600_000), {});
    assert.equal(await trimmed.trim({ minId: new Date(EventId.parse(last).unixMs), exact: true }), 10);
    assert.deepEqual(
      (await at.entries(trimmed.key)).map(([, parts]) => parts[1]),
      [last],
    );
    assert.equal(await trimmed.trim({ minId: new Date(-1) }), 0);
  });
});
