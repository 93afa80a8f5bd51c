const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { pendingOf } = require('./consuming');
const { until } = require('./server');
const { child, suite } = require('./suite');

/** A script that ended by itself, and quietly, with that on its output. */
function endedWell({ code, signal, stdout, stderr }, expected) {
  assert.deepEqual({ code, signal, stdout, stderr }, { code: 0, signal: null, stdout: expected, stderr: '' });
}

describe('the life of a process that consumes', () => {
  const at = suite();
  const run = (source) => child(`(async () => { ${source} })();`, { url: at.server.url });

  const START = `
    const client = await echomq.Client.connect(url, { nodeId: 1 });
    const stream = client.stream('process', 'of' + process.pid);
    const ids = await stream.appendBatch([{ n: '0' }, { n: '1' }, { n: '2' }]);
    const options = { group: 'g', start: 'head' };`;

  test('it ends by itself after connect, consume and close', async () => {
    const ended = await run(`${START}
      for await (const delivery of await stream.consumer(options)) {
        delivery.ack();
        console.log(delivery.get('n'));
        break;
      }
      console.log((await stream.group('g')).pending <= 2, await client.close(2000));`);
    endedWell(ended, '0\ntrue 0\n');
  });

  test('a consumer that nobody asks does not keep it alive, nor does an open tail', async () => {
    endedWell(
      await run(`${START} await stream.consumer(options); await stream.tail('head'); console.log('open');`),
      'open\n',
    );
  });

  test('one that runs does, without a close, until it is stopped', async () => {
    for (const loop of [
      'for await (const delivery of consumer) { delivery.ack(); seen(delivery); }',
      'await consumer.run(seen);',
      'await consumer.runBatches((deliveries) => deliveries.forEach(seen));',
    ]) {
      const ended = await run(`${START}
        const controller = new AbortController();
        const consumer = await stream.consumer({ ...options, signal: controller.signal });
        const seen = (delivery) => {
          if (delivery.get('n') === '2') setTimeout(() => stream.append({ n: 'last' }), 50).unref();
          if (delivery.get('n') === 'last') setTimeout(() => { console.log('stopping'); controller.abort(); }, 50).unref();
        };
        ${loop}
        console.log((await stream.group('g')).pending);`);
      endedWell(ended, 'stopping\n0\n');
    }
  });

  test('a wait for an entry or a tail that was given up does not', async () => {
    const ended = await run(`${START}
      const consumer = await stream.consumer({ group: 'g', start: 'new' });
      const tail = await stream.tail('new');
      const signal = AbortSignal.timeout(5);
      for (const reader of [consumer, tail]) await reader.next({ signal }).catch((error) => console.log(error.name));`);
    endedWell(ended, 'TimeoutError\nTimeoutError\n');
  });

  test('it can be left at any moment, and what it had is pending', async () => {
    const ended = await run(`${START}
      await stream.appendBatch(Array.from({ length: 1000 }, () => ({ n: 'x' })));
      const consumer = await stream.consumer(options);
      let count = 0;
      await consumer.run(() => { if (++count === 500) process.exit(3); });`);
    assert.deepEqual([ended.code, ended.signal, ended.stderr], [3, null, '']);
  });

  test('without a server a start fails with a typed error, and a stop ends in time', async () => {
    const script = `
      const client = await echomq.Client.connect(url, { nodeId: 1, timeout: 2000, reconnectMin: 1, reconnectMax: 10 });
      const stream = client.stream('process', 'down');
      await stream.append({ n: '0' });
      const consumer = await stream.consumer({ group: 'g', start: 'head' });
      const delivery = await consumer.next();
      const loop = consumer.run(() => {});
      console.log('ready');
      await new Promise((resolve) => process.stdin.once('data', resolve));
      process.stdin.destroy();
      delivery.ack();
      const refused = await stream.consumer({ group: 'h', start: 'head' }).catch((error) => error);
      console.log(refused instanceof echomq.EchoMQError, refused.code);
      console.log(await consumer.stop(200), await consumer.stop(200), await loop, await client.close(200));`;
    const { spawn } = require('node:child_process');
    const head = `const echomq = require(${JSON.stringify(require.resolve('..'))}); const url = '${at.server.url}';`;
    const started = spawn(process.execPath, ['-e', `${head} (async () => { ${script} })();`]);
    let written = '';
    for (const output of [started.stdout, started.stderr]) {
      output.on('data', (data) => {
        written += data;
      });
    }
    const gone = require('node:events').once(started, 'exit');
    await until('it is ready', () => written.includes('ready'));
    await at.server.kill();
    started.stdin.write('\n');
    const [code, signal] = await gone;
    assert.deepEqual([code, signal], [0, null], written);
    assert.match(written, /^ready\ntrue (disconnected|timeout|unknown_outcome)\n1 1 undefined 0\n$/);
    await at.server.run();
    at.plain.close();
    at.plain = at.server.plain();
  });

  test('a consumer goes on by itself when the server goes and comes back, again and again', async () => {
    const client = await at.connect({ timeout: 2000, reconnectMin: 1, reconnectMax: 10 });
    const stream = client.stream('process', 'outages');
    const consumer = await stream.consumer({ group: 'g', start: 'head', beat: 20 });
    const seen = new Set();
    const running = consumer.run((delivery) => seen.add(delivery.id));
    for (let round = 0; round < 3; round++) {
      await at.server.kill();
      await at.server.run();
      at.plain.close();
      at.plain = at.server.plain();
      let id;
      await until('an append succeeds', async () => {
        id = await stream.append({ n: String(round) }).catch(() => undefined);
        return id !== undefined;
      });
      await until('it is handled', () => seen.has(id));
    }
    await consumer.stop(5000);
    await running;
    assert.equal(await pendingOf(at.plain, stream, 'g'), 0);
  });
});
