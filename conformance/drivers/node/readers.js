/** The tails and consumers that are open, by the names that the judge gave them, and what they handed out. */

const { Gap, Tail } = require('../../../bindings/node');
const { field } = require('./fields');

/** For each name the reader, its client, and what it handed out, by entry id. */
const readers = new Map();

async function close(name) {
  const reader = readers.get(name)?.reader;
  readers.delete(name);
  if (reader instanceof Tail) reader.close();
  else await reader?.stop(0);
}

async function closeAllOf(client) {
  for (const [name, held] of readers) if (held.client === client) await close(name);
}

async function open(name, client, start) {
  await close(name);
  readers.set(name, { reader: await start(), client, deliveries: new Map() });
  return [];
}

/** What comes next within that time; nothing where none came. */
async function next(name, wait) {
  const { reader, deliveries } = readers.get(name);
  const signal = AbortSignal.timeout(Number(wait));
  try {
    let found = await reader.next({ signal });
    while (found instanceof Gap) found = await reader.next({ signal });
    if (found === undefined) return [];
    const attempts = reader instanceof Tail ? [] : [String(found.attempts)];
    if (attempts.length > 0) deliveries.set(found.entryId, found);
    return [found.id ?? '', found.entryId, ...attempts, ...found.raw.flat()].map(field);
  } catch (error) {
    if (error === signal.reason) return [];
    throw error;
  }
}

/** Gives a verdict, and answers when the server has it. */
async function settle(name, entryId, verdict) {
  const { reader, deliveries } = readers.get(name);
  verdict(deliveries.get(entryId));
  await reader.flush();
  return [];
}

async function stop(name, deadline) {
  const { reader } = readers.get(name);
  if (reader instanceof Tail) reader.close();
  else await reader.stop(Number(deadline));
  return [];
}

module.exports = { closeAllOf, next, open, settle, stop };
