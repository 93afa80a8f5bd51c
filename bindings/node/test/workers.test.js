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
