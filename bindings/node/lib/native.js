/** Loads the native module, or says why it cannot be loaded here. */

/** @returns {string} The system's C library, where that can be told. */
function libc() {
  if (process.platform !== 'linux') return '';
  const header = /** @type {any} */ (process.report.getReport()).header;
  return header.glibcVersionRuntime ? `-glibc ${header.glibcVersionRuntime}` : '-musl';
}

/** @returns {import('./native')} */
function load() {
  try {
    return require('../echomq.node');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const platform = `${process.platform}-${process.arch}${libc()}`;
    throw new Error(`The native module of echomq cannot be loaded on ${platform}: ${reason}`, { cause: error });
  }
}

module.exports = load();
