const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, test } = require('node:test');
const { Event, EventGap, Reduction } = require('..');
const { until } = require('./server');
const { suite } = require('./suite');

const JOB = 'JOB000xY9Wvvcd';

describe('folding events into a state', () => {
  const at = suite();

  async function listening(queue, options) {
    const events = (await at.connect(options)).events(queue);
    return { events, listener: await events.listen() };
  }

  test('the state can be read at any time, and stays when it is closed', async () => {
    const { events, listener } = await listening('state');
    const names = listener.reduce((names, heard) => names.concat(heard.name), []);
    assert.ok(names instanceof Reduction);
    assert.deepEqual(names.state, []);
    for (const name of ['added', 'active', 'completed']) await events.publish(name, JOB);
    await until('all are folded', () => names.state.length === 3);
    assert.deepEqual(names.state, ['added', 'active', 'completed']);
    assert.deepEqual([names.failures, names.lastFailure, names.error], [0, undefined, undefined]);
    names.close();
    await events.publish('failed', JOB);
    await names[Symbol.asyncDispose]();
    assert.deepEqual(names.state, ['added', 'active', 'completed']);
    listener.close();
  });

  test('a handler that answers promises is waited for, event by event', async () => {
    const { events, listener } = await listening('async');
    let running = 0;
    const numbers = listener.reduce(async (numbers, heard) => {
      assert.equal(++running, 1);
      await new Promise(setImmediate);
      running--;
      return numbers.concat(heard.get('n'));
    }, []);
    const calls = Array.from({ length: 200 }, (_, n) => events.publish('added', JOB, { n: String(n) }));
    await Promise.all(calls);
    await until('all are heard', () => numbers.state.length === 200);
    assert.equal(numbers.failures, 0);
    assert.deepEqual(
      numbers.state,
      calls.map((_, n) => String(n)),
    );
    listener.close();
  });

  test('what was heard before it is closed is folded', async () => {
    const { events, listener } = await listening('closed');
    const sum = listener.reduce((sum, heard) => sum + Number(heard.get('n')), 0);
    const beside = listener.subscribe();
    for (let n = 1; n <= 100; n++) events.publish('added', JOB, { n: String(n) });
    for (let n = 1; n <= 100; n++) await beside.next();
    await sum[Symbol.asyncDispose]();
    assert.equal(sum.state, 5050);
    listener.close();
  });

  test('a handler that throws or rejects is reported, leaves the state, and goes on', async () => {
    const { events, listener } = await listening('failing');
    for (const fail of [
      (failure) => {
        throw failure;
      },
      (failure) => Promise.reject(failure),
    ]) {
      const reported = [];
      const failure = new Error('odd');
      const even = listener.reduce(
        (count, heard) => (Number(heard.get('n')) % 2 === 0 ? count + 1 : fail(failure)),
        0,
        { onFailure: (...given) => reported.push(given) },
      );
      for (let n = 0; n < 5; n++) await events.publish('added', JOB, { n: String(n) });
      await until('all are folded', () => even.state + even.failures === 5);
      assert.deepEqual([even.state, even.failures, even.lastFailure], [3, 2, failure]);
      assert.deepEqual(
        reported.map(([error, heard]) => [error, heard.get('n')]),
        [
          [failure, '1'],
          [failure, '3'],
        ],
      );
      even.close();
    }
    listener.close();
  });

  test('without anyone to tell, a failure is a warning of the process', async () => {
    const { events, listener } = await listening('warning');
    const broken = () => {
      throw new Error('of the report');
    };
    for (const [text, onFailure] of [
      ['of the handler', undefined],
      ['of the report', broken],
      ['of the report', async () => broken()],
    ]) {
      const count = listener.reduce(() => Promise.reject(new Error('of the handler')), 0, { onFailure });
      const warned = once(process, 'warning');
      await events.publish('added', JOB);
      const [warning] = await warned;
      assert.deepEqual(
        [warning.name, warning.message],
        ['EchoMQWarning', `A handler of events failed: Error: ${text}`],
      );
      assert.match(warning.detail, /reduce\.test\.js/);
      assert.deepEqual([count.state, count.failures], [0, 1]);
      count.close();
    }
    listener.close();
  });

  test('it is told of gaps, and goes on behind a server that was away', async () => {
    const { events, listener } = await listening('gap', { reconnectMin: 1, reconnectMax: 10 });
    const heard = listener.reduce((all, heard) => all.concat(heard), []);
    await at.server.kill();
    await at.server.run();
    at.plain.close();
    at.plain = at.server.plain();
    await until('it is told', () => heard.state.length === 1);
    assert.ok(heard.state[0] instanceof EventGap);
    await events.publish('added', JOB);
    await until('it has heard', () => heard.state.length === 2);
    assert.ok(heard.state[1] instanceof Event);
    listener.close();
  });

  test('it ends with its client, and says why', async () => {
    const client = await at.connect();
    const listener = await client.events('ends').listen();
    const count = listener.reduce((count) => count + 1, 0);
    await client.close(1000);
    await count[Symbol.asyncDispose]();
    assert.deepEqual([count.state, count.error.code], [0, 'closed']);
  });

  test('a signal closes it', async () => {
    const { events, listener } = await listening('signal');
    const controller = new AbortController();
    const count = listener.reduce((count) => count + 1, 0, { signal: controller.signal });
    await events.publish('added', JOB);
    await until('it is folded', () => count.state === 1);
    controller.abort();
    await events.publish('added', JOB);
    await count[Symbol.asyncDispose]();
    assert.equal(count.state, 1);
    listener.close();
  });

  test('handlers are functions', async () => {
    const { listener } = await listening('kinds');
    for (const handler of [undefined, null, 'x', {}]) assert.throws(() => listener.reduce(handler, 0), TypeError);
    assert.throws(() => listener.reduce(() => 0, 0, { onFailure: 'x' }), TypeError);
    assert.throws(() => listener.reduce(() => 0, 0, null), TypeError);
    listener.close();
  });
});
