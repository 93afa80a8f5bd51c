/**
 * Runs a program with the URL of a Valkey started for it as its last argument, and ends as it does.
 *
 *     node test/with-server.js PROGRAM [ARGUMENT…]
 */

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { Server } = require('./server');

async function main([program, ...given]) {
  const server = await Server.start();
  const [code] = await once(spawn(program, [...given, server.url], { stdio: 'inherit' }), 'exit');
  await server.kill();
  process.exitCode = code ?? 1;
}

main(process.argv.slice(2));
