const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { child, suite } = require('./suite');

const MEGABYTE = 1 << 20;

/** Runs work until it is warm, then more of it, and says by how many bytes the process and its objects have grown. */
const GROWTH = `
  async function growth(work, warm, times) {
    await work(warm);
    const size = async () => {
      for (let n = 0; n < 5; n++) {
        gc();
        await new Promise(setImmediate);
      }
      return process.memoryUsage();
    };
    const before = await size();
    await work(times);
    const after = await size();
    return [after.rss - before.rss, after.heapUsed - before.heapUsed].join(' ');
  }
`;

describe('memory', () => {
  const full = suite('--maxmemory', '1mb', '--maxmemory-policy', 'noeviction');
  const at = suite();

  async function said(script, url) {
    // The engine's young generation stays as small as it is, so that only what is kept can grow.
    const flags = ['--expose-gc', '--max-semi-space-size=1'];
    const { code, signal, stdout, stderr } = await child(`${GROWTH}\n${script}`, { url, flags });
    assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: '' });
    return stdout;
  }

  /** Objects are counted to the byte; the process has grown by what its allocators keep for later, too. */
  async function leavesNothing(script, url) {
    const growth = await said(script, url);
    assert.match(growth, /^-?\d+ -?\d+\n$/);
    const [process, objects] = growth.split(' ').map(Number);
    assert.ok(process < 10 * MEGABYTE && objects < MEGABYTE, `grown by ${process} bytes, its objects by ${objects}`);
  }

  test('200 000 appends that the server refuses leave nothing behind', async () => {
    const script = `
      echomq.Client.connect(url, { nodeId: 1 }).then(async (client) => {
        const stream = client.stream('memory', 'full');
        const refused = async (times) => {
          for (let n = 0; n < times; n += 500) {
            const calls = Array.from({ length: 500 }, () => stream.append({ k: 'v' }));
            for (const { reason } of await Promise.allSettled(calls)) {
              if (reason.code !== 'out_of_memory') throw reason;
            }
          }
        };
        console.log(await growth(refused, 50_000, 200_000));
      });`;
    await leavesNothing(script, full.server.url);
  });

  test('5 000 clients opened and closed, and 100 000 appends, leave nothing behind', async () => {
    const script = `
      const clients = async (times) => {
        for (let n = 0; n < times; n += 20) {
          await Promise.all(Array.from({ length: 20 }, async () => {
            const client = await echomq.Client.connect(url, { nodeId: 1 });
            const stream = client.stream('memory', 'clients');
            const calls = Array.from({ length: 20 }, () => stream.append({ k: 'v' }).catch(() => {}));
            await Promise.all(calls);
            // Its answer comes after the client is closed and forgotten.
            stream.append({ k: 'v' }).catch(() => {});
            client.close(0);
          }));
        }
      };
      growth(clients, 1_000, 5_000).then(console.log);`;
    await leavesNothing(script, at.server.url);
  });

  test('500 consumers opened and closed, and 100 000 entries handled, leave nothing behind', async () => {
    const script = `
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 1 });
        const stream = client.stream('memory', 'consumers');
        await stream.createGroup('g', 'head');
        const consumers = async (times) => {
          for (let n = 0; n < times; n += 10) {
            await Promise.all(Array.from({ length: 10 }, async (_, at) => {
              const consumer = await stream.consumer({ group: 'g', start: 'head', consumer: 'c' + at });
              const late = await consumer.next({ signal: AbortSignal.timeout(1) }).catch(() => {});
              // What comes meanwhile comes after the consumer is stopped and forgotten.
              const waiting = consumer.next();
              await consumer.stop(0);
              await waiting;
              late?.ack();
            }));
          }
        };
        const entries = async (times) => {
          for (let n = 0; n < times; n += 1000) {
            const ids = await stream.appendBatch(Array(1000).fill({ k: 'v' }));
            for await (const delivery of await stream.consumer({ group: 'g', start: 'head', consumer: 'all' })) {
              delivery.ack();
              if (delivery.id === ids.at(-1)) break;
            }
            await stream.trim({ maxLen: 0 , exact: true });
          }
        };
        const work = async (times) => {
          await consumers(times);
          await entries(200 * times);
        };
        console.log(await growth(work, 200, 500));
        await client.close(1000);
      })();`;
    await leavesNothing(script, at.server.url);
  });

  test('2 000 listeners, watches and reductions, and 200 000 events heard, leave nothing behind', async () => {
    const script = `
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 1 });
        const events = client.events('memory');
        const job = 'JOB000xY9Wvvcd';
        const listeners = async (times) => {
          for (let n = 0; n < times; n += 10) {
            await Promise.all(Array.from({ length: 10 }, async () => {
              const listener = await events.listen();
              const subscribers = [listener.subscribe(), listener.subscribe()];
              const waiting = subscribers.map((subscriber) => subscriber.next());
              const reduction = listener.reduce((count) => count + 1, 0);
              const token = await events.watch(job);
              token.signal.onabort = () => {};
              // It comes when some are closed and forgotten.
              const published = events.publish('added', job);
              subscribers[0].close();
              listener.close();
              await Promise.all(waiting);
              await reduction[Symbol.asyncDispose]();
              token.signal.onabort = null;
              await published;
            }));
          }
        };
        const heard = async (times) => {
          const listener = await events.listen();
          const subscriber = listener.subscribe({ buffer: 2000 });
          const count = listener.reduce((count, event) => count + Number(event.get('n')), 0, { buffer: 2000 });
          for (let n = 0; n < times; n += 1000) {
            const calls = Array.from({ length: 1000 }, () => events.publish('added', job, { n: '1' }));
            for (let left = 1000; left > 0; left--) await subscriber.next();
            await Promise.all(calls);
          }
          listener.close();
          await count[Symbol.asyncDispose]();
          if (count.state !== times) throw new Error(String(count.state));
        };
        const work = async (times) => {
          await listeners(times);
          await heard(100 * times);
        };
        console.log(await growth(work, 500, 2_000));
        await client.close(1000);
      })();`;
    await leavesNothing(script, at.server.url);
  });

  test('listeners, subscribers and tokens that are forgotten are let go of, and a token that is listened to is not', async () => {
    const script = `
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 1 });
        const job = 'JOB000xY9Wvvcd';
        const forget = async (queue) => {
          const events = client.events(queue);
          const listener = await events.listen({ signal: new AbortController().signal });
          await listener.subscribe().next({ signal: AbortSignal.timeout(1) }).catch(() => {});
          const token = await events.watch(job);
          echomq.CancelToken.from(token.signal).signal.aborted;
          const heard = () => {};
          token.signal.addEventListener('abort', heard);
          token.signal.removeEventListener('abort', heard);
          const other = await events.watch(job);
          other.signal.onabort = heard;
          other.signal.onabort = null;
        };
        for (let n = 0; n < 50; n++) await forget('forgotten' + n);
        const listenedTo = async () => {
          const { signal } = await client.events('kept').watch(job);
          return new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason.reason)));
        };
        const kept = listenedTo();
        // Neither a token nor whoever waits for one keeps the process alive.
        const alive = setInterval(() => {}, 1000);
        const channels = async () => (await client.command(['PUBSUB', 'CHANNELS'])).join();
        while ((await channels()) !== 'emq:{kept}:events') {
          gc();
          await new Promise(setImmediate);
        }
        for (let n = 0; n < 5; n++) {
          gc();
          await new Promise(setImmediate);
        }
        await client.events('kept').cancel(job, 'kept');
        if ((await kept) !== 'kept') throw new Error('not told');
        clearInterval(alive);
        console.log('well');
      })();`;
    assert.equal(await said(script, at.server.url), 'well\n');
  });

  test('a long-lived signal keeps none of the tokens that were made of it', async () => {
    const script = `
      const { signal } = new AbortController();
      let left = 1001;
      const gone = new FinalizationRegistry(() => left--);
      for (let n = 0; n < 1000; n++) {
        const token = echomq.CancelToken.from(signal);
        gone.register(token);
        gone.register(token.signal);
        left++;
      }
      (() => {
        // One that is listened to stays as long as what it was made of.
        const token = echomq.CancelToken.from(new AbortController().signal);
        token.signal.addEventListener('abort', () => {});
        gone.register(token);
      })();
      (async () => {
        while (left > 0) {
          gc();
          await new Promise(setImmediate);
        }
        console.log(signal.aborted ? 'aborted' : 'well');
      })();`;
    assert.equal(await said(script, at.server.url), 'well\n');
  });

  test('consumers and tails that are forgotten without being stopped are let go of, with their connections', async () => {
    const script = `
      (async () => {
        const client = await echomq.Client.connect(url, { nodeId: 1 });
        const stream = client.stream('memory', 'forgotten');
        for (let n = 0; n < 50; n++) {
          const consumer = await stream.consumer({ group: 'g', start: 'head', signal: new AbortController().signal });
          await consumer.next({ signal: AbortSignal.timeout(1) }).catch(() => {});
          const tail = await stream.tail('head');
          await tail.next({ signal: AbortSignal.timeout(1) }).catch(() => {});
        }
        const left = async () => Number(/connected_clients:(\\d+)/.exec(await client.command(['INFO', 'clients']))[1]);
        while ((await left()) > 10) {
          gc();
          await new Promise(setImmediate);
        }
        console.log('well');
      })();`;
    assert.equal(await said(script, at.server.url), 'well\n');
  });

  test('clients that are forgotten without being closed are let go of, with their connections', async () => {
    const script = `
      const forget = async (times) => {
        for (let n = 0; n < times; n++) await echomq.Client.connect(url, { nodeId: 1 });
      };
      (async () => {
        await forget(300);
        const client = await echomq.Client.connect(url);
        const left = async () => Number(/connected_clients:(\\d+)/.exec(await client.command(['INFO', 'clients']))[1]);
        while ((await left()) > 10) {
          gc();
          await new Promise(setImmediate);
        }
        console.log('well');
      })();`;
    assert.equal(await said(script, at.server.url), 'well\n');
  });
});
