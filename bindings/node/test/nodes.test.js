const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { hostname } = require('node:os');
const { EventId } = require('..');
const { suite } = require('./suite');

describe('node leases', () => {
  const at = suite();

  test('name who holds which node, and are gone with their clients', async () => {
    const options = { nodeId: undefined };
    const [reader, one, other] = [
      await at.connect(options),
      await at.connect({ ...options, clientName: 'one' }),
      await at.connect(options),
    ];
    assert.deepEqual(await reader.nodes(), []);
    const minted = [await one.mint(), await other.mint()].map((id) => EventId.parse(id).node);
    const leases = await reader.nodes();
    assert.deepEqual(
      leases.map(({ node, host, process: id, clientName }) => [node, host, id, clientName]),
      [
        [minted[0], hostname(), String(process.pid), 'one'],
        [minted[1], hostname(), String(process.pid), ''],
      ],
    );
    assert.ok(leases.every(({ owner, left }) => owner.length === 26 && left > 0 && left <= 30_000));
    assert.notEqual(leases[0].owner, leases[1].owner);
    const members = await reader.command(['ZRANGE', '{emq}:nodes', '0', '-1']);
    assert.deepEqual(new Set(members), new Set(leases.map(({ node, owner }) => `${node}:${owner}`)));
    await one.close();
    assert.deepEqual(
      (await reader.nodes()).map(({ node }) => node),
      [minted[1]],
    );
  });
});
