const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { child, suite } = require('./suite');

/** What a worker does until it is terminated: appends, reads and connects, with many calls under way at any moment. */
const WORKER = `
  const { workerData, parentPort } = require('node:worker_threads');
  const { Client } = require(workerData.echomq);
  (async () => {
    for (;;) {
      const client = await Client.connect(workerData.url, { nodeId: workerData.node });
      const stream = client.stream('workers', 'of' + workerData.node);
      parentPort.postMessage('working');
      for (let round = 0; round < 20; round++) {
        const calls = Array.from({ length: 100 }, () => stream.append({ k: 'v' }));
        calls.push(stream.readLast(10).toArray(), client.command(['PING']), stream.appendBatch([{ k: 'v' }, { id: 'v' }]));
        await Promise.all(calls);
      }
      client.close();
    }
  })();
`;

/** Terminates a hundred workers, several at a time, each at another moment of its work. */
const TERMINATE = `
  const { Worker } = require('node:worker_threads');
  const { once } = require('node:events');
  const { setTimeout: pause } = require('node:timers/promises');
  async function lane(node, times) {
    for (let n = 0; n < times; n++) {
      const worker = new Worker(${JSON.stringify(WORKER)}, { eval: true, workerData: { echomq: package, url, node } });
      // Some before they have loaded anything, some in the midst of it, most at work.
      if (n % 5 === 0) await pause(n);
      else if (n % 5 > 1) await once(worker, 'message');
      await pause(Math.random() * 20);
      await worker.terminate();
    }
  }
  Promise.all([1, 2, 3, 4].map((node) => lane(node, 25))).then(after, (error) => { console.error(error); process.exit(1); });
`;

/** What a worker does that consumes until it is terminated: it runs handlers, loops over a tail, and waits for notices. */
const CONSUMING = `
  const { workerData, parentPort } = require('node:worker_threads');
  const { Client } = require(workerData.echomq);
  (async () => {
    const client = await Client.connect(workerData.url, { nodeId: workerData.node });
    const stream = client.stream('workers', 'consumed');
    const options = { group: 'g', start: 'head', beat: 10, minIdle: 100 };
    const loop = async () => {
      for await (const delivery of await stream.consumer(options)) {
        if (Math.random() < 0.5) delivery.ack();
        if (Math.random() < 0.1) await new Promise(setImmediate);
      }
    };
    const follow = async () => {
      for await (const next of await stream.tail('head')) if (next.id === undefined) break;
    };
    const consumer = await stream.consumer({ ...options, concurrency: 4 });
    const tell = async () => {
      for await (const notice of consumer.notices()) parentPort.postMessage(notice.kind);
    };
    const handler = async () => {
      if (Math.random() < 0.5) await new Promise(setImmediate);
      if (Math.random() < 0.1) throw new Error('no');
    };
    const write = async () => {
      for (;;) await stream.appendBatch(Array(50).fill({ k: 'v' }), { sequenced: true });
    };
    const events = client.events('workers');
    const job = 'JOB000xY9Wvvcd';
    const listener = await events.listen();
    listener.reduce(handler, undefined, { onFailure: () => {} });
    const listen = async () => {
      for await (const heard of listener.subscribe()) if (heard.name === undefined) break;
    };
    const publish = async () => {
      for (;;) {
        const token = await events.watch(job);
        token.signal.addEventListener('abort', () => {});
        await Promise.all(Array.from({ length: 50 }, () => events.publish('added', job)));
        await events.cancel(job, 'enough', { ttl: 1 });
      }
    };
    parentPort.postMessage('working');
    await Promise.all([loop(), follow(), tell(), consumer.run(handler), write(), listen(), publish()]);
  })();
`;

describe('worker threads', () => {
  const at = suite();
  const echomq = JSON.stringify(require.resolve('..'));

  test('a hundred that are terminated at any moment leave the main thread and its client alive', async () => {
    const script = `
      const package = ${echomq};
      let client;
      async function after() {
        const ids = await client.stream('workers', 'main').appendBatch([{ k: 'v' }]);
        console.log(ids.length, client.status.connected);
        // This client and the tests' own connection are left; every other is closed, that of an unfinished connect too.
        const left = async () => Number(/connected_clients:(\\d+)/.exec(await client.command(['INFO', 'clients']))[1]);
        while ((await left()) > 2) await new Promise(setImmediate);
      }
      echomq.Client.connect(url, { nodeId: 9 }).then((connected) => { client = connected; ${TERMINATE} });`;
    const { code, signal, stdout, stderr } = await child(script, { url: at.server.url });
    assert.deepEqual({ code, signal, stdout, stderr }, { code: 0, signal: null, stdout: '1 true\n', stderr: '' });
  });

  test('so do those of a process whose main thread never loaded the module', async () => {
    const script = `
      const package = ${echomq};
      const after = () => console.log('alive');
      ${TERMINATE}`;
    const ended = await child(script, { url: at.server.url, load: false });
    const { code, signal, stdout, stderr } = ended;
    assert.deepEqual({ code, signal, stdout, stderr }, { code: 0, signal: null, stdout: 'alive\n', stderr: '' });
  });

  test('eight at a time that consume, a hundred times over, leave no consumer and no connection behind', async () => {
    const script = `
      const { Worker } = require('node:worker_threads');
      const { once } = require('node:events');
      const { setTimeout: pause } = require('node:timers/promises');
      async function lane(node) {
        for (let n = 0; n < 100; n++) {
          const workerData = { echomq: ${echomq}, url, node };
          const worker = new Worker(${JSON.stringify(CONSUMING)}, { eval: true, workerData });
          if (n % 4 > 0) await once(worker, 'message');
          await pause(Math.random() * 20);
          await worker.terminate();
        }
      }
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 9 });
        const stream = client.stream('workers', 'consumed');
        await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(lane));
        const left = async () => Number(/connected_clients:(\\d+)/.exec(await client.command(['INFO', 'clients']))[1]);
        while ((await left()) > 2) await new Promise(setImmediate);
        // What the terminated ones had comes to a consumer of the main thread.
        await stream.trim({ maxLen: 1000, exact: true });
        const id = await stream.appendSequenced({ k: 'last' });
        const consumer = await stream.consumer({ group: 'g', start: 'head', beat: 10, minIdle: 100, count: 1000 });
        for await (const delivery of consumer) {
          delivery.ack();
          if (delivery.id === id) break;
        }
        console.log('alive', client.status.connected);
      })();`;
    const { code, signal, stdout, stderr } = await child(script, { url: at.server.url });
    assert.deepEqual({ code, signal, stdout, stderr }, { code: 0, signal: null, stdout: 'alive true\n', stderr: '' });
  });

  test('a worker that ends by itself has its answers', async () => {
    const script = `
      const { Worker, isMainThread } = require('node:worker_threads');
      const work = "const { workerData } = require('node:worker_threads'); const { Client } = require(workerData.echomq);"
        + "Client.connect(workerData.url, { nodeId: 5 }).then((client) => client.stream('workers', 'ends').append({ k: 'v' }))"
        + ".then((id) => console.log(id));";
      new Worker(work, { eval: true, workerData: { echomq: ${echomq}, url } }).on('exit', (code) => console.log(code));`;
    const { code, stdout, stderr } = await child(script, { url: at.server.url });
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /^EVT\w{11}\n0\n$/);
  });
});
