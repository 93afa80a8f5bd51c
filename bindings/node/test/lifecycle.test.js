const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { until } = require('./server');
const { child, suite } = require('./suite');

/** A script that ended by itself, and quietly. */
function endedWell({ code, signal, stderr }) {
  assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: '' });
}

describe('the life of a process', () => {
  const at = suite();
  const url = () => at.server.url;

  test('an open client alone does not keep it alive', async () => {
    const script = "echomq.Client.connect(url, { nodeId: 1 }).then(() => console.log('open'))";
    const ended = await child(script, { url: url() });
    endedWell(ended);
    assert.equal(ended.stdout, 'open\n');
  });

  test('listeners, reductions and tokens do not keep it alive', async () => {
    const script = `
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 1 });
        const events = client.events('life');
        const listener = await events.listen();
        listener.subscribe();
        listener.reduce((count) => count + 1, 0);
        const token = await events.watch('JOB000xY9Wvvcd');
        token.signal.addEventListener('abort', () => {});
        await events.publish('added', 'JOB000xY9Wvvcd');
        console.log('open');
      })();`;
    const ended = await child(script, { url: url() });
    endedWell(ended);
    assert.equal(ended.stdout, 'open\n');
  });

  test('a loop over a subscriber keeps it alive, and no longer', async () => {
    const script = `
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 1 });
        const listener = await client.events('loop').listen();
        console.log('listening');
        for await (const heard of listener.subscribe()) {
          console.log(heard.name);
          if (heard.name === 'completed') break;
        }
      })();`;
    const ended = child(script, { url: url() });
    const events = (await at.connect()).events('loop');
    let gone = false;
    ended.finally(() => {
      gone = true;
    });
    await until('it listens', async () => (await events.publish('added', 'JOB000xY9Wvvcd')) === 1);
    await until('it ends', async () => (await events.publish('completed', 'JOB000xY9Wvvcd')) === 0 && gone);
    endedWell(await ended);
    assert.match((await ended).stdout, /^listening\n(added\n)*completed\n$/);
  });

  test('a call that waits keeps it alive, and no longer', async () => {
    const script = `
      echomq.Client.connect(url, { nodeId: 1 }).then((client) => {
        client.stream('life', 'one').append({ k: 'v' }).then((id) => console.log(id));
      });`;
    const ended = await child(script, { url: url() });
    endedWell(ended);
    assert.equal((await at.entries('emq:{life}:stream:one'))[0][1][1], ended.stdout.trim());
  });

  test('it ends by itself after connect, append, read and close', async () => {
    const script = `
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 1 });
        const stream = client.stream('life', 'two');
        await stream.append({ k: 'v' });
        console.log((await stream.read().toArray()).length, await client.close(2000), await client.close(2000));
        await stream.append({ k: 'v' }).catch((error) => console.log(error.code));
        await client[Symbol.asyncDispose]();
      })();`;
    const ended = await child(script, { url: url() });
    endedWell(ended);
    assert.equal(ended.stdout, '1 0 0\nclosed\n');
  });

  test('it can be left at any moment, with calls under way', async () => {
    const script = `
      echomq.Client.connect(url, { nodeId: 1 }).then((client) => {
        const stream = client.stream('life', 'left');
        for (let n = 0; n < 10000; n++) stream.append({ n: String(n) });
        setImmediate(() => process.exit(3));
      });`;
    for (let round = 0; round < 10; round++) {
      const { code, signal, stderr } = await child(script, { url: url() });
      assert.deepEqual({ code, signal, stderr }, { code: 3, signal: null, stderr: '' });
    }
  });

  test('without a server it stays alive, and every call that is awaited fails with a typed error', async () => {
    const script = `
      (async () => {
        for (const call of ['first', 'second']) {
          const error = await echomq.Client.connect('redis://127.0.0.1:1', { connectTimeout: 200 }).catch((error) => error);
          console.log(error instanceof echomq.DisconnectedError, error.code, error.subject);
        }
      })();`;
    const ended = await child(script);
    endedWell(ended);
    assert.equal(ended.stdout, 'true disconnected 127.0.0.1:1\n'.repeat(2));
  });

  test('a server that goes, comes back and goes is not the end of it, and no rejection goes unhandled', async () => {
    const script = `
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 1, timeout: 2000, reconnectMin: 1, reconnectMax: 10 });
        const stream = client.stream('life', 'outage');
        const told = () => new Promise((resolve) => process.stdin.once('data', resolve));
        const settle = async (good) => {
          for (;;) {
            const answer = await stream.append({ k: 'v' }).catch((error) => error);
            if ((typeof answer === 'string') === good) return console.log(good ? 'up' : answer.code, client.status.connected);
          }
        };
        await settle(true);
        for (const good of [false, true, false]) {
          await told();
          await settle(good);
        }
        const unfinished = stream.append({ k: 'v' }).catch((error) => error.code);
        console.log(await client.close(50), await unfinished, await client.close(50), client.status.connected);
        process.stdin.destroy();
      })();`;
    const { spawn } = require('node:child_process');
    const started = spawn(process.execPath, [
      '-e',
      `const echomq = require(${JSON.stringify(require.resolve('..'))}); const url = '${url()}'; ${script}`,
    ]);
    let written = '';
    started.stdout.on('data', (data) => {
      written += data;
    });
    started.stderr.on('data', (data) => {
      written += data;
    });
    const line = async (count) => {
      await until(`it wrote ${count} lines, not ${written}`, () => written.split('\n').length > count);
    };
    const gone = require('node:events').once(started, 'exit');
    await line(1);
    await at.server.kill();
    started.stdin.write('\n');
    await line(2);
    await at.server.run();
    started.stdin.write('\n');
    await line(3);
    await at.server.kill();
    started.stdin.write('\n');
    const [code, signal] = await gone;
    const lines = written.trim().split('\n');
    assert.deepEqual([code, signal], [0, null], written);
    assert.equal(lines[0], 'up true');
    assert.match(lines[1], /^(unknown_outcome|disconnected) false$/);
    assert.equal(lines[2], 'up true');
    assert.match(lines[3], /^(unknown_outcome|disconnected) false$/);
    assert.equal(lines[4], '1 closed 0 false');
    await at.server.run();
  });
});
