// A user's program, compiled strictly by the tests as an ES module and as a CommonJS module. It is not run.

import {
  type Announced,
  BrandedId,
  Cancelled,
  CancelToken,
  Client,
  type Code,
  type ConnectOptions,
  type Consumer,
  type ConsumerInfo,
  type ConsumerOptions,
  coreVersion,
  type Decided,
  type Delivery,
  EchoMQError,
  EntryId,
  Event,
  EventGap,
  EventId,
  type Events,
  type Fields,
  Gap,
  type GroupInfo,
  type Heard,
  Keyspace,
  type Listener,
  type ListenerStatus,
  NonmonotonicError,
  type NoticeKind,
  type Reader,
  type Record,
  type Reduction,
  type Reply,
  type Start,
  type Status,
  type Stream,
  type Subscriber,
  type Tail,
  version,
} from 'echomq';

const options: ConnectOptions = { nodeId: 7, timeout: '2000', maxClockAhead: 'none', signal: AbortSignal.timeout(10) };

async function program(url: string): Promise<void> {
  const client: Client = await Client.connect(url, options);
  const disposable: AsyncDisposable = client;
  const stream: Stream = client.stream('codemojex', 'events');

  const fields: Fields = { kind: 'guessed', picture: new Uint8Array(2) };
  const id: string = await stream.append(fields);
  await stream.append([
    ['k', 'v'],
    [new Uint8Array(1), Buffer.from('w')],
  ] as const);
  await stream.append(new Map([['k', 'v']]), { signal: AbortSignal.abort() });
  await stream.appendId(id, []);
  const results: (string | EchoMQError)[] = await stream.appendBatch([fields, { k: 'v' }]);
  const ids: string[] = await stream.appendBatch(new Set([fields]), { atomic: true });

  const reader: Reader = stream.read({ from: id, to: '+', limit: 10, pageSize: 5 });
  for await (const record of reader) {
    const name: string | null = record.id;
    const [key, value]: [string, string] = record.fields[0] ?? ['', ''];
    const raw: Buffer | undefined = record.raw[0]?.[1];
    const first: string | undefined = record.get('kind');
    const foreign: boolean = record.foreign;
    console.log(name, key, value, raw, first, foreign, record.entryId);
  }
  for await (const page of stream.readWindow(new Date(0), new Date()).pages()) console.log(page.length);
  const last: Record[] = await stream.readLast(5).toArray();
  const since: Record[] = await stream.readSince(new Date(), { limit: 1 }).toArray();
  const removed: number = await stream.trim({ maxLen: 10, exact: true });
  const gone: number = await stream.trim({ minId: new Date() });

  const reply: Reply = await client.command(['XLEN', stream.key]);
  const replies: (Reply | EchoMQError)[] = await client.pipeline([['PING'], ['GET', new Uint8Array(1)]], { raw: true });
  const status: Status = client.status;
  const unfinished: number = await client.close(1000);
  console.log(disposable, results, ids, last, since, removed, gone, reply, replies, status.connected, unfinished);
}

async function consume(stream: Stream): Promise<void> {
  const start: Start = new Date();
  const given: ConsumerOptions = {
    group: 'g',
    start,
    count: 10,
    retry: '1..5',
    orderBy: 'k',
    signal: AbortSignal.abort(),
  };
  const consumer: Consumer = await stream.consumer(given);
  const disposable: AsyncDisposable = consumer;
  for await (const delivery of consumer) {
    const name: string | null = delivery.id;
    const attempts: number = delivery.attempts;
    if (delivery.settled) delivery.extend();
    else delivery.fail(new Error(delivery.group), { delay: 5 });
    console.log(name, attempts, delivery.get('k'), disposable);
  }
  await consumer.run(async (delivery: Delivery) => delivery.ack());
  await consumer.runBatches((deliveries) => deliveries.map((delivery) => delivery.giveBack()));
  const next: Delivery | undefined = await consumer.next({ signal: AbortSignal.timeout(1) });
  for await (const notice of consumer.notices()) {
    const kind: NoticeKind = notice.kind;
    const code: Code | undefined = notice.code;
    console.log(kind, code, notice.message, notice.entryId, notice.id, notice.attempts);
  }
  consumer.pause();
  consumer.resume();
  await consumer.flush();
  const left: number = await consumer.stop(100);

  const tail: Tail = await stream.tail('new', {});
  for await (const item of tail) {
    const at: string = item instanceof Gap ? item.from + item.to : item.entryId;
    console.log(at);
  }
  const groups: GroupInfo[] = await stream.groups();
  const { lag, consumers }: { lag: number | null; consumers: ConsumerInfo[] } = await stream.group('g');
  const made: boolean = await stream.createGroup('g', 'head');
  await stream.seek('g', start);
  await stream.removeConsumer('g', 'c');
  const swept: string[] = await stream.sweepConsumers('g', 1000);
  const removed: boolean = await stream.removeGroup('g');
  const letters: Record[] = await stream.deadLetters({ limit: 1 }).toArray();
  const id: string = await stream.putBack(await stream.appendSequenced({ k: 'v' }));
  const ids: string[] = await stream.appendBatch([{ k: 'v' }], { sequenced: true });
  console.log(next, left, groups, lag, consumers, made, swept, removed, letters, id, ids);
}

async function listen(client: Client): Promise<void> {
  const events: Events = client.events('codemojex');
  const listened: number = await events.publish('failed', 'JOB000xY9Wvvcd', { attempts: '3' }, {});
  await events.publish('failed', 'JOB000xY9Wvvcd', [['attempts', new Uint8Array(1)]]);
  await events.updateProgress('JOB000xY9Wvvcd', '50');
  const announced: Announced = await events.appendAndPublish('games', { k: 'v' }, 'completed', 'JOB000xY9Wvvcd');
  const undecided: Decided<string> | undefined = await events.afterVerdict(
    async (): Promise<string | undefined> => 'won',
    'completed',
    'JOB000xY9Wvvcd',
  );
  const decided: Decided<number> = await events.afterVerdict(() => 5, 'completed', 'JOB000xY9Wvvcd');

  const listener: Listener = await events.listen({ signal: AbortSignal.timeout(1) });
  const status: ListenerStatus = listener.status;
  const subscriber: Subscriber = listener.subscribe({ buffer: 10, signal: AbortSignal.timeout(1) });
  const disposables: AsyncDisposable[] = [listener, subscriber];
  for await (const heard of subscriber) {
    if (heard instanceof EventGap) console.log(heard.missed.toFixed(), heard.reconnected);
    else {
      const job: string | null = heard.job;
      const bytes: Buffer = heard.payload;
      const attempts: string | undefined = heard.members.attempts ?? heard.get('attempts');
      console.log(heard.name, job, bytes, attempts);
    }
  }
  const heard: Heard | undefined = await subscriber.next({ signal: AbortSignal.timeout(1) });
  const count: Reduction<number> = listener.reduce(
    async (count, heard) => (heard instanceof Event ? count + 1 : count),
    0,
    { buffer: 5, onFailure: (failure: unknown, heard: Heard) => console.log(failure, heard) },
  );
  const names: Reduction<Set<string>> = listener.reduce((names) => names, new Set<string>());
  console.log(count.state.toFixed(), count.failures, count.lastFailure, count.error?.code, names.state);

  const cancelled: number = await events.cancel('JOB000xY9Wvvcd', 'too late', { ttl: 1000 });
  const token: CancelToken = await events.watch('JOB000xY9Wvvcd');
  const reason: string | undefined = CancelToken.from(token.signal).reason;
  const first: boolean = new CancelToken().cancel('first');
  try {
    token.throwIfCancelled();
  } catch (error) {
    if (error instanceof Cancelled) console.log(error.reason);
  }
  console.log(
    listened,
    announced.id,
    announced.published,
    announced.error?.code,
    undecided?.verdict,
    decided.published,
  );
  console.log(status.resubscriptions, disposables, heard, cancelled, token.cancelled, token.watchError, reason, first);
}

function explain(error: unknown): Code | undefined {
  if (error instanceof NonmonotonicError) {
    const code: 'nonmonotonic' = error.code;
    console.log(code, error.top, error.id, error.subject, error.message);
  }
  return error instanceof EchoMQError ? error.code : undefined;
}

const snowflake: bigint = BrandedId.parse('USR0KHTOWnGLuC').snowflake;
const text: string = BrandedId.encode('EVT', snowflake);
const parts: EventId = EventId.parse(text);
const at: number = parts.unixMs + parts.node + parts.sequence;
const seq: bigint = EntryId.parse(parts.entryId).seq;
const slot: number = Keyspace.slot(new Keyspace('orders').stream('events'));

// What must not compile:
async function mistakes(client: Client, stream: Stream): Promise<void> {
  // @ts-expect-error an id is no number
  await stream.appendId(1, {});
  // @ts-expect-error nor is a bound
  stream.read({ from: 1 });
  // @ts-expect-error a value is text or bytes
  await stream.append({ k: 1 });
  // @ts-expect-error an instant is a Date
  stream.readSince(0);
  // @ts-expect-error one of the two
  await stream.trim({});
  // @ts-expect-error no such option
  await Client.connect('redis://localhost', { nodId: 1 });
  // @ts-expect-error clients come from connect
  new Client();
  // @ts-expect-error a snowflake is a bigint
  BrandedId.encode('EVT', 1);
  // @ts-expect-error where a group begins is always said
  await stream.consumer({ group: 'g' });
  // @ts-expect-error an instant is a Date
  await stream.tail(0);
  // @ts-expect-error the value of a member is text or bytes
  await client.events('q').publish('failed', 'JOB000xY9Wvvcd', { attempts: 3 });
  // @ts-expect-error a gap has no name
  (await client.events('q').listen()).reduce((count, heard) => (heard.name ? count + 1 : count), 0);
  // @ts-expect-error a state stays of its type
  (await client.events('q').listen()).reduce(() => 'x', 0);
  // @ts-expect-error a reason is text
  new CancelToken().cancel(new Error('x'));
  // @ts-expect-error the answer of a read-only kind
  client.status.connected.toFixed();
}

console.log(program, consume, listen, explain, mistakes, at, seq, slot, version, coreVersion);
