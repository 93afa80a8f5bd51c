const { CancelToken, Cancelled } = require('./lib/cancel');
const { Client } = require('./lib/client');
const { Consumer } = require('./lib/consumer');
const { Delivery } = require('./lib/delivery');
const { EchoMQError, classes, className } = require('./lib/errors');
const { Event, EventGap } = require('./lib/event');
const { Events } = require('./lib/events');
const { BrandedId, EntryId, EventId } = require('./lib/ids');
const { Keyspace } = require('./lib/keyspace');
const { Listener } = require('./lib/listener');
const native = require('./lib/native');
const { Notice } = require('./lib/notice');
const { Reader } = require('./lib/reader');
const { Record } = require('./lib/record');
const { Reduction } = require('./lib/reduction');
const { Stream } = require('./lib/stream');
const { Subscriber } = require('./lib/subscriber');
const { Gap, Tail } = require('./lib/tail');
const { version } = require('./package.json');

const errors = Object.fromEntries(Array.from(classes, ([code, made]) => [className(code), made]));

module.exports = {
  BrandedId,
  CancelToken,
  Cancelled,
  Client,
  Consumer,
  Delivery,
  EchoMQError,
  EntryId,
  Event,
  EventGap,
  EventId,
  Events,
  Gap,
  Keyspace,
  Listener,
  Notice,
  Reader,
  Record,
  Reduction,
  Stream,
  Subscriber,
  Tail,
  coreVersion: native.version(),
  version,
  ...errors,
};
