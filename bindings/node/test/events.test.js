const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { AuthError, Events, EventId } = require('..');
const vectors = require('../../../conformance/vectors.json').events;
const { suite } = require('./suite');

const JOB = 'JOB000xY9Wvvcd';

describe('publishing events', () => {
  const at = suite();

  /** The events of a queue, and what answers the next payload on their channel, as a plain subscriber has it. */
  async function heard(queue, options) {
    const events = (await at.connect(options)).events(queue);
    const plain = at.server.plain();
    const next = await plain.subscribe(`emq:{${queue}}:events`);
    return { events, next: async () => (await next()).toString(), close: () => plain.close() };
  }

  test('every payload of the vectors, with members in pairs or in an object', async () => {
    const { events, next, close } = await heard('vectors');
    assert.ok(events instanceof Events);
    assert.equal(events.channel, 'emq:{vectors}:events');
    assert.ok(vectors.length > 0);
    for (const { event, job, extra, payload } of vectors) {
      const bytes = extra.map(([name, value]) => [Buffer.from(name), Buffer.from(value)]);
      for (const members of [extra, Object.fromEntries(extra), new Map(extra), bytes]) {
        assert.equal(await events.publish(event, job, members), 1);
        assert.equal(await next(), payload);
      }
    }
    close();
  });

  test('it answers how many listened, and nobody is no error', async () => {
    const { events, next, close } = await heard('count');
    assert.equal(await events.publish('added', JOB), 1);
    assert.equal(await next(), `{"event":"added","job":"${JOB}"}`);
    const listener = await events.listen();
    assert.equal(await events.publish('added', JOB, undefined), 2);
    listener.close();
    close();
    assert.equal(await (await at.connect()).events('nobody').publish('added', JOB), 0);
  });

  test('what is published in a row is heard in that row', async () => {
    const { events, next, close } = await heard('order');
    const calls = Array.from({ length: 500 }, (_, n) => events.publish('added', JOB, { n: String(n) }));
    for (let n = 0; n < 500; n++) assert.equal(JSON.parse(await next()).n, String(n));
    assert.deepEqual(await Promise.all(calls), Array(500).fill(1));
    close();
  });

  test('what cannot be published is refused with its code, and nothing is heard of it', async () => {
    const { events, next, close } = await heard('refused', { maxRecordBytes: 100 });
    for (const [code, subject, ...given] of [
      ['invalid_name', undefined, '', JOB],
      ['malformed_id', 'job', 'added', 'JOB1'],
      ['reserved_field', 'event', 'added', JOB, { event: 'x' }],
      ['reserved_field', 'job', 'added', JOB, [['job', 'x']]],
      [
        'invalid_option',
        'a',
        'added',
        JOB,
        [
          ['a', '1'],
          ['a', '2'],
        ],
      ],
      ['invalid_option', 'a', 'added', JOB, { a: new Uint8Array([255]) }],
      ['too_large', 'added', 'added', JOB, { a: 'x'.repeat(100) }],
    ]) {
      const error = await events.publish(...given).catch((error) => error);
      assert.deepEqual([error.code, error.subject], [code, subject]);
    }
    for (const given of [
      [1, JOB],
      ['added', 1],
      ['added', JOB, 'x'],
      ['added', JOB, { n: 1 }],
      ['added', JOB, ['ab']],
    ]) {
      await assert.rejects(events.publish(...given), TypeError);
    }
    const reason = new Error('not wanted');
    await assert.rejects(events.publish('added', JOB, {}, { signal: AbortSignal.abort(reason) }), reason);
    await events.publish('added', JOB);
    assert.equal(await next(), `{"event":"added","job":"${JOB}"}`);
    close();
    const client = await at.connect();
    assert.throws(() => client.events(1), TypeError);
    assert.throws(() => client.events('no name'), { code: 'invalid_name' });
  });

  test('progress is in the row and in the event, and a job without a row is gone', async () => {
    const { events, next, close } = await heard('progress');
    await assert.rejects(events.updateProgress(JOB, '50'), { code: 'gone' });
    await at.plain.text('HSET', `emq:{progress}:job:${JOB}`, 'state', 'active');
    assert.equal(await events.updateProgress(JOB, '5/10'), 1);
    assert.deepEqual(JSON.parse(await next()), { event: 'progress', job: JOB, progress: '5/10' });
    assert.equal(await events.updateProgress(JOB, Buffer.from('naïve')), 1);
    assert.equal(JSON.parse(await next()).progress, 'naïve');
    assert.equal(await at.plain.text('HGET', `emq:{progress}:job:${JOB}`, 'progress'), 'naïve');
    await assert.rejects(events.updateProgress('JOB1', '5'), { code: 'malformed_id' });
    for (const given of [[JOB, 5], [JOB], [5, 'x']]) await assert.rejects(events.updateProgress(...given), TypeError);
    close();
  });

  test('a record and its event: the event has the place of the record', async () => {
    const { events, next, close } = await heard('both');
    for (const call of ['appendAndPublish', 'appendSequencedAndPublish']) {
      const { id, published, error } = await events[call]('games', { kind: 'guessed' }, 'completed', JOB, { n: '1' });
      assert.deepEqual([published, error], [1, undefined]);
      const members = { event: 'completed', job: JOB, stream: 'games', id, n: '1' };
      assert.equal(await next(), JSON.stringify(members));
      const [entryId, fields] = (await at.entries('emq:{both}:stream:games')).at(-1);
      assert.deepEqual([entryId, fields], [EventId.parse(id).entryId, ['id', id, 'kind', 'guessed']]);

      await assert.rejects(events[call]('no name', {}, 'completed', JOB), { code: 'invalid_name' });
      await assert.rejects(events[call]('games', { id: 'x' }, 'completed', JOB), { code: 'reserved_field' });
      await assert.rejects(events[call]('games', {}, 'completed', 'JOB1'), { code: 'malformed_id' });
      await assert.rejects(events[call]('games', {}, 'completed', JOB, { stream: 'x' }), { code: 'reserved_field' });
      await assert.rejects(events[call](1, {}, 'completed', JOB), TypeError);
      await assert.rejects(events[call]('games', { n: 1 }, 'completed', JOB), TypeError);
    }
    assert.equal((await at.entries('emq:{both}:stream:games')).length, 2);
    close();
  });

  test('after a verdict the event is published, after none it is not', async () => {
    const { events, next, close } = await heard('verdict');
    assert.deepEqual(await events.afterVerdict(async () => 'won', 'completed', JOB, { n: '1' }), {
      verdict: 'won',
      published: 1,
      error: undefined,
    });
    assert.equal(await next(), `{"event":"completed","job":"${JOB}","n":"1"}`);
    for (const undecided of [undefined, null]) {
      assert.equal(await events.afterVerdict(() => undecided, 'completed', JOB), undecided);
      assert.equal(await events.afterVerdict(async () => undecided, 'completed', JOB), undecided);
    }
    const failure = new Error('of the transition');
    const rejecting = () => Promise.reject(failure);
    const throwing = () => {
      throw failure;
    };
    for (const transition of [rejecting, throwing]) {
      await assert.rejects(events.afterVerdict(transition, 'completed', JOB), failure);
    }
    for (const verdict of [false, 0, '']) {
      assert.equal((await events.afterVerdict(() => verdict, 'failed', JOB)).verdict, verdict);
      assert.equal(await next(), `{"event":"failed","job":"${JOB}"}`);
    }
    close();
  });

  test('the event is checked before its transition runs', async () => {
    const { events, close } = await heard('checked');
    const never = () => assert.fail('the transition ran');
    await assert.rejects(events.afterVerdict(never, '', JOB), { code: 'invalid_name' });
    await assert.rejects(events.afterVerdict(never, 'completed', 'JOB1'), { code: 'malformed_id' });
    await assert.rejects(events.afterVerdict(never, 'completed', JOB, { job: 'x' }), { code: 'reserved_field' });
    await assert.rejects(events.afterVerdict(never, 'completed', JOB, { n: 1 }), TypeError);
    await assert.rejects(events.afterVerdict('x', 'completed', JOB), TypeError);
    close();
  });

  test('a missing channel rule is named, and all that needs no channel works', async () => {
    const rules = ['on', '>secret', '+@all', '~*', 'resetchannels'];
    await at.plain.text('ACL', 'SETUSER', 'worker', ...rules);
    const client = await at.connect({ username: 'worker', password: 'secret' });
    const events = client.events('acl');
    const missing = (error) => {
      assert.ok(error instanceof AuthError);
      assert.equal(error.subject, 'emq:{acl}:events');
      assert.match(error.message, /`&emq:\{acl\}:events`/);
      return true;
    };
    await assert.rejects(events.publish('added', JOB), missing);
    await assert.rejects(events.listen(), missing);
    await assert.rejects(events.watch(JOB), missing);
    await client.stream('acl', 's').append({ k: 'v' });
    const announced = await events.appendAndPublish('s', { k: 'w' }, 'added', JOB);
    assert.equal(announced.published, undefined);
    missing(announced.error);
    const decided = await events.afterVerdict(() => 'won', 'added', JOB);
    assert.deepEqual([decided.verdict, decided.published], ['won', undefined]);
    missing(decided.error);
    const written = (await at.entries('emq:{acl}:stream:s')).map(([, fields]) => fields[3]);
    assert.deepEqual(written, ['v', 'w']);
  });
});
