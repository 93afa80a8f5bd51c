/** What the driver can do: for each name, a function of the fields that answers fields. */

const echomq = require('../../../bindings/node');
const { field, groups, joined, pairs, text, value } = require('./fields');
const readers = require('./readers');

const { BrandedId, Client, EchoMQError, EventId, Keyspace } = echomq;

/** The open clients and the writers that their streams have, by the names that the judge gave them. */
const clients = new Map();

function client(handle) {
  return clients.get(handle)?.client;
}

function stream(handle, queue, name) {
  return client(handle).stream(text(queue), text(name), { writers: clients.get(handle).writers });
}

function events(handle, queue) {
  return client(handle).events(text(queue));
}

/** Options given as `name=value`, by the names that they have here. */
function options(given, names) {
  return Object.fromEntries(
    given.map((option) => {
      const [name, value] = text(option).split(/=(.*)/s);
      return [names[name], value];
    }),
  );
}

const CLIENT_OPTIONS = { node: 'nodeId', clock: 'clock', fence: 'claimVersion', many: 'many' };
const CONSUMER_OPTIONS = {
  count: 'count',
  beat: 'beat',
  min_idle: 'minIdle',
  max_attempts: 'maxAttempts',
  retry: 'retry',
};

/** Code and sentence of an error. */
function refusal(error) {
  const subject = error.subject === undefined ? '' : ` (${error.subject})`;
  return ['err', error.code, field(`${error.message}${subject}`)];
}

function limit(count) {
  return count === '0' ? {} : { limit: Number(count) };
}

async function records(reader) {
  const read = await reader.toArray();
  return joined(read.map((record) => [record.id ?? '', record.entryId, ...record.raw.flat()].map(field)));
}

async function close(handle) {
  if (!clients.has(handle)) return;
  await readers.closeAllOf(client(handle));
  await client(handle).close();
  clients.delete(handle);
}

async function batch(handle, queue, name, fields, options) {
  const results = await stream(handle, queue, name).appendBatch(groups(fields).map(pairs), options);
  return joined(results.map((result) => (result instanceof EchoMQError ? refusal(result) : ['ok', field(result)])));
}

const operations = {
  hello: () => ['node', echomq.version, echomq.coreVersion].map(field),

  'id.decode': (encoded) => {
    const id = BrandedId.parse(text(encoded));
    const parts = [
      id.namespace,
      id.snowflake,
      id.unixMs,
      id.node,
      id.sequence,
      id instanceof EventId ? id.entryId : '',
    ];
    return parts.map((part) => field(String(part)));
  },
  'id.encode': (namespace, snowflake) => [field(BrandedId.encode(text(namespace), BigInt(snowflake)))],
  'id.from_entry': (entryId) => [field(EventId.fromEntryId(text(entryId)))],
  key: (queue, type) => {
    const key = new Keyspace(text(queue)).key(text(type));
    return [field(key), String(Keyspace.slot(key))];
  },

  open: async (handle, url, ...given) => {
    await close(handle);
    const { many, ...chosen } = options(given, CLIENT_OPTIONS);
    const opened = await Client.connect(text(url), chosen);
    clients.set(handle, { client: opened, writers: many === undefined ? 'one' : 'many' });
    return [];
  },
  close: async (handle) => {
    await close(handle);
    return [];
  },

  mint: async (handle, count) => {
    const ids = await Promise.all(Array.from({ length: Number(count) }, () => client(handle).mint()));
    return ids.map(field);
  },
  append: async (handle, queue, name, ...fields) => [field(await stream(handle, queue, name).append(pairs(fields)))],
  append_id: async (handle, queue, name, id, ...fields) => [
    field(await stream(handle, queue, name).appendId(text(id), pairs(fields))),
  ],
  append_batch: (handle, queue, name, ...fields) => batch(handle, queue, name, fields, {}),
  append_batch_atomic: (handle, queue, name, ...fields) => batch(handle, queue, name, fields, { atomic: true }),
  append_batch_sequenced: (handle, queue, name, ...fields) => batch(handle, queue, name, fields, { sequenced: true }),
  append_and_publish: async (handle, queue, name, event, job, ...fields) => {
    const appended = stream(handle, queue, name).appendAndPublish(pairs(fields), value(event), text(job));
    return [field((await appended).id)];
  },
  append_sequenced: async (handle, queue, name, ...fields) => [
    field(await stream(handle, queue, name).appendSequenced(pairs(fields))),
  ],

  nodes: async (handle) => {
    const leases = await client(handle).nodes();
    return joined(leases.map(({ node, owner, left }) => [node, owner, left].map((part) => field(String(part)))));
  },

  read: (handle, queue, name, from, to, count) =>
    records(stream(handle, queue, name).read({ from: text(from), to: text(to), ...limit(count) })),
  read_window: (handle, queue, name, first, last, count) =>
    records(stream(handle, queue, name).readWindow(new Date(Number(first)), new Date(Number(last)), limit(count))),
  read_since: (handle, queue, name, first, count) =>
    records(stream(handle, queue, name).readSince(new Date(Number(first)), limit(count))),
  read_last: (handle, queue, name, count) => records(stream(handle, queue, name).readLast(Number(count))),

  trim: async (handle, queue, name, by, bound, how) => {
    const keep = by === 'maxlen' ? { maxLen: Number(bound) } : { minId: new Date(Number(bound)) };
    return [String(await stream(handle, queue, name).trim({ ...keep, exact: how === 'exact' }))];
  },

  tail: (reader, handle, queue, name, after) =>
    readers.open(reader, client(handle), () => stream(handle, queue, name).tail(text(after))),
  consumer: (reader, handle, queue, name, group, consumer, start, ...given) =>
    readers.open(reader, client(handle), () =>
      stream(handle, queue, name).consumer({
        group: text(group),
        consumer: text(consumer),
        start: text(start),
        ...options(given, CONSUMER_OPTIONS),
      }),
    ),
  next: readers.next,
  next_cancelled: readers.nextCancelled,
  ack: (reader, entryId) => readers.settle(reader, text(entryId), (delivery) => delivery.ack()),
  fail: (reader, entryId, reason) => readers.settle(reader, text(entryId), (delivery) => delivery.fail(text(reason))),
  stop: readers.stop,
  'group.info': async (handle, queue, name, group) => {
    const { pending, lag, consumers } = await stream(handle, queue, name).group(text(group));
    return [pending, lag ?? '', ...consumers.map((consumer) => consumer.name)].map((part) => field(String(part)));
  },

  listen: (listener, handle, queue) => readers.listen(listener, client(handle), () => events(handle, queue).listen()),
  event: readers.event,
  publish: async (handle, queue, event, job, ...members) => {
    await events(handle, queue).publish(value(event), text(job), pairs(members));
    return [];
  },
  progress: async (handle, queue, job, progress) => {
    await events(handle, queue).updateProgress(text(job), value(progress));
    return [];
  },
  cancel: async (handle, queue, job, reason) => {
    await events(handle, queue).cancel(text(job), value(reason));
    return [];
  },
  watch: (token, handle, queue, job) =>
    readers.open(token, client(handle), () => events(handle, queue).watch(text(job))),
  cancelled: readers.cancelled,
};

/** Answers one request: a word and fields. An error that is none of the bus's ends the driver. */
async function answer(name, fields) {
  if (!Object.hasOwn(operations, name)) return ['unsupported'];
  try {
    return ['ok', ...(await operations[name](...fields))];
  } catch (error) {
    if (error instanceof EchoMQError) return refusal(error);
    throw error;
  }
}

module.exports = { answer };
