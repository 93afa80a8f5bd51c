const assert = require('node:assert/strict');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { describe, test } = require('node:test');
const echomq = require('..');
const native = require('../lib/native');
const { makeError } = require('../lib/errors');
const { coreName } = require('../lib/options');

const types = readFileSync(join(__dirname, '../index.d.ts'), 'utf8');

describe('errors', () => {
  test('each code of the core has a class of its own, declared and exported', () => {
    const codes = native.codes();
    assert.equal(new Set(codes).size, 32);
    for (const code of codes) {
      const error = makeError(code, 'a sentence', 'a key', null, null);
      assert.ok(error instanceof echomq.EchoMQError && error instanceof Error);
      assert.equal(echomq[error.name], error.constructor);
      assert.notEqual(error.constructor, echomq.EchoMQError);
      assert.deepEqual([error.code, error.message, error.subject, error.id], [code, 'a sentence', 'a key', undefined]);
      assert.ok(types.includes(`export class ${error.name} extends EchoMQError {\n  readonly code: '${code}';`));
    }
    const own = Object.values(echomq).filter((value) => value?.prototype instanceof echomq.EchoMQError);
    assert.equal(own.length, codes.length);
  });

  test('a code that is only known to a later core is an error all the same', () => {
    const error = makeError('of_later', 'a sentence', null, null, null);
    assert.equal(error.constructor, echomq.EchoMQError);
    assert.equal(error.code, 'of_later');
  });

  test('an error says whether asking again can help, and what led to it', () => {
    const cause = makeError('disconnected', 'no connection', null, null, null, true, null);
    const error = makeError('unknown_outcome', 'nobody knows', null, null, null, false, cause);
    assert.deepEqual([cause.retryable, cause.cause, error.retryable, error.cause], [true, undefined, false, cause]);
  });

  test('the name of a class is the code in the manner of JavaScript', () => {
    assert.equal(makeError('node_lease_lost', '', null, null, null).name, 'NodeLeaseLostError');
    assert.equal(makeError('tls', '', null, null, null).name, 'TlsError');
  });
});

describe('options', () => {
  test('the names of JavaScript are those of the core, each declared', () => {
    const names = native.optionNames();
    assert.ok(names.includes('node_id') && names.includes('max_clock_ahead'));
    const declared = types.match(/export interface ConnectOptions \{([\s\S]*?)\n\}/)[1];
    const options = Array.from(declared.matchAll(/^ {2}(\w+)\?:/gm), (match) => match[1]);
    assert.deepEqual(options.map(coreName), [...names, 'signal']);
  });

  test('each of them reaches the core, which names the one it refuses', async () => {
    const bad = { database: 'x', nodeId: 70000, clientName: 'a b', protocol: 4, claimVersion: '2', clock: -1 };
    for (const name of ['timeout', 'connectTimeout', 'reconnectMin', 'reconnectMax']) bad[name] = 0;
    for (const name of ['maxRecordBytes', 'maxInFlight', 'maxClockAhead']) bad[name] = 1.5;
    for (const [name, value] of Object.entries(bad)) {
      const expected = { code: 'invalid_option', subject: coreName(name) };
      await assert.rejects(echomq.Client.connect('redis://127.0.0.1:1', { [name]: value }), expected);
    }
    const files = { tlsCa: '/no/such.pem', tlsCertificate: '/no/such.pem', tlsKey: '/no/such.pem' };
    for (const [name, value] of Object.entries(files)) {
      await assert.rejects(echomq.Client.connect('redis://127.0.0.1:1', { [name]: value }), { code: 'invalid_option' });
    }
    await assert.rejects(echomq.Client.connect('rediss://127.0.0.1:1', { tlsCa: files.tlsCa }), { code: 'tls' });
    await assert.rejects(echomq.Client.connect('redis://h', { username: 'u' }), { code: 'invalid_option' });
    await assert.rejects(echomq.Client.connect('redis://h', { nodId: 1 }), { subject: 'nod_id' });
    for (const value of [null, true, {}, []]) {
      await assert.rejects(echomq.Client.connect('redis://h', { nodeId: value }), TypeError);
    }
    await assert.rejects(echomq.Client.connect('redis://h', null), TypeError);
  });

  test('an option that is undefined is not given', async () => {
    await assert.rejects(echomq.Client.connect('redis://127.0.0.1:1', { database: undefined }), {
      code: 'disconnected',
    });
  });

  test('no error shows a password', async () => {
    const url = 'redis://user:s3cret@127.0.0.1:1/x';
    for (const options of [{}, { password: 's3cret', database: 'y' }]) {
      const error = await echomq.Client.connect(url, options).catch((error) => error);
      assert.ok(error instanceof echomq.EchoMQError);
      assert.ok(!require('node:util').inspect(error).includes('s3cret'));
    }
  });
});
