const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { EventId } = require('..');
const { until } = require('./server');
const { suite } = require('./suite');

describe('groups', () => {
  const at = suite();

  async function filled(name, count) {
    const stream = (await at.connect()).stream('groups', name);
    const ids = await stream.appendBatch(Array.from({ length: count }, (_, n) => ({ n: String(n) })));
    const read = (consumer, entries) =>
      at.plain.text('XREADGROUP', 'GROUP', 'g', consumer, 'COUNT', String(entries), 'STREAMS', stream.key, '>');
    return { stream, ids, read };
  }

  test('making, looking at and removing', async () => {
    const { stream, ids, read } = await filled('life', 5);
    assert.deepEqual(await stream.groups(), []);
    assert.equal(await stream.createGroup('g', 'head'), true);
    assert.equal(await stream.createGroup('g', 'new'), false);
    await read('c', 2);
    const { idle, ...consumer } = (await stream.group('g')).consumers[0];
    assert.ok(Number.isInteger(idle) && idle >= 0);
    assert.deepEqual(consumer, { name: 'c', pending: 2 });
    const { consumers, ...group } = await stream.group('g');
    const expected = { name: 'g', pending: 2, lag: 3, lastDelivered: EventId.parse(ids[1]).entryId };
    assert.deepEqual([group, consumers.length], [expected, 1]);
    assert.deepEqual(
      (await stream.groups()).map(({ name }) => name),
      ['g'],
    );
    assert.equal(await stream.removeGroup('g'), true);
    assert.equal(await stream.removeGroup('g'), false);
    await assert.rejects(stream.group('g'), { code: 'no_group' });
    assert.equal(await at.plain.text('XLEN', stream.key), 5);
  });

  test('a lag that is not known is null', async () => {
    const { stream, ids } = await filled('lag', 5);
    await stream.createGroup('g', ids[1]);
    await at.plain.text('XDEL', stream.key, EventId.parse(ids[3]).entryId);
    const server = (await at.plain.text('XINFO', 'GROUPS', stream.key))[0];
    assert.equal(server[server.indexOf('lag') + 1], null);
    const { lag } = await stream.group('g');
    assert.ok(lag === null || lag === 2, String(lag));
  });

  test('moving a group, to each kind of start', async () => {
    const { stream, ids, read } = await filled('seek', 3);
    await stream.createGroup('g', 'head');
    const next = async () => (await read('c', 1))?.[0][1][0][1][1];
    assert.equal(await next(), ids[0]);
    assert.equal(await stream.seek('g', ids[1]), undefined);
    assert.equal(await next(), ids[2]);
    await stream.seek('g', 'head');
    assert.equal(await next(), ids[0]);
    await stream.seek('g', new Date(EventId.parse(ids[0]).unixMs));
    assert.equal(await next(), ids[0]);
    await stream.seek('g', 'new');
    assert.equal(await next(), undefined);
    await assert.rejects(stream.seek('none', 'head'), { code: 'no_group' });
    await assert.rejects(stream.seek('g', 'x'), { code: 'malformed_id' });
  });

  test('a consumer goes only when nothing is pending for it', async () => {
    const { stream, read } = await filled('consumers', 3);
    await stream.createGroup('g', 'head');
    await read('busy', 2);
    await at.plain.text('XGROUP', 'CREATECONSUMER', stream.key, 'g', 'quiet');
    await assert.rejects(stream.removeConsumer('g', 'busy'), { code: 'state', message: /2/ });
    await assert.rejects(stream.removeConsumer('g', 'nobody'), { code: 'gone' });
    await assert.rejects(stream.removeConsumer('none', 'quiet'), { code: 'no_group' });
    assert.equal(await stream.removeConsumer('g', 'quiet'), undefined);
    await at.plain.text('XGROUP', 'CREATECONSUMER', stream.key, 'g', 'idle');
    assert.deepEqual(await stream.sweepConsumers('g', 3_600_000), []);
    let swept = [];
    await until('the idle one is swept', async () => {
      swept = await stream.sweepConsumers('g', 0);
      return swept.length > 0;
    });
    assert.deepEqual(swept, ['idle']);
    assert.deepEqual(
      (await stream.group('g')).consumers.map(({ name, pending }) => [name, pending]),
      [['busy', 2]],
    );
  });

  test('what is no name, no start and no time is refused', async () => {
    const { stream } = await filled('refused', 0);
    const calls = [
      (name) => stream.group(name),
      (name) => stream.createGroup(name, 'head'),
      (name) => stream.seek(name, 'head'),
      (name) => stream.removeGroup(name),
      (name) => stream.removeConsumer(name, 'c'),
      (name) => stream.removeConsumer('g', name),
      (name) => stream.sweepConsumers(name, 0),
    ];
    for (const call of calls) {
      for (const name of ['', 'a b', 'Streams', 'x'.repeat(129)]) {
        await assert.rejects(async () => call(name), { code: 'invalid_name' });
      }
      for (const name of [undefined, null, 5, {}]) await assert.rejects(async () => call(name), TypeError);
    }
    for (const start of [undefined, 5, {}]) await assert.rejects(async () => stream.createGroup('g', start), TypeError);
    for (const idle of [-1, 1.5, NaN]) await assert.rejects(async () => stream.sweepConsumers('g', idle), RangeError);
    await assert.rejects(async () => stream.sweepConsumers('g', '1'), TypeError);
    assert.equal(await at.plain.text('EXISTS', stream.key), 0);
  });
});
