import { Client } from 'echomq'

const url = process.env.ECHOMQ_URL ?? 'redis://localhost:6379'
const client = await Client.connect(url)
const events = client.stream('codemojex', 'events')

const id = await events.append({ kind: 'guessed', player: 'ada' })
for await (const record of events.read({ from: id })) {
  console.log(record.id, record.get('player'))
}
await client.close()
