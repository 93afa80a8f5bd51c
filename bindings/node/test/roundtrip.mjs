// A user's ES module: writes a record and reads it back.

import assert from 'node:assert/strict';
import { Client, EventId, version } from 'echomq';

const client = await Client.connect(process.argv.at(-1), { nodeId: 7 });
const stream = client.stream('packages', 'module');
const id = await stream.append({ kind: 'guessed' });
const [record] = await stream.read().toArray();
assert.deepEqual([record.id, record.entryId, record.get('kind')], [id, EventId.parse(id).entryId, 'guessed']);
await client.close(5000);
console.log(`echomq ${version} as an ES module: ${id}`);
