const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const native = require('../lib/native');
const { call, copy } = require('../lib/calls');
const { suite } = require('./suite');

// Each panic still says in one line where it was.
process.env.RUST_BACKTRACE = '0';

describe('a defect in the native module', () => {
  const at = suite();

  test('is an exception of the call it happens in, and harms no other', async () => {
    const stream = (await at.connect()).stream('panic', 'beside');
    for (let round = 0; round < 3; round++) {
      assert.throws(() => native.panicInCall(), /a defect on purpose/);
      const beside = stream.append({ k: 'v' });
      await assert.rejects(call(native.panicInCall), /a defect on purpose/);
      await assert.rejects(
        call((slot) => native.panicInAnswer(copy, slot)),
        /a defect on purpose/,
      );
      await assert.rejects(
        call((slot) => native.panicInTask(copy, slot)),
        /defect/,
      );
      assert.equal(typeof (await beside), 'string');
    }
    assert.equal(await at.plain.text('XLEN', stream.key), 3);
  });
});
