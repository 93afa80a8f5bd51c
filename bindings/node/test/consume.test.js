const assert = require('node:assert/strict');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { describe, test } = require('node:test');
const { Consumer, Delivery, EventId } = require('..');
const native = require('../lib/native');
const { coreName } = require('../lib/options');
const { pendingOf, take } = require('./consuming');
const { until } = require('./server');
const { suite } = require('./suite');

const HOUR = 3_600_000;

describe('consuming', () => {
  const at = suite();
  const pending = (stream, group = 'g') => pendingOf(at.plain, stream, group);

  async function filled(name, count) {
    const stream = (await at.connect()).stream('consume', name);
    const ids = await stream.appendBatch(Array.from({ length: count }, (_, n) => ({ n: String(n) })));
    return { stream, ids };
  }

  test('a loop sees every record once, in order, and its acknowledgements arrive', async () => {
    const { stream, ids } = await filled('loop', 1000);
    const consumer = await stream.consumer({ group: 'g', start: 'head', consumer: 'me' });
    assert.ok(consumer instanceof Consumer);
    assert.deepEqual([consumer.group, consumer.name], ['g', 'me']);
    const seen = [];
    for await (const delivery of consumer) {
      assert.ok(delivery instanceof Delivery);
      assert.deepEqual([delivery.attempts, delivery.group, delivery.foreign, delivery.settled], [1, 'g', false, false]);
      assert.equal(delivery.entryId, EventId.parse(delivery.id).entryId);
      assert.equal(delivery.get('n'), String(seen.length));
      seen.push(delivery.id);
      delivery.ack();
      assert.ok(delivery.settled);
      if (seen.length === ids.length) break;
    }
    assert.deepEqual(seen, ids);
    assert.equal(await pending(stream), 0);
  });

  test('what is appended once it has started is seen', async () => {
    const { stream } = await filled('new', 1);
    for (let round = 0; round < 50; round++) {
      const consumer = await stream.consumer({ group: `g${round}`, start: 'new' });
      const id = await stream.append({ round: String(round) });
      assert.equal((await consumer.next()).id, id);
      await consumer.stop(0);
    }
  });

  test('a group begins where it is told: at the head, behind an id, at an instant', async () => {
    const stream = (await at.connect()).stream('consume', 'starts');
    const date = new Date('2026-06-03T00:00:00Z');
    const ids = [0, 1, 2].map((n) => EventId.fromEntryId(`${date.getTime() + n}-0`));
    for (const id of ids) await stream.appendId(id, {});
    const starts = {
      head: 'head',
      behind: ids[0],
      instant: new Date(date.getTime() + 2),
      text: `@${date.getTime() + 1}`,
    };
    const first = { head: ids[0], behind: ids[1], instant: ids[2], text: ids[1] };
    for (const [group, start] of Object.entries(starts)) {
      const consumer = await stream.consumer({ group, start });
      assert.equal((await consumer.next()).id, first[group], group);
      await consumer.stop(0);
    }
  });

  test('a second verdict throws with state, whatever the first one was', async () => {
    const { stream } = await filled('twice', 4);
    const consumer = await stream.consumer({ group: 'g', start: 'head', retry: 1 });
    const verdicts = [(d) => d.ack(), (d) => d.fail('no'), (d) => d.giveBack()];
    for (const first of verdicts) {
      const delivery = await consumer.next();
      first(delivery);
      for (const second of [...verdicts, (d) => d.extend()]) {
        assert.throws(() => second(delivery), { code: 'state', subject: delivery.entryId, id: delivery.id });
      }
    }
    await consumer.stop(0);
  });

  test('a failure comes back with its next attempt, after its own delay or that of retry', async () => {
    const { stream, ids } = await filled('fail', 2);
    const consumer = await stream.consumer({ group: 'g', start: 'head', retry: HOUR, minIdle: HOUR, beat: 10 });
    const [one, two] = [await consumer.next(), await consumer.next()];
    one.fail(new TypeError('not now'), { delay: 1 });
    two.fail('later');
    const again = await consumer.next();
    assert.deepEqual([again.id, again.attempts], [ids[0], 2]);
    again.ack();
    await consumer.flush();
    assert.equal(await pending(stream), 1);
    for (const delay of [-1, 1.5, '1']) assert.throws(() => again.fail('x', { delay }), /delay/);
    await consumer.stop(0);
  });

  test('the last attempt makes a dead letter, which is read and put back', async () => {
    const { stream, ids } = await filled('dead', 1);
    const options = { group: 'g', start: 'head', maxAttempts: 2, retry: 1, beat: 10 };
    const consumer = await stream.consumer(options);
    (await consumer.next()).fail('first');
    (await consumer.next()).fail(new Error('last'));
    await consumer.flush();
    assert.equal(await pending(stream), 0);
    const [letter] = await stream.deadLetters().toArray();
    assert.deepEqual(
      ['origin', 'group', 'attempts', 'error', 'n'].map((name) => letter.get(name)),
      [ids[0], 'g', '2', 'Error: last', '0'],
    );
    assert.equal((await at.entries(`${stream.key}:dead`))[0][1][1], letter.id);
    assert.deepEqual(await stream.deadLetters({ from: `(${letter.id}` }).toArray(), []);

    const id = await stream.putBack(letter.id);
    const delivery = await consumer.next();
    assert.deepEqual([delivery.id, delivery.fields], [id, [['n', '0']]]);
    assert.deepEqual(await stream.deadLetters().toArray(), []);
    await assert.rejects(stream.putBack(letter.id), { code: 'gone' });
    await assert.rejects(stream.putBack('x'), { code: 'malformed_id' });
    await consumer.stop(0);
  });

  test('leaving a loop, in whatever way, gives back what was fetched', async () => {
    const { stream, ids } = await filled('leave', 300);
    const options = { group: 'g', start: 'head', minIdle: HOUR, beat: 10 };
    const seen = [];
    const ways = {
      break: async () => {
        for await (const delivery of await stream.consumer(options)) {
          seen.push(delivery.id);
          delivery.ack();
          break;
        }
      },
      return: async () => {
        for await (const delivery of await stream.consumer(options)) {
          seen.push(delivery.id);
          delivery.ack();
          return;
        }
      },
      throw: async () => {
        const failed = async () => {
          for await (const delivery of await stream.consumer(options)) {
            seen.push(delivery.id);
            delivery.ack();
            throw new RangeError('left');
          }
        };
        await assert.rejects(failed, RangeError);
      },
      dispose: async () => {
        const consumer = await stream.consumer(options);
        const delivery = await consumer.next();
        seen.push(delivery.id);
        delivery.ack();
        await consumer[Symbol.asyncDispose]();
      },
    };
    for (const leave of Object.values(ways)) await leave();
    assert.equal(new Set(seen).size, 4);
    // Within the hour of minIdle another consumer has all the rest.
    const rest = await stream.consumer(options);
    const all = new Set(seen);
    while (all.size < ids.length) {
      const delivery = await rest.next();
      assert.ok(!seen.includes(delivery.id));
      all.add(delivery.id);
      delivery.ack();
    }
    assert.deepEqual([...all].sort(), ids);
    assert.equal(await rest.stop(), 0);
    assert.equal(await pending(stream), 0);
  });

  test('giving a wait up loses nothing', async () => {
    const { stream } = await filled('wait', 0);
    const consumer = await stream.consumer({ group: 'g', start: 'head' });
    const reason = new Error('no longer of interest');
    const controller = new AbortController();
    const waits = [1, 2].map(() => consumer.next({ signal: controller.signal }));
    controller.abort(reason);
    for (const wait of waits) await assert.rejects(wait, reason);
    await assert.rejects(consumer.next({ signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' });
    const id = await stream.append({ n: '0' });
    const delivery = await consumer.next({ signal: AbortSignal.timeout(60_000) });
    assert.deepEqual([delivery.id, delivery.attempts], [id, 1]);
    await assert.rejects(consumer.next({ signal: 'x' }), TypeError);
    await consumer.stop(0);
  });

  test('several that wait at once get an entry each, in order', async () => {
    const { stream } = await filled('several', 0);
    const consumer = await stream.consumer({ group: 'g', start: 'head' });
    const waits = Array.from({ length: 50 }, () => consumer.next());
    const ids = await stream.appendBatch(Array.from({ length: 50 }, () => ({})));
    assert.deepEqual(
      (await Promise.all(waits)).map((delivery) => delivery.id),
      ids,
    );
    await consumer.stop(0);
  });

  test('a pause hands nothing out, and gives what is there to nobody else', async () => {
    const { stream, ids } = await filled('pause', 10);
    const consumer = await stream.consumer({ group: 'g', start: 'head' });
    assert.equal((await consumer.next()).id, ids[0]);
    consumer.pause();
    const waits = consumer.next();
    let resumed = false;
    const order = waits.then((delivery) => [resumed, delivery.id]);
    await (await at.connect()).command(['PING']);
    resumed = true;
    consumer.resume();
    assert.deepEqual(await order, [true, ids[1]]);
    await consumer.stop(0);
  });

  test('a stop answers how many have no verdict, and gives back the rest', async () => {
    const { stream, ids } = await filled('stop', 200);
    const options = { group: 'g', start: 'head', minIdle: HOUR, beat: 10 };
    const consumer = await stream.consumer(options);
    const [one, two] = await take(consumer, 2);
    one.ack();
    assert.equal(await consumer.stop(1), 1);
    assert.equal(await consumer.stop(), 1);
    assert.equal(await consumer.next(), undefined);
    for await (const delivery of consumer) assert.fail(delivery.id);
    // A verdict counts after the end too.
    two.ack();
    const other = await stream.consumer(options);
    const rest = new Set();
    while (rest.size < 198) rest.add((await other.next()).id);
    assert.deepEqual([...rest].sort(), ids.slice(2));
    await other.stop(0);
    await until('the late verdict arrives', async () => (await pending(stream)) === 198);
  });

  test('a stop waits for what is in hand', async () => {
    const { stream } = await filled('hand', 1);
    const consumer = await stream.consumer({ group: 'g', start: 'head' });
    const delivery = await consumer.next();
    const stopped = consumer.stop();
    await stream.group('g');
    delivery.ack();
    assert.equal(await stopped, 0);
    assert.equal(await pending(stream), 0);
  });

  test('a signal gives the start up, and later stops the consumer', async () => {
    const { stream } = await filled('signal', 10);
    const reason = new Error('not wanted');
    await assert.rejects(stream.consumer({ group: 'g', start: 'head', signal: AbortSignal.abort(reason) }), reason);
    await assert.rejects(stream.consumer({ group: 'g', start: 'head', signal: 'x' }), TypeError);
    const early = new AbortController();
    const starting = stream.consumer({ group: 'g', start: 'head', consumer: 'early', signal: early.signal });
    early.abort(reason);
    await assert.rejects(starting, reason);

    const controller = new AbortController();
    const { signal } = controller;
    const seen = [];
    for await (const delivery of await stream.consumer({ group: 'h', start: 'head', signal })) {
      seen.push(delivery.id);
      delivery.ack();
      if (seen.length === 3) controller.abort();
    }
    assert.equal(seen.length, 3);
    assert.equal(require('node:events').getEventListeners(signal, 'abort').length, 0);
  });

  test('no more than count entries are held ahead of the loop', async () => {
    const { stream, ids } = await filled('demand', 500);
    let seen = 0;
    for await (const delivery of await stream.consumer({ group: 'g', start: 'head', count: 20 })) {
      const held = await at.plain.text('XPENDING', stream.key, 'g', delivery.entryId, '+', '1000');
      assert.ok(held.length <= 21, `${held.length} entries from this one on`);
      delivery.ack();
      if (++seen === ids.length) break;
    }
    assert.equal(await pending(stream), 0);
  });

  test('a delivery that is forgotten comes back after minIdle', async () => {
    const { stream, ids } = await filled('forgotten', 1);
    const consumer = await stream.consumer({ group: 'g', start: 'head', minIdle: 50, beat: 10 });
    require('node:v8').setFlagsFromString('--expose-gc');
    const collect = require('node:vm').runInNewContext('gc');
    await (async () => assert.equal((await consumer.next()).id, ids[0]))();
    let again;
    const waiting = consumer.next().then((delivery) => {
      again = delivery;
    });
    await until('it comes back', () => {
      collect();
      return again !== undefined;
    });
    await waiting;
    assert.deepEqual([again.id, again.attempts], [ids[0], 2]);
    await consumer.stop(0);
  });

  test('a client that closes ends its consumers', async () => {
    const { stream } = await filled('closed', 10_000);
    const client = await at.connect();
    const consumer = await client.stream('consume', 'closed').consumer({ group: 'g', start: 'head' });
    const seen = [];
    for await (const delivery of consumer) {
      delivery.ack();
      if (seen.push(delivery.id) === 3) client.close(10_000);
      await at.plain.text('PING');
    }
    assert.ok(seen.length < 10_000);
    assert.equal(await client.close(), 0);
    const left = await at.plain.text('XPENDING', stream.key, 'g', '-', '+', '1');
    assert.ok(left.length === 0 || !seen.includes(EventId.fromEntryId(left[0][0])));
  });

  test('the options are those of the core, each declared, and each reaches it', async () => {
    const { stream } = await filled('options', 0);
    const types = readFileSync(join(__dirname, '../index.d.ts'), 'utf8');
    const declared = types.match(/export interface ConsumerOptions \{([\s\S]*?)\n\}/)[1];
    const names = Array.from(declared.matchAll(/^ {2}(\w+)\??:/gm), (match) => match[1]);
    assert.deepEqual(names.map(coreName), [...native.consumerOptionNames(), 'signal']);

    const good = { group: 'g', start: 'head' };
    const refused = { count: 0, beat: 0, minIdle: 0, maxAttempts: 0, retry: '5..1', concurrency: 0, onForeign: 'x' };
    for (const [name, value] of Object.entries({ ...refused, maxN: 0, maxWait: -1, nothing: 1 })) {
      const expected = { code: 'invalid_option', subject: name === 'nothing' ? 'nothing' : coreName(name) };
      await assert.rejects(stream.consumer({ ...good, [name]: value }), (error) => {
        assert.equal(error.code, expected.code);
        assert.ok(
          error.subject === expected.subject ||
            error.message.includes(expected.subject) ||
            error.subject === stream.key,
        );
        return true;
      });
    }
    await assert.rejects(stream.consumer({ ...good, group: 'a b' }), { code: 'invalid_name' });
    await assert.rejects(stream.consumer({ ...good, consumer: 'streams' }), { code: 'invalid_name' });
    await assert.rejects(stream.consumer({ ...good, start: 'x' }), { code: 'malformed_id' });
    await assert.rejects(stream.consumer({ ...good, start: new Date(NaN) }), { code: 'invalid_option' });
    await assert.rejects(stream.consumer({ group: 'g' }), { code: 'invalid_option', subject: 'start' });
    await assert.rejects(stream.consumer({ start: 'head' }), { code: 'invalid_option', subject: 'group' });
    for (const options of [undefined, null, 'g']) await assert.rejects(stream.consumer(options), TypeError);
    for (const start of [1, null, {}]) await assert.rejects(stream.consumer({ ...good, start }), TypeError);
    for (const count of [true, null, {}]) await assert.rejects(stream.consumer({ ...good, count }), TypeError);
    assert.deepEqual(await at.plain.text('EXISTS', stream.key), 0);
  });

  test('a key of another type fails the start, and ends a consumer that runs', async () => {
    const stream = (await at.connect()).stream('consume', 'type');
    await at.plain.text('SET', stream.key, 'x');
    await assert.rejects(stream.consumer({ group: 'g', start: 'head' }), { code: 'wrong_type' });
    await at.plain.text('DEL', stream.key);
    const consumer = await stream.consumer({ group: 'g', start: 'head' });
    const ended = Promise.allSettled([consumer.next(), consumer.run(() => {})]);
    await at.plain.text('SET', stream.key, 'x');
    const outcomes = await ended;
    const failures = outcomes.filter(({ status }) => status === 'rejected').map(({ reason }) => reason.code);
    assert.deepEqual(failures, ['wrong_type']);
    assert.equal(await consumer.next(), undefined);
  });
});
