const assert = require('node:assert/strict');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { describe, test } = require('node:test');
const echomq = require('..');
const { suite } = require('./suite');

const AsyncFunction = (async () => {}).constructor;

/** The examples of a file: blocks marked `js`, in comments or not. */
function examples(file) {
  const text = readFileSync(join(__dirname, '..', file), 'utf8');
  return Array.from(text.matchAll(/```js\n([\s\S]*?)```/g), (match) => ({
    name: `${file}, line ${text.slice(0, match.index).split('\n').length}`,
    source: match[1].replace(/^ *\* ?/gm, ''),
  }));
}

describe('examples in the documentation', () => {
  const at = suite();
  const all = [...examples('index.d.ts'), ...examples('README.md')];

  test('there are some', () => assert.ok(all.length >= 8));

  for (const { name, source } of all) {
    test(name, async () => {
      const client = await at.connect();
      const stream = client.stream('codemojex', `example-${all.findIndex((example) => example.name === name)}`);
      await stream.append({ kind: 'guessed' });
      // What examples print would get among what the tests report.
      const console = { log() {}, error() {} };
      const given = { ...echomq, client, stream, events: client.events('codemojex'), echomq, console };
      const local = source
        .replaceAll('redis://localhost', at.server.url)
        .replace(/^import \{ (.*) \} from 'echomq';$/m, 'const { $1 } = echomq;');
      // In a block of its own, where what it declares stands before what it is given.
      await new AsyncFunction(...Object.keys(given), `{ ${local} }`)(...Object.values(given));
    });
  }
});
