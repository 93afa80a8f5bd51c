const { Client } = require('./lib/client');
const { Consumer } = require('./lib/consumer');
const { Delivery } = require('./lib/delivery');
const { EchoMQError, classes, className } = require('./lib/errors');
const { BrandedId, EntryId, EventId } = require('./lib/ids');
const { Keyspace } = require('./lib/keyspace');
const native = require('./lib/native');
const { Notice } = require('./lib/notice');
const { Reader } = require('./lib/reader');
const { Record } = require('./lib/record');
const { Stream } = require('./lib/stream');
const { Gap, Tail } = require('./lib/tail');
const { version } = require('./package.json');

const errors = Object.fromEntries(Array.from(classes, ([code, made]) => [className(code), made]));

module.exports = {
  BrandedId,
  Client,
  Consumer,
  Delivery,
  EchoMQError,
  EntryId,
  EventId,
  Gap,
  Keyspace,
  Notice,
  Reader,
  Record,
  Stream,
  Tail,
  coreVersion: native.version(),
  version,
  ...errors,
};
