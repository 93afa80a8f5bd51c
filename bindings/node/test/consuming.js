/** What tests of consumers share. */

/** How many entries of a group are pending, as the server says. */
async function pendingOf(plain, stream, group) {
  return (await plain.text('XPENDING', stream.key, group))[0];
}

/** That many entries of a consumer. */
async function take(consumer, count) {
  const deliveries = [];
  while (deliveries.length < count) deliveries.push(await consumer.next());
  return deliveries;
}

module.exports = { pendingOf, take };
