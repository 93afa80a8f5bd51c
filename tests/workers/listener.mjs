/** A listener in Node for the fault tests; see README.md. */

import { openSync, writeSync } from 'node:fs';
import { Client, EventGap } from '../../bindings/node/index.mjs';

const given = Object.fromEntries(process.argv.slice(2).map((argument) => argument.split(/=(.*)/s, 2)));
const log = openSync(given.log, 'a');
const line = (...words) => writeSync(log, `${words.join(' ')}\n`);

const client = await Client.connect(given.url);
const events = client.events('codemojex');
const listener = await events.listen();
const subscriber = listener.subscribe();
const token = await events.watch(given.job);
token.signal.addEventListener('abort', () => line('cancelled', token.reason));
process.once('SIGTERM', () => listener.close());
line('ready');
for await (const heard of subscriber) {
  if (heard instanceof EventGap) line('gap', heard.missed, heard.reconnected);
  else line('heard', heard.name, heard.get('n') ?? '-');
}
await client.close();
