const assert = require('node:assert/strict');
const { getEventListeners, once } = require('node:events');
const { describe, test } = require('node:test');
const { setTimeout: pause } = require('node:timers/promises');
const { CancelToken, Cancelled, EchoMQError } = require('..');
const { until } = require('./server');
const { suite } = require('./suite');

const JOB = 'JOB000xY9Wvvcd';

describe('a token', () => {
  test('it trips once, and the first reason stays', () => {
    const token = new CancelToken();
    assert.deepEqual([token.cancelled, token.reason, token.watchError], [false, undefined, undefined]);
    token.throwIfCancelled();
    assert.equal(token.cancel('first'), true);
    assert.equal(token.cancel('second'), false);
    assert.deepEqual([token.cancelled, token.reason], [true, 'first']);
    assert.throws(
      () => token.throwIfCancelled(),
      (error) => {
        assert.ok(error instanceof Cancelled && error instanceof Error && !(error instanceof EchoMQError));
        assert.deepEqual([error.name, error.message, error.reason], ['Cancelled', 'cancelled: first', 'first']);
        return true;
      },
    );
    const empty = new CancelToken();
    empty.cancel('');
    assert.deepEqual([empty.cancelled, empty.reason], [true, '']);
    for (const reason of [undefined, null, 5, new Error('x')]) {
      assert.throws(() => new CancelToken().cancel(reason), TypeError);
    }
  });

  test('its signal is aborted with the same error, whenever it is asked for', async () => {
    const token = new CancelToken();
    const { signal } = token;
    assert.equal(token.signal, signal);
    assert.equal(signal.aborted, false);
    const waiting = pause(60_000, undefined, { signal });
    token.cancel('why');
    assert.ok(signal.reason instanceof Cancelled);
    assert.equal(signal.reason.reason, 'why');
    await assert.rejects(waiting, (error) => error.cause === signal.reason);
    await assert.rejects(fetch('http://127.0.0.1:1', { signal }), signal.reason);
    assert.throws(() => token.throwIfCancelled(), signal.reason);
    const late = new CancelToken();
    late.cancel('before');
    assert.deepEqual([late.signal.aborted, late.signal.reason.reason], [true, 'before']);
  });

  test('one of a signal trips with it', () => {
    const controller = new AbortController();
    const token = CancelToken.from(controller.signal);
    const { signal } = token;
    assert.equal(token.cancelled, false);
    const cause = new Error('the request was closed');
    controller.abort(cause);
    assert.deepEqual([token.reason, signal.aborted], ['Error: the request was closed', true]);
    assert.equal(signal.reason.cause, cause);
    assert.equal(CancelToken.from(controller.signal).reason, 'Error: the request was closed');
    assert.equal(CancelToken.from(AbortSignal.abort('text')).reason, 'text');
    const first = new CancelToken();
    const second = CancelToken.from(CancelToken.from(first.signal).signal);
    first.cancel('through three');
    assert.equal(second.reason, 'through three');
    for (const given of [undefined, null, controller, {}]) assert.throws(() => CancelToken.from(given), TypeError);
  });

  test('one that has tripped alone leaves its signal as it is', () => {
    const controller = new AbortController();
    const token = CancelToken.from(controller.signal);
    assert.equal(token.cancel('alone'), true);
    assert.equal(controller.signal.aborted, false);
    controller.abort();
    assert.equal(token.reason, 'alone');
  });
});

describe('cancelling a job', () => {
  const at = suite();
  const options = { reconnectMin: 1, reconnectMax: 10 };
  const queue = async (name) => (await at.connect(options)).events(name);
  const tripped = (token) => (token.cancelled ? undefined : once(token.signal, 'abort'));

  test('it writes the mark with a time to live, and publishes', async () => {
    const events = await queue('mark');
    const plain = at.server.plain();
    const next = await plain.subscribe('emq:{mark}:events');
    assert.equal(await events.cancel(JOB, 'say "no"'), 1);
    assert.equal((await next()).toString(), `{"event":"cancel","job":"${JOB}","reason":"say \\"no\\""}`);
    const key = `emq:{mark}:cancel:${JOB}`;
    assert.equal(await at.plain.text('GET', key), 'say "no"');
    const day = await at.plain.text('PTTL', key);
    assert.ok(day > 86_000_000 && day <= 86_400_000, `${day}`);
    await events.cancel(JOB, 'again', { ttl: 60_000 });
    const minute = await at.plain.text('PTTL', key);
    assert.ok(minute > 0 && minute <= 60_000, `${minute}`);
    plain.close();
  });

  test('what cannot be cancelled or watched is refused', async () => {
    const events = await queue('refused');
    await assert.rejects(events.cancel('JOB1', 'x'), { code: 'malformed_id' });
    await assert.rejects(events.cancel(JOB, 'x', { ttl: 0 }), { code: 'invalid_option' });
    await assert.rejects(events.cancel(JOB, 'x', { ttl: -1 }), RangeError);
    for (const given of [[JOB], [JOB, 5], [5, 'x'], [JOB, 'x', { ttl: '5' }]]) {
      await assert.rejects(events.cancel(...given), TypeError);
    }
    await assert.rejects(events.watch('JOB1'), { code: 'malformed_id' });
    await assert.rejects(events.watch(5), TypeError);
    const reason = new Error('not wanted');
    await assert.rejects(events.watch(JOB, { signal: AbortSignal.abort(reason) }), reason);
    assert.deepEqual(await at.plain.text('KEYS', 'emq:{refused}*'), []);
  });

  test('a token trips in another process and aborts what it stops', async () => {
    const [here, there] = [await queue('watched'), await queue('watched')];
    const token = await there.watch(JOB);
    const other = await there.watch('JOB0NgWEfAER90');
    assert.deepEqual([token.cancelled, token.watchError], [false, undefined]);
    const waiting = pause(60_000, undefined, { signal: token.signal });
    // The event may come before the answer of who has published it.
    const stopped = assert.rejects(waiting, (error) => error.cause.reason === 'too late');
    await here.cancel(JOB, 'too late');
    await stopped;
    assert.equal(token.reason, 'too late');
    assert.equal(other.cancelled, false);
    assert.equal((await here.watch(JOB)).reason, 'too late');
  });

  test('a consumer takes the signal of a token', async () => {
    const client = await at.connect();
    const events = client.events('consumer');
    const token = await events.watch(JOB);
    const stream = client.stream('consumer', 's');
    const consumer = await stream.consumer({ group: 'g', start: 'head', signal: token.signal });
    const running = consumer.run(() => {});
    await events.cancel(JOB, 'enough');
    await running;
  });

  test('a loop that never waits learns of it', async () => {
    const events = await queue('busy');
    const token = await events.watch(JOB);
    const { signal } = token;
    events.cancel(JOB, 'stop');
    assert.throws(() => {
      for (;;) token.throwIfCancelled();
    }, Cancelled);
    assert.equal(signal.aborted, true);
  });

  test('who was away when a job was cancelled learns of it', async () => {
    const events = await queue('away');
    const token = await events.watch(JOB);
    const key = `emq:{away}:cancel:${JOB}`;
    await at.plain.text('MULTI');
    await at.plain.text('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await at.plain.text('SET', key, 'while away');
    await at.plain.text('EXEC');
    await tripped(token);
    assert.equal(token.reason, 'while away');
  });

  test('a watch goes on behind a server that was away', async () => {
    const events = await queue('back');
    const token = await events.watch(JOB);
    await at.server.kill();
    await at.server.run();
    at.plain.close();
    at.plain = at.server.plain();
    const subscribed = async () => (await at.plain.text('PUBSUB', 'NUMSUB', events.channel))[1] === 1;
    await until('it watches again', subscribed);
    assert.equal(token.cancelled, false);
    await events.cancel(JOB, 'back again');
    await tripped(token);
    assert.equal(token.reason, 'back again');
  });

  test('a token that is tripped here stays as it is, and reaches nobody', async () => {
    const events = await queue('here');
    const [token, other] = [await events.watch(JOB), await events.watch(JOB)];
    assert.equal(token.cancel('here'), true);
    await events.cancel(JOB, 'there');
    await tripped(other);
    assert.deepEqual([token.reason, other.reason], ['here', 'there']);
  });

  test('a token whose client is closed says so, and can be tripped here', async () => {
    const client = await at.connect();
    const token = await client.events('closed').watch(JOB);
    await client.close(1000);
    assert.equal(token.watchError.code, 'closed');
    assert.equal(token.cancelled, false);
    assert.equal(token.cancel('here'), true);
    await assert.rejects(client.events('closed').watch(JOB), { code: 'closed' });
  });

  test('a handler in the place of a listener is told, can be replaced, and is let go of', async () => {
    const events = await queue('onabort');
    const { signal } = await events.watch(JOB);
    assert.equal(signal.onabort, null);
    const told = [];
    const replaced = () => told.push('replaced');
    signal.onabort = replaced;
    assert.equal(signal.onabort, replaced);
    signal.onabort = null;
    assert.deepEqual([signal.onabort, getEventListeners(signal, 'abort').length], [null, 0]);
    signal.onabort = replaced;
    signal.onabort = function (event) {
      told.push(this === signal, event.type, signal.reason.reason);
    };
    const heard = once(signal, 'abort');
    await events.cancel(JOB, 'why');
    await heard;
    assert.deepEqual(told, [true, 'abort', 'why']);
    signal.onabort = 'no function';
    assert.equal(signal.onabort, null);
  });

  test('nothing stays at a signal once the wait for a token is over', async () => {
    const events = await queue('signal');
    const controller = new AbortController();
    await events.watch(JOB, { signal: controller.signal });
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0);
  });
});
