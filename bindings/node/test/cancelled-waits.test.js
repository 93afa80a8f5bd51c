const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { EventGap, Gap } = require('..');
const { suite } = require('./suite');

const COUNT = 5000;

/** A signal that fires after 0 to 2 milliseconds, finer than timers are, and what keeps it from firing. */
function soon() {
  const controller = new AbortController();
  const until = performance.now() + 2 * Math.random();
  const look = () => {
    if (performance.now() >= until) controller.abort();
    else turn = setImmediate(look);
  };
  let turn = setImmediate(look);
  return [controller.signal, () => clearImmediate(turn)];
}

/** Waits again and again, each wait given up soon, until so many have come; answers them and how many waits gave nothing. */
async function takeAll(next, count) {
  const taken = [];
  let cancelled = 0;
  while (taken.length < count) {
    const [signal, forget] = soon();
    try {
      taken.push(await next({ signal }));
    } catch (error) {
      assert.equal(error, signal.reason);
      cancelled++;
    } finally {
      forget();
    }
  }
  return { taken, cancelled };
}

describe('a wait that is given up has taken nothing', () => {
  const at = suite();

  /** Writes numbered records a few at a time, so that waits begin before, while and after something comes. */
  async function write(append) {
    for (let n = 0; n < COUNT; ) {
      const some = Math.min(1 + Math.floor(4 * Math.random()), COUNT - n);
      await Promise.all(Array.from({ length: some }, () => append(String(n++))));
    }
  }

  const numbers = Array.from({ length: COUNT }, (_, n) => String(n));

  test('of a tail', async () => {
    const stream = (await at.connect()).stream('waits', 'tail');
    const tail = await stream.tail('head');
    const writing = write((n) => stream.append({ n }));
    const { taken, cancelled } = await takeAll((options) => tail.next(options), COUNT);
    await writing;
    assert.ok(cancelled > 0);
    assert.ok(!taken.some((next) => next instanceof Gap));
    assert.deepEqual(
      taken.map((record) => record.get('n')),
      numbers,
    );
  });

  test('of a consumer, which makes no dead letter of what nobody saw', async () => {
    const stream = (await at.connect()).stream('waits', 'consumer');
    const consumer = await stream.consumer({ group: 'g', start: 'head', maxAttempts: 1 });
    const writing = write((n) => stream.append({ n }));
    const { taken, cancelled } = await takeAll(async (options) => {
      const delivery = await consumer.next(options);
      delivery.ack();
      return delivery;
    }, COUNT);
    await writing;
    assert.ok(cancelled > 0);
    assert.deepEqual(
      taken.map((delivery) => delivery.get('n')),
      numbers,
    );
    await consumer.stop();
    assert.deepEqual(await at.plain.text('XPENDING', stream.key, 'g'), [0, null, null, null]);
    assert.equal(await at.plain.text('EXISTS', `${stream.key}:dead`), 0);
  });

  test('of a subscriber', async () => {
    const events = (await at.connect()).events('waits');
    const listener = await events.listen();
    const subscriber = listener.subscribe({ buffer: COUNT });
    const writing = write((n) => events.publish('progress', 'JOB000xY9Wvvcd', { n }));
    const { taken, cancelled } = await takeAll((options) => subscriber.next(options), COUNT);
    await writing;
    assert.ok(cancelled > 0);
    assert.ok(!taken.some((heard) => heard instanceof EventGap));
    assert.deepEqual(
      taken.map((event) => JSON.parse(event.payload).n),
      numbers,
    );
    listener.close();
  });
});
