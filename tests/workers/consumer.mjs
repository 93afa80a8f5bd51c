/** A consumer in Node for the fault tests; see README.md. */

import { openSync, writeSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { Client } from '../../bindings/node/index.mjs';

const given = Object.fromEntries(process.argv.slice(2).map((argument) => argument.split(/=(.*)/s, 2)));
const log = openSync(given.log, 'a');
const line = (...words) => writeSync(log, `${words.join(' ')}\n`);

async function handle(delivery) {
  line('begun', delivery.id, delivery.attempts);
  if (delivery.get('die') !== undefined) process.kill(process.pid, 'SIGKILL');
  const pause = delivery.get('pause');
  if (pause !== undefined) await setTimeout(Number(pause));
  line('handled', delivery.id, delivery.attempts);
}

async function tell(notices) {
  for await (const notice of notices) line('notice', notice.kind, notice.id ?? '-');
}

const client = await Client.connect(given.url, { nodeId: given.node_id, timeout: given.timeout });
const consumer = await client.stream('codemojex', given.stream).consumer({
  group: given.group,
  start: given.start,
  consumer: given.consumer,
  count: given.count,
  beat: given.beat,
  minIdle: given.min_idle,
  maxAttempts: given.max_attempts,
});
process.once('SIGTERM', async () => line('stopped', await consumer.stop(20_000)));
const told = tell(consumer.notices());
line('ready');
await consumer.run(handle);
await told;
await client.close();
