const { Client } = require('./lib/client');
const { EchoMQError, classes, className } = require('./lib/errors');
const { BrandedId, EntryId, EventId } = require('./lib/ids');
const { Keyspace } = require('./lib/keyspace');
const native = require('./lib/native');
const { Reader } = require('./lib/reader');
const { Record } = require('./lib/record');
const { Stream } = require('./lib/stream');
const { version } = require('./package.json');

const errors = Object.fromEntries(Array.from(classes, ([code, made]) => [className(code), made]));

module.exports = {
  BrandedId,
  Client,
  EchoMQError,
  EntryId,
  EventId,
  Keyspace,
  Reader,
  Record,
  Stream,
  coreVersion: native.version(),
  version,
  ...errors,
};
