/** Measures how many events a second are published and heard, and how many are heard of those that the server hands out. */

const { once } = require('node:events');
const { connect } = require('node:net');
const { Client } = require('..');
const { repeat } = require('./loads');

const QUEUE = 'bench';
const CHANNEL = `emq:{${QUEUE}}:events`;
const EVENT = 'completed';
const JOB = 'JOB000xY9Wvvcd';
const MEMBERS = { attempts: '3', duration: '1250' };
const PAYLOAD = JSON.stringify({ event: EVENT, job: JOB, ...MEMBERS });
const IN_FLIGHT = 100;
/** So many events the server hands out in one step, and so many steps are on their way: it makes one while another is read. */
const STEP = 1000;
const STEPS = 2;

/** Counts what was heard, and says when all has come. What each handler does is to look at the event's name and job. */
class Count {
  #left = 0;
  #done;

  until(count) {
    this.#left = count;
    return new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  heard(event, job) {
    if (event !== EVENT || job !== JOB) throw new Error(`heard ${event} of ${job}`);
    if (--this.#left === 0) this.#done();
  }

  heardJson(payload) {
    const { event, job } = JSON.parse(payload);
    this.heard(event, job);
  }
}

/** Everybody: each begins to hear, and can publish one event and stop. The peers publish what echomq does. */
async function listeners(port, buffer) {
  const Redis = require('ioredis').default;
  const { createClient } = require('redis');
  const url = `redis://127.0.0.1:${port}`;
  const client = await Client.connect(url);
  const events = client.events(QUEUE);
  const publish = () => events.publish(EVENT, JOB, MEMBERS);

  return {
    client,
    peers: {
      echomq: async (count) => {
        const listener = await events.listen();
        listener.reduce((_, heard) => count.heard(heard.name, heard.job), undefined, { buffer });
        return { publish, stop: () => listener.close() };
      },
      'echomq, for await': async (count) => {
        const listener = await events.listen();
        const subscriber = listener.subscribe({ buffer });
        const loop = async () => {
          for await (const heard of subscriber) count.heard(heard.name, heard.job);
        };
        loop();
        return { publish, stop: () => listener.close() };
      },
      ioredis: async (count) => {
        const [redis, listening] = [new Redis({ host: '127.0.0.1', port }), new Redis({ host: '127.0.0.1', port })];
        await listening.subscribe(CHANNEL);
        listening.on('message', (_, payload) => count.heardJson(payload));
        const stop = () => {
          for (const one of [redis, listening]) one.disconnect();
        };
        const publish = () => redis.publish(CHANNEL, JSON.stringify({ event: EVENT, job: JOB, ...MEMBERS }));
        return { publish, stop };
      },
      'node-redis': async (count) => {
        const [redis, listening] = [await createClient({ url }).connect(), await createClient({ url }).connect()];
        await listening.subscribe(CHANNEL, (payload) => count.heardJson(payload));
        const stop = () => {
          for (const one of [redis, listening]) one.destroy();
        };
        const publish = () => redis.publish(CHANNEL, JSON.stringify({ event: EVENT, job: JOB, ...MEMBERS }));
        return { publish, stop };
      },
    },
  };
}

/** What is measured, and what is aimed at. */
const AIMS = [
  ['ioredis', 1.5],
  ['node-redis', 1.5],
];
const PUBLISHED = { name: `published, ${IN_FLIGHT} in flight, and heard`, aims: AIMS };
const HEARD = { name: 'heard, as fast as the server hands out', aims: AIMS };

/** Events a second, while so many are published and heard. */
async function timed(count, events, work) {
  const begin = process.hrtime.bigint();
  await Promise.all([count.until(events), work()]);
  return events / (Number(process.hrtime.bigint() - begin) / 1e9);
}

/** Events a second that a socket takes which looks at nothing: as fast as the server hands out to anybody. */
async function limit(port, events, handOut) {
  const socket = connect(port, '127.0.0.1');
  socket.write(`SUBSCRIBE ${CHANNEL}\r\n`);
  await once(socket, 'data');
  const message = ['message', CHANNEL, PAYLOAD].map((part) => `$${part.length}\r\n${part}\r\n`);
  let left = events * `*3\r\n${message.join('')}`.length;
  const all = new Promise((resolve) => {
    socket.on('data', ({ length }) => {
      left -= length;
      if (left === 0) resolve();
    });
  });
  const begin = process.hrtime.bigint();
  await Promise.all([all, handOut()]);
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  socket.destroy();
  return events / seconds;
}

/** Rates by load and peer, in turns. */
async function rates(port, rounds, events) {
  const { client, peers } = await listeners(port, events);
  const script = "for _ = 1, ARGV[1] do redis.call('PUBLISH', KEYS[1], ARGV[2]) end";
  const step = ['EVAL', script, '1', CHANNEL, String(STEP), PAYLOAD];
  const handOut = () => repeat(() => client.command(step), events / STEP, STEPS);
  const found = new Map([PUBLISHED, HEARD].map((load) => [load, new Map()]));
  const keep = (load, name, rate) => {
    const ofPeers = found.get(load);
    ofPeers.set(name, [...(ofPeers.get(name) ?? []), rate]);
  };
  for (let round = 0; round < rounds; round++) {
    for (const [name, begin] of Object.entries(peers)) {
      const count = new Count();
      const { publish, stop } = await begin(count);
      const publishAll = () => repeat(publish, events, IN_FLIGHT);
      await timed(count, events, publishAll);
      keep(PUBLISHED, name, await timed(count, events, publishAll));
      keep(HEARD, name, await timed(count, events, handOut));
      stop();
    }
    keep(HEARD, 'a socket that only counts bytes', await limit(port, events, handOut));
  }
  await client.close(5000);
  return found;
}

module.exports = { rates };
