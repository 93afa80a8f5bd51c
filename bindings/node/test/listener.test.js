const assert = require('node:assert/strict');
const { getEventListeners } = require('node:events');
const { describe, test } = require('node:test');
const { Event, EventGap, Listener, Notice, Subscriber } = require('..');
const { until } = require('./server');
const { suite } = require('./suite');

const JOB = 'JOB000xY9Wvvcd';

describe('listening to events', () => {
  const at = suite();

  async function listening(queue, options) {
    const events = (await at.connect(options)).events(queue);
    return { events, listener: await events.listen() };
  }

  /** Publishes numbered events as a plain client, all in one step of the server's. */
  async function flood(queue, count) {
    const script = `for n = 0, ARGV[1] - 1 do
      redis.call('PUBLISH', KEYS[1], '{"event":"added","job":"${JOB}","n":"' .. n .. '"}')
    end`;
    await at.plain.text('EVAL', script, '1', `emq:{${queue}}:events`, String(count));
  }

  test('an event has name, job, members and its bytes', async () => {
    const { listener } = await listening('values');
    assert.ok(listener instanceof Listener);
    assert.deepEqual([listener.queue, listener.channel], ['values', 'emq:{values}:events']);
    const subscriber = listener.subscribe();
    assert.ok(subscriber instanceof Subscriber);
    const wordy = `{ "progress" : "5\\/10", "job":"${JOB}", "event":"progress", "n": 1.25, "__proto__":"p" }`;
    const heard = async (payload) => {
      await at.plain.command('PUBLISH', listener.channel, payload);
      const event = await subscriber.next();
      assert.ok(event instanceof Event);
      assert.deepEqual(event.payload, Buffer.from(payload));
      return event;
    };
    const event = await heard(wordy);
    assert.deepEqual([event.name, event.job, event.get('progress')], ['progress', JOB, '5/10']);
    assert.deepEqual([event.get('n'), event.get('__proto__'), event.get('toString')], ['1.25', 'p', undefined]);
    assert.equal(Object.getPrototypeOf(event.members), null);
    assert.deepEqual(Object.keys(event.members), ['progress', 'job', 'event', 'n', '__proto__']);
    assert.equal(event.members, event.members);
    event.payload.fill(0);
    assert.deepEqual(event.payload, Buffer.from(wordy));

    const jobless = await heard('{"event":"added","job":"no id"}');
    assert.deepEqual([jobless.name, jobless.job, jobless.get('job')], ['added', null, 'no id']);
    for (const payload of ['', 'hello', '[1]', '\ufeff{"event":"added"}', Buffer.from([123, 255, 0, 125])]) {
      const raw = await heard(payload);
      assert.deepEqual([raw.name, raw.job, Object.keys(raw.members)], ['unknown', null, []]);
    }
    listener.close();
  });

  test('events come in order until the loop is left, and the subscriber is closed then', async () => {
    const { listener } = await listening('loop');
    const subscriber = listener.subscribe({ buffer: 3000 });
    await flood('loop', 3000);
    let expected = 0;
    for await (const event of subscriber) {
      assert.equal(event.get('n'), String(expected++));
      if (expected === 3000) break;
    }
    assert.equal(await subscriber.next(), undefined);
    listener.close();
  });

  test('a thousand subscribers hear everything off one subscription', async () => {
    const { events, listener } = await listening('thousand');
    const subscribers = Array.from({ length: 1000 }, () => listener.subscribe());
    assert.equal(await events.publish('added', JOB, { n: '0' }), 1);
    for (let n = 1; n < 20; n++) await events.publish('added', JOB, { n: String(n) });
    const expected = Array.from({ length: 20 }, (_, n) => String(n));
    await Promise.all(
      subscribers.map(async (subscriber) => {
        const seen = [];
        for await (const event of subscriber) if (seen.push(event.get('n')) === 20) break;
        assert.deepEqual(seen, expected);
      }),
    );
    listener.close();
  });

  test('one slow subscriber among ten is told what it missed, and the others miss nothing', async () => {
    const { events, listener } = await listening('slow');
    const slow = listener.subscribe({ buffer: 10 });
    const seen = Array.from({ length: 9 }, async () => {
      const found = [];
      for await (const event of listener.subscribe({ buffer: 1001 })) {
        if (found.push(event.get('n')) === 1001) return found;
      }
    });
    await flood('slow', 1000);
    await events.publish('added', JOB, { n: '1000' });
    const expected = Array.from({ length: 1001 }, (_, n) => String(n));
    for (const found of await Promise.all(seen)) assert.deepEqual(found, expected);
    for (let n = 0; n < 10; n++) assert.equal((await slow.next()).get('n'), String(n));
    const gap = await slow.next();
    assert.ok(gap instanceof EventGap);
    assert.deepEqual([gap.missed, gap.reconnected], [991, false]);
    await events.publish('added', JOB, { n: '1001' });
    assert.equal((await slow.next()).get('n'), '1001');
    listener.close();
  });

  test('when the server comes back everyone is told of the gap, and hears again', async () => {
    const { events, listener } = await listening('back', { reconnectMin: 1, reconnectMax: 10 });
    const notices = listener.notices();
    const told = async () => {
      const { value } = await notices.next();
      assert.ok(value instanceof Notice);
      return [value.kind, value.code];
    };
    const other = await (await at.connect({ reconnectMin: 1, reconnectMax: 10 })).events('other').listen();
    const subscribers = [listener, listener, other].map((listener) => listener.subscribe());
    for (let round = 1; round <= 5; round++) {
      await events.publish('added', JOB, { n: '0' });
      await at.plain.command('PUBLISH', other.channel, '{"n":"0"}');
      for (const subscriber of subscribers) assert.equal((await subscriber.next()).get('n'), '0');
      await at.server.kill();
      assert.deepEqual(await told(), ['disconnected', 'disconnected']);
      assert.equal(listener.status.connected, false);
      await at.server.run();
      at.plain.close();
      at.plain = at.server.plain();
      for (const subscriber of subscribers) {
        const gap = await subscriber.next();
        assert.ok(gap instanceof EventGap);
        assert.deepEqual([gap.missed, gap.reconnected], [0, true]);
      }
      assert.deepEqual(listener.status, { connected: true, resubscriptions: round, error: undefined });
      assert.deepEqual(await told(), ['reconnected', undefined]);
    }
    const end = notices.next();
    listener.close();
    assert.deepEqual(await end, { value: undefined, done: true });
    other.close();
  });

  test('without a connection the status says why', async () => {
    const { listener } = await listening('status', { reconnectMin: 1, reconnectMax: 10 });
    assert.deepEqual(listener.status, { connected: true, resubscriptions: 0, error: undefined });
    await at.server.kill();
    await until('it is noticed', () => listener.status.error !== undefined);
    assert.equal(listener.status.connected, false);
    assert.equal(listener.status.error.code, 'disconnected');
    await at.server.run();
    at.plain.close();
    at.plain = at.server.plain();
    await until('it listens again', () => listener.status.connected);
    listener.close();
  });

  test('a half-open connection is noticed by its silence', async () => {
    const { listener } = await listening('silent', { heartbeat: 20, reconnectMin: 1, reconnectMax: 10 });
    const subscriber = listener.subscribe();
    at.server.freeze();
    await until('it is noticed', () => !listener.status.connected);
    at.server.thaw();
    assert.equal((await subscriber.next()).reconnected, true);
    listener.close();
  });

  test('a closed listener gives what was heard, a closed subscriber nothing, and both end', async () => {
    const { events, listener } = await listening('close');
    const [first, second, third] = [1, 2, 3].map(() => listener.subscribe());
    await events.publish('added', JOB);
    assert.equal((await third.next()).name, 'added');
    second.close();
    assert.equal(await second.next(), undefined);
    const waiting = third.next();
    listener.close();
    listener.close();
    assert.equal(await waiting, undefined);
    assert.equal((await first.next()).name, 'added');
    assert.equal(await first.next(), undefined);
    await first[Symbol.asyncDispose]();
    await listener[Symbol.asyncDispose]();
    assert.equal(await listener.subscribe().next(), undefined);
    await until('nobody is subscribed', async () => {
      return (await at.plain.text('PUBSUB', 'NUMSUB', listener.channel))[1] === 0;
    });
  });

  test('a listener ends with its client, and says so', async () => {
    const client = await at.connect();
    const listener = await client.events('ends').listen();
    const outcome = listener.subscribe().next();
    const refused = assert.rejects(outcome, { code: 'closed' });
    await client.close(1000);
    await refused;
    await assert.rejects(client.events('ends').listen(), { code: 'closed' });
  });

  test('giving a wait up loses nothing, and a signal closes', async () => {
    const { events, listener } = await listening('signal');
    const controller = new AbortController();
    const subscriber = listener.subscribe({ signal: controller.signal });
    await assert.rejects(subscriber.next({ signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' });
    await events.publish('added', JOB);
    assert.equal((await subscriber.next()).name, 'added');
    const waiting = subscriber.next();
    controller.abort();
    assert.equal(await waiting, undefined);
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0);

    const all = new AbortController();
    const other = await events.listen({ signal: all.signal });
    const heard = other.subscribe();
    all.abort();
    assert.equal(await heard.next(), undefined);
    const reason = new Error('not wanted');
    const signal = AbortSignal.abort(reason);
    await assert.rejects(events.listen({ signal }), reason);
    assert.throws(() => listener.subscribe({ signal }), reason);
    listener.close();
  });

  test('options of a wrong kind are refused', async () => {
    const { listener } = await listening('options');
    for (const buffer of [0, -1, 1.5, 'x']) {
      assert.throws(() => listener.subscribe({ buffer }), { code: 'invalid_option', subject: 'buffer' });
      assert.throws(() => listener.reduce(() => 0, 0, { buffer }), { code: 'invalid_option', subject: 'buffer' });
    }
    assert.throws(() => listener.subscribe({ bufer: 1 }), { code: 'invalid_option', subject: 'bufer' });
    for (const options of [null, 5, 'x']) assert.throws(() => listener.subscribe(options), TypeError);
    assert.throws(() => listener.subscribe({ signal: {} }), TypeError);
    assert.throws(() => listener.subscribe({ buffer: {} }), TypeError);
    listener.close();
  });
});
