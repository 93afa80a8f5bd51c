/** Measures how fast entries are drained, how soon they arrive, and what a million of them leave behind. */

const { EventEmitter } = require('node:events');
const { setTimeout: pause } = require('node:timers/promises');
const { Client } = require('..');
const { FIELDS } = require('./loads');

const COUNT = 100;
const QUEUE = 'consume';

/** Everybody who consumes: `run` calls a handler with each entry of a group until it is told to end. */
async function consumers(port) {
  const Redis = require('ioredis').default;
  const { createClient } = require('redis');
  const client = await Client.connect(`redis://127.0.0.1:${port}`, { nodeId: 1 });
  const stream = client.stream('bench', QUEUE);
  const { key } = stream;

  const peers = {
    echomq: async (group, handler, signal) => {
      const consumer = await stream.consumer({ group, start: 'new', count: COUNT, signal });
      await consumer.run((delivery) => handler(delivery.fields));
    },
    'echomq, for await': async (group, handler, signal) => {
      for await (const delivery of await stream.consumer({ group, start: 'new', count: COUNT, signal })) {
        handler(delivery.fields);
        delivery.ack();
      }
    },
    ioredis: async (group, handler, signal) => {
      const redis = new Redis({ host: '127.0.0.1', port });
      while (!signal.aborted) {
        const from = ['GROUP', group, 'c', 'COUNT', COUNT, 'BLOCK', 100, 'STREAMS', key, '>'];
        const reply = await redis.xreadgroup(...from);
        if (reply === null) continue;
        const entries = reply[0][1];
        for (const [, flat] of entries) {
          const fields = [];
          for (let at = 2; at < flat.length; at += 2) fields.push([flat[at], flat[at + 1]]);
          handler(fields);
        }
        await redis.xack(key, group, ...entries.map(([id]) => id));
      }
      redis.disconnect();
    },
    'node-redis': async (group, handler, signal) => {
      const redis = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
      while (!signal.aborted) {
        const reply = await redis.xReadGroup(group, 'c', { key, id: '>' }, { COUNT, BLOCK: 100 });
        if (reply === null) continue;
        const { messages } = reply[0];
        for (const { message } of messages) handler(Object.entries(message).slice(1));
        await redis.xAck(
          key,
          group,
          messages.map(({ id }) => id),
        );
      }
      redis.destroy();
    },
  };
  return { client, stream, peers };
}

/** BullMQ's listener reads without a group and acknowledges nothing; it has a stream of its own, of the same fields. */
async function queueEvents(port, entries) {
  const { QueueEvents } = require('bullmq');
  const events = new QueueEvents('consume', { connection: { host: '127.0.0.1', port }, lastEventId: '0-0' });
  const rate = await new Promise((resolve) => {
    let left = entries;
    const begin = process.hrtime.bigint();
    events.on('bench', () => {
      if (--left === 0) resolve(entries / (Number(process.hrtime.bigint() - begin) / 1e9));
    });
  });
  await events.close();
  return rate;
}

/** Entries a second that a peer drains of a group that begins at the head. */
async function drain(stream, run, group, entries) {
  await stream.createGroup(group, 'head');
  const controller = new AbortController();
  EventEmitter.setMaxListeners(0, controller.signal);
  let left = entries;
  const begin = process.hrtime.bigint();
  await run(
    group,
    () => {
      if (--left === 0) controller.abort();
    },
    controller.signal,
  );
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  const { pending } = await stream.group(group);
  if (pending !== 0) throw new Error(`${pending} entries of ${group} were not acknowledged`);
  await stream.removeGroup(group);
  return entries / seconds;
}

/** Rates by peer, in turns. */
async function rates(port, rounds, entries) {
  const { client, stream, peers } = await consumers(port);
  for (let left = entries; left > 0; left -= 1000) await stream.appendBatch(Array(1000).fill(FIELDS));
  const flat = ['event', 'bench', ...Object.entries(FIELDS).flat()];
  const add = ['XADD', 'bull:consume:events', '*', ...flat];
  for (let left = entries; left > 0; left -= 1000) await client.pipeline(Array(1000).fill(add));
  const found = new Map(Object.keys(peers).map((name) => [name, []]));
  found.set('BullMQ QueueEvents', []);
  for (let round = 0; round < rounds; round++) {
    for (const [name, run] of Object.entries(peers)) {
      found.get(name).push(await drain(stream, run, `${name.replace(/\W+/g, '-')}-${round}`, entries));
    }
    found.get('BullMQ QueueEvents').push(await queueEvents(port, entries));
  }
  await client.close(5000);
  return found;
}

/** Milliseconds from append to handler at a thousand appends a second, by peer: the median and the 99th percentile. */
async function latencies(port, seconds) {
  const { client, stream, peers } = await consumers(port);
  const found = new Map();
  for (const [name, run] of Object.entries(peers)) {
    const group = name.replace(/\W+/g, '-');
    await stream.createGroup(group, 'new');
    const controller = new AbortController();
    const times = [];
    const running = run(
      group,
      (fields) => times.push(Number(process.hrtime.bigint() - BigInt(fields[0][1])) / 1e6),
      controller.signal,
    );
    const begin = performance.now();
    for (let sent = 0; sent < 1000 * seconds; ) {
      for (const due = performance.now() - begin; sent < due && sent < 1000 * seconds; sent++) {
        stream.append({ at: String(process.hrtime.bigint()), ...FIELDS });
      }
      await pause(1);
    }
    while (times.length < 1000 * seconds) await pause(10);
    controller.abort();
    await running;
    times.sort((a, b) => a - b);
    found.set(
      name,
      [0.5, 0.99].map((part) => times[Math.floor(part * times.length)]),
    );
  }
  await client.close(5000);
  return found;
}

/** By how many bytes the process has grown after so many deliveries. */
async function growth(port, deliveries) {
  require('node:v8').setFlagsFromString('--expose-gc');
  const collect = require('node:vm').runInNewContext('gc');
  const { client, stream, peers } = await consumers(port);
  const entries = await client.command(['XLEN', stream.key]);
  const size = async () => {
    for (let n = 0; n < 5; n++) {
      collect();
      await new Promise(setImmediate);
    }
    return process.memoryUsage().rss;
  };
  const rounds = async (prefix, times) => {
    for (let round = 0; round < times; round++) await drain(stream, peers.echomq, `${prefix}-${round}`, entries);
  };
  await rounds('warm', 5);
  const before = await size();
  await rounds('grow', Math.ceil(deliveries / entries));
  const grown = (await size()) - before;
  await client.close(5000);
  return grown;
}

module.exports = { growth, latencies, rates };
