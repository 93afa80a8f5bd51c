const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const { after, describe, test } = require('node:test');
const { pathToFileURL } = require('node:url');
const echomq = require('..');
const native = require('../lib/native');

const root = join(__dirname, '..');
const folder = mkdtempSync(join(tmpdir(), 'echomq-package-'));
after(() => rmSync(folder, { recursive: true }));

/** Runs node in the folder; answers what it wrote and with what it ended. */
function node(...parts) {
  const { status, stdout, stderr } = spawnSync(process.execPath, parts, { cwd: folder, encoding: 'utf8' });
  return { status, stdout, stderr };
}

describe('the package', () => {
  test('what is generated is as committed', () => {
    execFileSync(process.execPath, [join(root, 'scripts/generate.js'), '--check'], { stdio: 'inherit' });
  });

  test('both entry points give the same things', async () => {
    const module = await import(pathToFileURL(join(root, 'index.mjs')).href);
    assert.deepEqual(Object.keys(module).sort(), Object.keys(echomq).sort());
    for (const name of Object.keys(echomq)) assert.equal(module[name], echomq[name]);
  });

  test('the versions of package, core and crate are one', () => {
    assert.equal(echomq.version, require('../package.json').version);
    assert.equal(echomq.coreVersion, native.version());
    assert.equal(echomq.version, echomq.coreVersion);
  });

  test('a program in TypeScript compiles strictly as either kind of module', () => {
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: 'es2022',
      module: 'node16',
      lib: ['es2022', 'esnext.disposable'],
      types: ['node'],
      typeRoots: [join(root, 'node_modules/@types')],
    };
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(root, join(folder, 'node_modules/echomq'));
    cpSync(join(__dirname, 'sample.ts'), join(folder, 'sample.mts'));
    cpSync(join(__dirname, 'sample.ts'), join(folder, 'sample.cts'));
    const files = ['sample.mts', 'sample.cts'];
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    const { status, stdout, stderr } = node(require.resolve('typescript/bin/tsc'), '-p', '.');
    assert.deepEqual({ status, stdout, stderr }, { status: 0, stdout: '', stderr: '' });
  });

  test('where the native module cannot be loaded, the error says where and why', () => {
    const copy = join(folder, 'copy');
    const files = ['index.js', 'lib', 'package.json'];
    for (const file of files) cpSync(join(root, file), join(copy, file), { recursive: true });
    const load = () =>
      node('-e', `try { require(${JSON.stringify(copy)}) } catch (error) { console.log(error.message) }`);

    const missing = load().stdout;
    const libc = process.platform === 'linux' ? '-(glibc \\d+\\.\\d+|musl)' : '';
    assert.match(
      missing,
      new RegExp(`cannot be loaded on ${process.platform}-${process.arch}${libc}: Cannot find module`),
    );
    writeFileSync(join(copy, 'echomq.node'), 'this is no library');
    assert.match(
      load().stdout,
      new RegExp(`${process.platform}-${process.arch}.*: .*(invalid ELF header|file too short|dlopen)`),
    );
  });
});
