import { Client, EventGap } from 'echomq'

const url = process.env.ECHOMQ_URL ?? 'redis://localhost:6379'
const client = await Client.connect(url)
const events = client.events('codemojex')
const games = client.stream('codemojex', 'games')
const listener = await events.listen()
const subscriber = listener.subscribe()

// The stream remembers the record; whoever listens hears at once where it is.
const won = { kind: 'won', player: 'ada' }
await events.appendAndPublish('games', won, 'completed', 'JOB000xY9Wvvcd')

for await (const heard of subscriber) {
  // After a gap, too, the stream is read from the last id that is known.
  if (heard instanceof EventGap) continue
  for await (const record of games.read({ from: heard.get('id') })) {
    console.log(record.id, record.get('player'))
  }
  break
}
await client.close()
