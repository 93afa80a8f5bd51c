/**
 * Measures echomq beside its peers, in turns within each round, and prints what it finds as tables.
 *
 *     node bench/bench.js [--short] [--out FILE]
 */

const { writeFileSync } = require('node:fs');
const { parseArgs } = require('node:util');
const { Server } = require('../test/server');
const { growth, latencies, rates: drained } = require('./consume');
const { rates: heard } = require('./events');
const { connectAll, loads, repeat } = require('./loads');

const { values: options } = parseArgs({ options: { short: { type: 'boolean' }, out: { type: 'string' } } });

// Many short rounds rather than few long ones: what else the machine does then meets everybody alike.
const ROUNDS = options.short ? 2 : 50;

async function rate(call, load) {
  await repeat(call, Math.max(load.atOnce, load.times / 10), load.atOnce);
  const begin = process.hrtime.bigint();
  await repeat(call, load.times, load.atOnce);
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  return (load.times * load.records) / seconds;
}

/** Rates by load and peer. */
async function measure(peers, reset) {
  const rates = new Map(loads.map((load) => [load, new Map()]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [load, ofPeers] of rates) {
      for (const [name, calls] of Object.entries(peers)) {
        if (calls[load.of] === undefined) continue;
        if (!ofPeers.has(name)) ofPeers.set(name, []);
        ofPeers.get(name).push(await rate(calls[load.of], load));
      }
      await reset();
    }
  }
  return rates;
}

function median(sorted) {
  const half = sorted.length / 2;
  return (sorted[Math.floor(half)] + sorted[Math.ceil(half) - 1]) / 2;
}

function table(rates) {
  const rows = [
    ['load', 'peer', 'min/s', 'median/s', 'max/s', 'echomq is', 'aim'],
    ['---', '---', '---:', '---:', '---:', '---:', '---'],
  ];
  for (const [load, ofPeers] of rates) {
    const medians = new Map();
    for (const [name, found] of ofPeers) medians.set(name, median(found.sort((a, b) => a - b)));
    for (const [name, found] of ofPeers) {
      const ratio = medians.get('echomq') / medians.get(name);
      const aim = load.aims.find(([peer]) => peer === name)?.[1];
      rows.push([
        load.name,
        name,
        ...[found[0], medians.get(name), found.at(-1)].map((figure) => figure.toFixed(0)),
        name === 'echomq' ? '' : `${ratio.toFixed(2)} ×`,
        aim === undefined ? '' : `≥ ${aim} ×: ${ratio >= aim ? 'met' : 'missed'}`,
      ]);
    }
  }
  return lines(rows);
}

function lines(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(' | ')} |`).join('\n');
}

/** The table of what drains how fast. The best hand-written loop is what echomq is measured by. */
function drainTable(found) {
  const medians = new Map(Array.from(found, ([name, rates]) => [name, median(rates.sort((a, b) => a - b))]));
  const best = Math.max(medians.get('ioredis'), medians.get('node-redis'));
  const rows = Array.from(found, ([name, rates]) => {
    const ratio = medians.get('echomq') / medians.get(name);
    const aimed =
      name === 'echomq' ? `≥ 1.5 × the best loop: ${medians.get(name) >= 1.5 * best ? 'met' : 'missed'}` : '';
    const figures = [rates[0], medians.get(name), rates.at(-1)].map((figure) => figure.toFixed(0));
    return [name, ...figures, name === 'echomq' ? '' : `${ratio.toFixed(2)} ×`, aimed];
  });
  return lines([
    ['peer', 'min/s', 'median/s', 'max/s', 'echomq is', 'aim'],
    ['---', '---:', '---:', '---:', '---:', '---'],
    ...rows,
  ]);
}

function latencyTable(found) {
  const rows = Array.from(found, ([name, [half, most]]) => [name, half.toFixed(2), most.toFixed(2)]);
  return lines([['peer', 'p50 ms', 'p99 ms'], ['---', '---:', '---:'], ...rows]);
}

/** What consuming costs, as text. */
async function consuming(port) {
  const drains = drainTable(await drained(port, options.short ? 2 : 15, options.short ? 5_000 : 30_000));
  const soon = latencyTable(await latencies(port, options.short ? 1 : 10));
  const text = `Entries drained a second, no-op handler, 100 at a time:\n\n${drains}\n\nFrom append to handler at 1 000 a second:\n\n${soon}\n`;
  if (options.short) return text;
  const grown = await growth(port, 1_000_000);
  return `${text}\nAfter 1 000 000 deliveries the process had grown by ${(grown / (1 << 20)).toFixed(1)} MiB.\n`;
}

/** How fast events are published and heard, as text. */
async function hearing(port) {
  const found = table(await heard(port, options.short ? 2 : 15, options.short ? 5_000 : 30_000));
  return `Events a second, one listener:\n\n${found}\n`;
}

async function main() {
  const server = await Server.start();
  const { peers, close, reset } = await connectAll(server.port);
  const found = table(await measure(peers, reset));
  await close();
  const consumed = await consuming(server.port);
  const events = await hearing(server.port);
  await server.kill();
  const text = `Node ${process.version}: records appended a second, ${ROUNDS} rounds in turns. Only ratios within one run mean anything.\n\n${found}\n\n${consumed}\n${events}`;
  console.log(text);
  if (options.out !== undefined) writeFileSync(options.out, text);
}

main();
