const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { pendingOf } = require('./consuming');
const { until } = require('./server');
const { suite } = require('./suite');

const HOUR = 3_600_000;

describe('running a handler', () => {
  const at = suite();
  const pending = (stream) => pendingOf(at.plain, stream, 'g');

  async function filled(name, records) {
    const stream = (await at.connect()).stream('run', name);
    return { stream, ids: await stream.appendBatch(records) };
  }

  /** Runs a handler on a new consumer until it says that it is done; answers how the run ended. */
  async function run(stream, options, handler, how = 'run') {
    const controller = new AbortController();
    const consumer = await stream.consumer({ group: 'g', start: 'head', signal: controller.signal, ...options });
    await consumer[how]((given) => handler(given, () => controller.abort(), consumer));
    return consumer;
  }

  const numbers = (count) => Array.from({ length: count }, (_, n) => ({ n: String(n) }));

  test('every record once, in order, whether the handler waits or not', async () => {
    for (const wait of [() => undefined, () => new Promise(setImmediate)]) {
      const { stream, ids } = await filled(`order${wait.length}${wait}`.replace(/\W/g, ''), numbers(500));
      const seen = [];
      await run(stream, {}, (delivery, done) => {
        if (seen.push(delivery.id) === ids.length) done();
        return wait();
      });
      assert.deepEqual(seen, ids);
      assert.equal(await pending(stream), 0);
    }
  });

  test('what fails, in whatever way, comes back, and all else goes on', async () => {
    const ways = {
      throw: () => {
        throw new RangeError('of no use');
      },
      reject: () => Promise.reject(new RangeError('of no use')),
      verdict: (delivery) => delivery.fail(new RangeError('of no use')),
    };
    for (const [way, fail] of Object.entries(ways)) {
      const { stream, ids } = await filled(way, numbers(5));
      const seen = [];
      const consumer = await run(stream, { retry: 1, beat: 10 }, (delivery, done) => {
        seen.push([delivery.id, delivery.attempts]);
        if (seen.length === 6) done();
        if (delivery.get('n') === '1' && delivery.attempts === 1) return fail(delivery);
      });
      assert.deepEqual(
        seen.slice(0, 5),
        ids.map((id) => [id, 1]),
      );
      assert.deepEqual(seen[5], [ids[1], 2]);
      assert.equal(await pending(stream), 0);
      const { value } = await consumer.notices().next();
      assert.deepEqual([value.kind, value.message, value.id], ['failed', 'RangeError: of no use', ids[1]]);
    }
  });

  test('anything can be thrown, and its text is the reason', async () => {
    const bare = Object.create(null);
    const thrown = ['a text', 5, undefined, null, Symbol('s'), bare, '\ud800'];
    const { stream } = await filled('thrown', numbers(thrown.length));
    const consumer = await run(stream, { maxAttempts: 1 }, (delivery, done) => {
      if (delivery.get('n') === String(thrown.length - 1)) done();
      throw thrown[Number(delivery.get('n'))];
    });
    await consumer.flush();
    const letters = await stream.deadLetters().toArray();
    const errors = new Map(letters.map((letter) => [letter.get('n'), letter.get('error')]));
    const expected = ['a text', '5', 'undefined', 'null', 'Symbol(s)', 'an object (without a class)', '\ufffd'];
    assert.deepEqual(
      expected.map((_, n) => errors.get(String(n))),
      expected,
    );
  });

  test('a handler that takes longer than minIdle runs once', async () => {
    const { stream } = await filled('long', numbers(1));
    let runs = 0;
    const consumer = await run(stream, { minIdle: 60, beat: 5 }, async (delivery, done) => {
      runs += 1;
      const idle = async () => (await at.plain.text('XPENDING', stream.key, 'g', '-', '+', '1'))[0][2];
      // It was refreshed several times: what was idle longer is so shorter again.
      for (let signs = 0; signs < 5; signs++) {
        let longest = 0;
        await until('it shows a sign of life', async () => {
          const now = await idle();
          const refreshed = now < longest;
          longest = Math.max(longest, now);
          return refreshed;
        });
      }
      delivery.extend();
      assert.equal(delivery.attempts, 1);
      done();
    });
    assert.equal(await consumer.stop(), 0);
    assert.deepEqual([runs, await pending(stream)], [1, 0]);
  });

  test('an acknowledgement is not kept back while the next handler takes its time', async () => {
    const { stream } = await filled('kept', numbers(2));
    await run(stream, {}, async (delivery, done) => {
      if (delivery.get('n') === '0') return;
      await until('the first is acknowledged', async () => (await pending(stream)) === 1);
      done();
    });
    assert.equal(await pending(stream), 0);
  });

  test('as many at a time as concurrency says, and a slow one keeps no other waiting', async () => {
    const { stream, ids } = await filled('concurrent', numbers(200));
    const seen = new Set();
    let [now, most] = [0, 0];
    await run(stream, { concurrency: 3 }, async (delivery, done) => {
      most = Math.max(most, ++now);
      seen.add(delivery.id);
      if (delivery.get('n') === '0') await until('all others were begun', () => seen.size === ids.length);
      else await new Promise(setImmediate);
      now -= 1;
      if (now === 0 && seen.size === ids.length) done();
    });
    assert.equal(most, 3);
    assert.equal(await pending(stream), 0);
  });

  test('entries with one value of the chosen field are handled one after another, in order', async () => {
    const records = Array.from({ length: 300 }, (_, n) => ({ player: `p${n % 7}`, n: String(n) }));
    const { stream } = await filled('ordered', records);
    const seen = new Map();
    const busy = new Set();
    let count = 0;
    let most = 0;
    await run(stream, { concurrency: 4, orderBy: 'player' }, async (delivery, done) => {
      const player = delivery.get('player');
      assert.ok(!busy.has(player));
      busy.add(player);
      most = Math.max(most, busy.size);
      await new Promise(setImmediate);
      busy.delete(player);
      seen.set(player, [...(seen.get(player) ?? []), Number(delivery.get('n'))]);
      if (++count === records.length) done();
    });
    assert.ok(most > 1 && most <= 4);
    for (const [player, order] of seen) {
      assert.deepEqual(
        order,
        order.toSorted((a, b) => a - b),
        player,
      );
    }
    assert.equal(await pending(stream), 0);
  });

  test('a handler sees up to maxN entries at once, and its verdict is on all that have none', async () => {
    const { stream, ids } = await filled('batches', numbers(100));
    const sizes = [];
    const again = [];
    await run(
      stream,
      { maxN: 40, maxWait: HOUR, retry: 1, beat: 10, count: 100 },
      (deliveries, done) => {
        if (sizes.length < 2) {
          sizes.push(deliveries.length);
          if (sizes.length === 1) {
            deliveries[0].ack();
            throw new Error('not these');
          }
          return;
        }
        again.push(...deliveries.map((delivery) => delivery.id));
        done();
      },
      'runBatches',
    );
    assert.deepEqual(sizes, [40, 40]);
    assert.equal(again.length, 40);
    assert.ok(!again.includes(ids[0]));
  });

  test('a batch does not wait for more than maxWait', async () => {
    const { stream, ids } = await filled('few', numbers(3));
    const seen = [];
    await run(
      stream,
      { maxN: 100, maxWait: 5 },
      (deliveries, done) => {
        seen.push(...deliveries.map((delivery) => delivery.id));
        if (seen.length === 3) done();
      },
      'runBatches',
    );
    assert.deepEqual(seen, ids);
    assert.equal(await pending(stream), 0);
  });

  test('a stop during a full batch lets the handlers finish and hands the rest over', async () => {
    const { stream, ids } = await filled('handover', numbers(200));
    const options = { concurrency: 5, minIdle: HOUR, beat: 10, count: 50 };
    const seen = [];
    await run(stream, options, async (delivery, done) => {
      if (seen.push(delivery.id) === 10) done();
      await at.plain.text('PING');
    });
    const first = seen.length;
    assert.ok(first <= 15, `${first} were begun`);
    // The hour of minIdle does not stand in the way of the next consumer.
    const all = new Set(seen);
    await run(stream, options, (delivery, done) => {
      assert.ok(!seen.includes(delivery.id));
      if (all.add(delivery.id).size === ids.length) done();
    });
    assert.deepEqual([...all].sort(), ids);
    assert.equal(await pending(stream), 0);
  });

  test('a handler is a function', async () => {
    const { stream } = await filled('function', []);
    const consumer = await stream.consumer({ group: 'g', start: 'head' });
    for (const handler of [undefined, null, {}, 'x']) {
      await assert.rejects(consumer.run(handler), TypeError);
      await assert.rejects(consumer.runBatches(handler), TypeError);
    }
    await consumer.stop(0);
  });
});
