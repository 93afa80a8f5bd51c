/** The tails, consumers, listeners and tokens that are open, by the names that the judge gave them. */

const { once } = require('node:events');
const { EventGap, Gap, Listener, Tail } = require('../../../bindings/node');
const { field } = require('./fields');

/** For each name what was opened, its client, and what it handed out, by entry id. */
const readers = new Map();

async function close(name) {
  const reader = readers.get(name)?.reader;
  readers.delete(name);
  if (reader instanceof Tail || reader instanceof Listener) reader.close();
  else await reader?.stop?.(0);
}

async function closeAllOf(client) {
  for (const [name, held] of readers) if (held.client === client) await close(name);
}

async function open(name, client, start) {
  await close(name);
  readers.set(name, { reader: await start(), client, deliveries: new Map() });
  return [];
}

/** Opens a listener with one subscriber. */
async function listen(name, client, start) {
  await open(name, client, start);
  const held = readers.get(name);
  held.subscriber = held.reader.subscribe();
  return [];
}

/** What comes within that time; nothing where none came. */
async function within(wait, what) {
  const signal = AbortSignal.timeout(Number(wait));
  try {
    return await what(signal);
  } catch (error) {
    if (signal.aborted && [error, error.cause].includes(signal.reason)) return undefined;
    throw error;
  }
}

/** The signal that gives a wait up that many microseconds after it began, and what keeps it from doing so. */
function abortAfter(microseconds) {
  const controller = new AbortController();
  const until = performance.now() + Number(microseconds) / 1000;
  let over = false;
  const look = () => {
    if (over) return;
    if (performance.now() >= until) controller.abort();
    else setImmediate(look);
  };
  look();
  return [
    controller.signal,
    () => {
      over = true;
    },
  ];
}

/** Waits as `next` or `event` does, and gives the wait up after so many microseconds. */
async function nextCancelled(name, after) {
  const held = readers.get(name);
  const take = held.subscriber === undefined ? takeEntry : takeEvent;
  const [signal, forget] = abortAfter(after);
  try {
    return await take(held, signal);
  } catch (error) {
    if (signal.aborted && error === signal.reason) return ['cancelled'];
    throw error;
  } finally {
    forget();
  }
}

/** The next entry. */
async function next(name, wait) {
  return (await within(wait, (signal) => takeEntry(readers.get(name), signal))) ?? [];
}

async function takeEntry({ reader, deliveries }, signal) {
  let found = await reader.next({ signal });
  while (found instanceof Gap) found = await reader.next({ signal });
  if (found === undefined) return [];
  const attempts = reader instanceof Tail ? [] : [String(found.attempts)];
  if (attempts.length > 0) deliveries.set(found.entryId, found);
  return [found.id ?? '', found.entryId, ...attempts, ...found.raw.flat()].map(field);
}

/** The next event or gap. */
async function event(name, wait) {
  return (await within(wait, (signal) => takeEvent(readers.get(name), signal))) ?? [];
}

async function takeEvent({ subscriber }, signal) {
  const heard = await subscriber.next({ signal });
  if (heard === undefined) return [];
  return heard instanceof EventGap ? ['gap'] : [field(heard.name), field(heard.payload)];
}

/** The reason of a token. */
async function cancelled(name, wait) {
  const { reader: token } = readers.get(name);
  if (!token.cancelled) await within(wait, (signal) => once(token.signal, 'abort', { signal }));
  return token.cancelled ? [field(token.reason)] : [];
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

module.exports = { cancelled, closeAllOf, event, listen, next, nextCancelled, open, settle, stop };
