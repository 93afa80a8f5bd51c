const assert = require('node:assert/strict');
const { getEventListeners } = require('node:events');
const { describe, test } = require('node:test');
const { Client } = require('..');
const { child, suite } = require('./suite');

describe('giving a call up', () => {
  const at = suite();

  test('every call rejects with the reason of its signal', async () => {
    const client = await at.connect();
    const stream = client.stream('abort', 'all');
    const id = await client.mint();
    await stream.append({ k: 'v' });
    const reason = new Error('no longer of interest');
    const calls = (signal) => [
      stream.append({ k: 'v' }, { signal }),
      stream.appendId(id, { k: 'v' }, { signal }),
      stream.appendBatch([{ k: 'v' }], { signal }),
      stream.appendBatch([{ k: 'v' }], { atomic: true, signal }),
      stream.appendSequenced({ k: 'v' }, { signal }),
      stream.appendBatch([{ k: 'v' }], { sequenced: true, signal }),
      stream.consumer({ group: 'g', start: 'head', signal }),
      stream.tail('head', { signal }),
      stream.createGroup('g', 'head', { signal }),
      stream.groups({ signal }),
      stream.group('g', { signal }),
      stream.seek('g', 'head', { signal }),
      stream.removeConsumer('g', 'c', { signal }),
      stream.sweepConsumers('g', 0, { signal }),
      stream.removeGroup('g', { signal }),
      stream.deadLetters({ signal }).toArray(),
      stream.putBack(id, { signal }),
      stream.trim({ maxLen: 0, signal }),
      stream.read({ signal }).toArray(),
      stream.readSince(new Date(), { signal }).toArray(),
      stream.readWindow(new Date(), new Date(), { signal }).toArray(),
      stream.readLast(1, { signal }).toArray(),
      client.command(['PING'], { signal }),
      client.pipeline([['PING']], { signal }),
      Client.connect(at.server.url, { signal }),
    ];

    at.server.freeze();
    const controller = new AbortController();
    const waiting = calls(controller.signal);
    controller.abort(reason);
    for (const { status, reason: rejected } of await Promise.allSettled(waiting)) {
      assert.deepEqual([status, rejected], ['rejected', reason]);
    }
    at.server.thaw();
    await client.command(['PING']);

    const entries = await at.plain.text('XLEN', stream.key);
    for (const call of calls(AbortSignal.abort(reason))) await assert.rejects(call, reason);
    await client.close();
    assert.equal(await at.plain.text('XLEN', stream.key), entries);
  });

  test('what was sent may be written all the same', async () => {
    const client = await at.connect();
    const stream = client.stream('abort', 'written');
    const controller = new AbortController();
    const call = stream.append({ k: 'v' }, { signal: controller.signal });
    controller.abort();
    await assert.rejects(call, { name: 'AbortError' });
    const next = await stream.append({ k: 'w' });
    const values = (await at.entries(stream.key)).map(([, parts]) => parts[3]);
    assert.deepEqual(values, ['v', 'w']);
    assert.equal((await at.entries(stream.key))[1][1][1], next);
  });

  test('a call that was given up keeps no answer from another', async () => {
    const client = await at.connect();
    const stream = client.stream('abort', 'mixed');
    const calls = Array.from({ length: 2000 }, (_, n) => {
      const controller = new AbortController();
      const call = stream.append({ n: String(n) }, { signal: controller.signal });
      if (n % 3 === 0) controller.abort();
      return call;
    });
    const settled = await Promise.allSettled(calls);
    const entries = new Map((await at.entries(stream.key)).map(([, parts]) => [parts[1], Number(parts[3])]));
    assert.equal(entries.size, 2000);
    for (const [n, { status, value }] of settled.entries()) {
      assert.equal(status, n % 3 === 0 ? 'rejected' : 'fulfilled');
      if (status === 'fulfilled') assert.equal(entries.get(value), n);
    }
  });

  test('one signal serves many calls, and is let go of when they are done', async () => {
    const client = await at.connect();
    const stream = client.stream('abort', 'shared');
    const controller = new AbortController();
    const { signal } = controller;
    const listeners = () => getEventListeners(signal, 'abort').length;
    const calls = Array.from({ length: 100 }, () => stream.append({ k: 'v' }, { signal }));
    // Node warns of a leak where there are more than ten.
    assert.equal(listeners(), 1);
    await Promise.all(calls);
    assert.equal(listeners(), 0);
    const tails = Array.from({ length: 20 }, () => stream.tail('new', { signal }));
    const waiting = (await Promise.all(tails)).map((tail) => tail.next());
    const given = Array.from({ length: 20 }, () => stream.append({ k: 'v' }, { signal }));
    assert.equal(listeners(), 1);
    controller.abort('all of it');
    for (const { status, reason } of await Promise.allSettled(given)) {
      assert.deepEqual([status, reason], ['rejected', 'all of it']);
    }
    for (const record of await Promise.all(waiting)) assert.equal(record, undefined);
    assert.equal(listeners(), 0);
  });

  test('a signal that fires while the fields are read is heard', async () => {
    const stream = (await at.connect()).stream('abort', 'within');
    const controller = new AbortController();
    function* fields() {
      yield ['k', 'v'];
      controller.abort();
    }
    await assert.rejects(stream.append(fields(), { signal: controller.signal }), { name: 'AbortError' });
  });

  test('what is no signal is a TypeError', async () => {
    const stream = (await at.connect()).stream('abort', 'none');
    for (const signal of [null, {}, 'signal']) await assert.rejects(stream.append({}, { signal }), TypeError);
  });

  test('a call that was given up does not keep the process alive', async () => {
    const stopped = await child(
      `
      echomq.Client.connect(url, { nodeId: 1, timeout: 86400000 }).then(async (client) => {
        const stream = client.stream('abort', 'exit');
        await client.command(['CLIENT', 'PAUSE', '60000', 'WRITE']);
        stream.append({ k: 'v' }, { signal: AbortSignal.timeout(1) }).catch((error) => console.log(error.name));
      });`,
      { url: at.server.url },
    );
    await at.plain.text('CLIENT', 'UNPAUSE');
    const { code, signal, stdout, stderr } = stopped;
    assert.deepEqual({ code, signal, stdout, stderr }, { code: 0, signal: null, stdout: 'TimeoutError\n', stderr: '' });
  });
});
