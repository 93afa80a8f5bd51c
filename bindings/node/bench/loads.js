/** The peers, and what is measured of them: how many records a second each appends. */

const { Client } = require('..');

/** Three fields of about 170 bytes, the same for all. */
const FIELDS = {
  kind: 'order.created',
  user: 'u-123456',
  payload: JSON.stringify({ amount: 12345, items: [1, 2, 3, 4, 5], note: 'x'.repeat(90) }),
};
const FLAT = Object.entries(FIELDS).flat();
const BATCH = 1000;
const RECORDS = Array(BATCH).fill(FIELDS);

/** Connects everybody; each peer has the loads it can carry, and all say how to close them. */
async function connectAll(port) {
  const Redis = require('ioredis').default;
  const { createClient } = require('redis');
  const { GlideClient } = require('@valkey/valkey-glide');

  const client = await Client.connect(`redis://127.0.0.1:${port}`, { nodeId: 1 });
  const stream = client.stream('bench', 'echomq');
  const ioredis = new Redis({ host: '127.0.0.1', port });
  const pipelined = new Redis({ host: '127.0.0.1', port, enableAutoPipelining: true });
  const nodeRedis = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
  const glide = await GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port }] });
  const pairs = Object.entries(FIELDS);

  const peers = {
    echomq: {
      one: () => stream.append(FIELDS),
      batch: () => stream.appendBatch(RECORDS),
    },
    ioredis: {
      one: () => ioredis.xadd('ioredis', '*', ...FLAT),
      batch: () => {
        const pipeline = ioredis.pipeline();
        for (let left = BATCH; left > 0; left--) pipeline.xadd('ioredis', '*', ...FLAT);
        return pipeline.exec();
      },
    },
    'ioredis, enableAutoPipelining': {
      one: () => pipelined.xadd('pipelined', '*', ...FLAT),
    },
    'node-redis': {
      one: () => nodeRedis.xAdd('node-redis', '*', FIELDS),
      batch: () => Promise.all(RECORDS.map((fields) => nodeRedis.xAdd('node-redis', '*', fields))),
    },
    'valkey-glide': {
      one: () => glide.xadd('valkey-glide', pairs),
    },
  };
  const close = async () => {
    await client.close(5000);
    ioredis.disconnect();
    pipelined.disconnect();
    nodeRedis.destroy();
    glide.close();
  };
  return { peers, close, reset: () => ioredis.flushall() };
}

/** Calls it that many times, that many of them at once. */
async function repeat(call, times, atOnce) {
  let left = times;
  const lane = async () => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

/** What is measured, how large a round of it is, and what is aimed at. */
const loads = [
  { name: 'one in flight', of: 'one', atOnce: 1, times: 300, records: 1, aims: [['ioredis', 0.9]] },
  { name: '100 in flight', of: 'one', atOnce: 100, times: 3000, records: 1, aims: [['ioredis', 1.2]] },
  { name: `batch of ${BATCH}`, of: 'batch', atOnce: 1, times: 5, records: BATCH, aims: [['ioredis', 2]] },
];

module.exports = { FIELDS, connectAll, loads, repeat };
