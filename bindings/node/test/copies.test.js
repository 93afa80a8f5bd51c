const assert = require('node:assert/strict');
const { join } = require('node:path');
const { describe, test } = require('node:test');
const echomq = require('..');
const { suite } = require('./suite');

/** Loads the package's JavaScript once more, as test runners do, which load the native module once. */
function loadAgain() {
  const root = join(__dirname, '..');
  const isOwn = (file) => file === join(root, 'index.js') || file.startsWith(join(root, 'lib'));
  const first = new Map(Object.entries(require.cache).filter(([file]) => isOwn(file)));
  for (const file of first.keys()) delete require.cache[file];
  const again = require('..');
  for (const [file, module] of first) require.cache[file] = module;
  return again;
}

describe('two copies of the package in one process', () => {
  const at = suite();

  test('both have their calls answered, and clients of before go on', async () => {
    const before = await at.connect();
    const again = loadAgain();
    assert.notEqual(again.Client, echomq.Client);
    const clients = [before, await at.connect(), await again.Client.connect(at.server.url, { nodeId: 8 })];
    for (const [number, client] of clients.entries()) {
      const stream = client.stream('copies', String(number));
      const id = await stream.append({ k: 'v' });
      const read = await stream.read().toArray();
      assert.deepEqual(
        read.map((record) => record.id),
        [id],
      );
    }
    await clients[2].close();
  });

  test('an error of one is of the classes of the other, and of no other class', async () => {
    const again = loadAgain();
    class Derived extends echomq.EchoMQError {}
    for (const copy of [echomq, again]) {
      const refused = await copy.Client.connect('redis://h', { nodId: 1 }).catch((error) => error);
      const unreachable = await copy.Client.connect('redis://127.0.0.1:1').catch((error) => error);
      for (const { EchoMQError, InvalidOptionError, DisconnectedError, TlsError } of [echomq, again]) {
        assert.ok(refused instanceof EchoMQError && refused instanceof InvalidOptionError);
        assert.ok(unreachable instanceof EchoMQError && unreachable instanceof DisconnectedError);
        for (const error of [refused, unreachable]) {
          assert.ok(error instanceof Error && !(error instanceof TlsError) && !(error instanceof Derived));
        }
      }
    }
    for (const value of [undefined, null, 0, 'x', {}, new Error('x')]) {
      assert.ok(!(value instanceof echomq.EchoMQError) && !(value instanceof echomq.TlsError));
    }
  });
});
