'use strict';

// A user's CommonJS module: writes a record and reads it back.

const assert = require('node:assert/strict');
const { Client, EventId, version } = require('echomq');

async function main() {
  const client = await Client.connect(process.argv.at(-1), { nodeId: 7 });
  const stream = client.stream('packages', 'commonjs');
  const id = await stream.append({ kind: 'guessed' });
  const [record] = await stream.read().toArray();
  assert.deepEqual([record.id, record.entryId, record.get('kind')], [id, EventId.parse(id).entryId, 'guessed']);
  await client.close(5000);
  console.log(`echomq ${version} as a CommonJS module: ${id}`);
}

main();
