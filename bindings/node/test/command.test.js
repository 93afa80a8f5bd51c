const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { EchoMQError } = require('..');
const { suite } = require('./suite');

for (const protocol of ['2', '3']) {
  describe(`commands under RESP${protocol}`, () => {
    const at = suite();

    test('every kind of reply', async () => {
      const client = await at.connect({ protocol });
      assert.equal(await client.command(['PING']), 'PONG');
      assert.equal(await client.command(['SET', 'text', 'é']), 'OK');
      assert.equal(await client.command(['GET', 'text']), 'é');
      assert.equal(await client.command(['GET', 'nothing']), null);
      assert.equal(await client.command(['INCRBY', 'number', '-5']), -5);
      assert.equal(await client.command(['INCRBY', 'large', '9007199254740991']), 9007199254740991);
      assert.equal(await client.command(['INCR', 'large']), 9007199254740992n);
      assert.deepEqual(await client.command(['RPUSH', 'list', 'a', Uint8Array.of(255)]), 2);
      assert.deepEqual(await client.command(['LRANGE', 'list', '0', '-1']), ['a', '\ufffd']);
      const raw = await client.command(['LRANGE', 'list', '0', '-1'], { raw: true });
      assert.deepEqual(raw, [Buffer.from('a'), Buffer.of(255)]);
      await client.command(['HSET', 'hash', 'k', 'v']);
      const pairs = await client.command(['HGETALL', 'hash']);
      assert.deepEqual(pairs, protocol === '3' ? [['k', 'v']] : ['k', 'v']);
    });

    test('a pipeline answers for each command', async () => {
      const client = await at.connect({ protocol });
      const replies = await client.pipeline([['ECHO', Uint8Array.of(254)], ['NO SUCH'], ['XLEN', 'none']], {
        raw: true,
      });
      assert.deepEqual([replies[0], replies[2]], [Buffer.of(254), 0]);
      assert.ok(replies[1] instanceof EchoMQError);
      assert.equal(replies[1].code, 'server');
      assert.match(replies[1].message, /unknown command/);
    });

    test('what would change the connection of all callers is refused, and the others go on', async () => {
      const client = await at.connect({ protocol });
      for (const text of ['SUBSCRIBE c', 'MONITOR', 'SELECT 1', 'MULTI', 'CLIENT REPLY OFF', 'HELLO 2', 'BLPOP k 0']) {
        const refused = { code: 'invalid_option' };
        await assert.rejects(client.command(text.split(' ')), refused, text);
        await assert.rejects(client.pipeline([['PING'], text.split(' ')]), refused, text);
        assert.equal(await client.command(['ECHO', text]), text);
      }
    });

    test('what cannot be sent and what the server refuses', async () => {
      const client = await at.connect({ protocol });
      await assert.rejects(client.command([]), { code: 'invalid_option' });
      await assert.rejects(client.pipeline([]), { code: 'invalid_option' });
      await assert.rejects(client.pipeline([['PING'], []]), { code: 'invalid_option' });
      await client.command(['SET', 'text', 'x']);
      await assert.rejects(client.command(['XLEN', 'text']), { code: 'wrong_type' });
      await assert.rejects(client.command(['XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 'none', '>']), {
        code: 'no_group',
      });
    });
  });
}
