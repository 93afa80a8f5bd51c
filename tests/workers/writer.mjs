/** A writer in Node for the fault tests; see README.md. */

import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { Client } from '../../bindings/node/index.mjs';

const given = Object.fromEntries(process.argv.slice(2).map((argument) => argument.split(/=(.*)/s, 2)));
const sequenced = given.how === 'sequenced';
const [batch, count, time] = [given.batch, given.count ?? Infinity, given.time ?? Infinity].map(Number);
const { url, node_id: nodeId, clock, timeout } = given;

const client = await Client.connect(url, { nodeId, clock, timeout });
const stream = client.stream('codemojex', given.stream);
const record = (n) => ({ writer: given.name, n: String(n) });
const ids = [];

writeFileSync(given.log, 'ready\n');
while (!existsSync(given.gate)) await setTimeout(1);
const begun = performance.now();
while (ids.length < count && performance.now() - begun < time) {
  const next = record(ids.length);
  ids.push(await (sequenced ? stream.appendSequenced(next) : stream.append(next)));
  const left = Math.min(batch, count - ids.length);
  if (left > 0) {
    const records = Array.from({ length: left }, (_, at) => record(ids.length + at));
    ids.push(...(await stream.appendBatch(records, { atomic: true, sequenced })));
  }
}
appendFileSync(given.log, ids.map((id) => `appended ${id}\n`).join(''));
await client.close();
