const assert = require('node:assert/strict');
const { setTimeout: pause } = require('node:timers/promises');
const { inspect } = require('node:util');
const { before, describe, test } = require('node:test');
const echomq = require('..');
const { until } = require('./server');
const { child, suite } = require('./suite');

const QUICK = { reconnectMin: 1, reconnectMax: 20, timeout: 60_000 };

describe('a password that a function is asked for', () => {
  const at = suite();
  let password = 'first';

  // The connection that sets it stays as it is.
  before(() => at.plain.text('CONFIG', 'SET', 'requirepass', 'first'));

  /** Has the server ask for another password from now on, also of those that are connected. */
  async function rotate(next, users = ['default']) {
    await at.plain.text('CONFIG', 'SET', 'requirepass', next);
    await hangUp(users);
  }

  async function hangUp(users = ['default']) {
    for (const user of users) await at.plain.text('CLIENT', 'KILL', 'USER', user, 'SKIPME', 'yes');
  }

  const asking = (ask, more = {}) => at.connect({ ...QUICK, ...more, password: ask });

  test('it is asked at each connection, so a client follows a password that changes', async () => {
    let asked = 0;
    const plainly = () => {
      asked++;
      return password;
    };
    const later = async () => {
      await pause(1);
      return plainly();
    };
    for (const ask of [plainly, later]) {
      const client = await asking(ask);
      for (const next of ['second', 'third', 'first']) {
        const before = { asked, reconnects: client.status.reconnects };
        password = next;
        await rotate(next);
        // A command that leaves before the end is noticed may be lost.
        await until('it is connected again', () => client.status.reconnects > before.reconnects);
        assert.equal(await client.command(['ECHO', next]), next);
        assert.ok(asked > before.asked);
        assert.equal(client.status.error, undefined);
      }
      await client.close();
    }
  });

  test('with a user of its own, and for every connection of the client', async () => {
    const user = (secret) =>
      at.plain.text('ACL', 'SETUSER', 'worker', 'on', 'resetpass', `>${secret}`, '~*', '&*', '+@all');
    let secret = 'one';
    let asked = 0;
    await user(secret);
    const ask = () => {
      asked++;
      return secret;
    };
    const client = await asking(ask, { username: 'worker' });
    const listener = await client.events('password').listen();
    const heard = listener.subscribe();
    assert.equal(asked, 2);
    secret = 'two';
    await user(secret);
    await hangUp(['worker']);
    await until('it is connected again', () => client.status.reconnects === 1);
    await until('the listener is back', () => listener.status.resubscriptions === 1);
    await client.events('password').publish('added', 'JOB000xY9Wvvcd');
    for await (const next of heard) if (next.name === 'added') break;
    assert.ok(asked >= 4);
    await client.close();
  });

  test('one that throws, rejects or answers something else is no password, and its secret is told nowhere', async () => {
    const secretive = { constructor: undefined, secret: 's3cret' };
    for (const [ask, said] of [
      [
        () => {
          throw new RangeError('s3cret');
        },
        /threw an object \(RangeError\)/,
      ],
      [() => Promise.reject(new TypeError('s3cret')), /threw an object \(TypeError\)/],
      [() => Promise.reject('s3cret'), /threw a string/],
      [() => undefined, /answered undefined, not a string/],
      [async () => Buffer.from('s3cret'), /answered an object \(Buffer\), not a string/],
      [() => 7, /answered a number, not a string/],
      [() => secretive, /answered an object \(without a class\), not a string/],
      [
        () =>
          new Proxy(
            {},
            {
              get() {
                throw new Error('s3cret');
              },
            },
          ),
        /threw an object \(Error\)/,
      ],
    ]) {
      const error = await asking(ask).catch((error) => error);
      assert.ok(error instanceof echomq.AuthError, inspect(error));
      assert.match(error.message, said);
      assert.equal(error.subject, 'password');
      assert.equal(error.retryable, false);
      assert.ok(!inspect(error).includes('s3cret'));
    }
    const wrong = await asking(() => 's3cret').catch((error) => error);
    assert.equal(wrong.code, 'auth');
    assert.ok(!inspect(wrong).includes('s3cret'));
    await assert.rejects(at.connect({ password: {} }), TypeError);
  });

  test('a wrong one after a rotation is what calls and `status` say, until it is right again', async () => {
    const client = await asking(() => password);
    assert.deepEqual(client.status, { connected: true, reconnects: 0, error: undefined });
    await rotate('other');
    await until('it is not connected', () => !client.status.connected);
    const error = await client.command(['PING']).catch((error) => error);
    assert.equal(error.code, 'auth');
    const { connected, error: why } = client.status;
    assert.equal(connected, false);
    assert.ok(why instanceof echomq.AuthError, inspect(why));
    password = 'other';
    await until('it is connected again', () => client.status.connected);
    assert.equal(client.status.error, undefined);
    password = 'first';
    await rotate('first');
    await client.close();
  });

  test('one that never answers ends with the time to connect', async () => {
    const error = await asking(() => new Promise(() => {}), { connectTimeout: 100 }).catch((error) => error);
    assert.equal(error.code, 'disconnected');
    assert.match(error.message, /asked for the password/);
  });

  test('a client that is closed asks no more', async () => {
    let asked = 0;
    const client = await asking(() => {
      asked++;
      return asked === 1 ? password : 'wrong';
    });
    await hangUp();
    await until('it is asked again', () => asked > 2);
    await client.close(0);
    // A question may be on its way at that moment, and then no other.
    await pause(50);
    const last = asked;
    await pause(200);
    assert.equal(asked, last);
  });

  test('no process is kept alive by it, whether the client is closed, forgotten or refused', async () => {
    for (const script of [
      `echomq.Client.connect(url, { password: async () => 'first' }).then((client) => client.command(['PING'])).then(console.log);`,
      `echomq.Client.connect(url, { password: () => 'first' }).then((client) => client.close()).then(console.log);`,
      `echomq.Client.connect(url, { password: () => 'wrong' }).catch((error) => console.log(error.code));`,
      `echomq.Client.connect(url, { connectTimeout: 50, password: () => new Promise(() => {}) })
         .catch((error) => console.log(error.code));`,
    ]) {
      const { code, signal, stderr, stdout } = await child(script, { url: at.server.url });
      assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: '' });
      assert.match(stdout, /^(PONG|0|auth|disconnected)\n$/);
    }
  });

  test('worker threads ask functions of their own, and may be terminated meanwhile', async () => {
    const work = `
      const { workerData, parentPort } = require('node:worker_threads');
      const { Client } = require(workerData.echomq);
      let asked = 0;
      const password = () => (++asked < 3 ? 'first' : new Promise(() => parentPort.postMessage('asked')));
      (async () => {
        const client = await Client.connect(workerData.url, { password, reconnectMin: 1, reconnectMax: 2 });
        for (;;) {
          // Its connection may end under either.
          const kill = (own) => client.command(['CLIENT', 'KILL', 'ID', String(own), 'SKIPME', 'no']);
          await client.command(['CLIENT', 'ID']).then(kill).catch(() => {});
        }
      })();`;
    const script = `
      const { Worker } = require('node:worker_threads');
      const { once } = require('node:events');
      (async () => {
        for (let n = 0; n < 10; n++) {
          const workerData = { echomq: ${JSON.stringify(require.resolve('..'))}, url };
          const worker = new Worker(${JSON.stringify(work)}, { eval: true, workerData });
          await once(worker, 'message');
          await worker.terminate();
        }
        const client = await echomq.Client.connect(url, { password: () => 'first' });
        console.log(await client.command(['PING']));
      })();`;
    const { code, signal, stdout, stderr } = await child(script, { url: at.server.url });
    assert.deepEqual({ code, signal, stdout, stderr }, { code: 0, signal: null, stdout: 'PONG\n', stderr: '' });
  });
});
