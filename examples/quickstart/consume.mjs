import { Client } from 'echomq'

const url = process.env.ECHOMQ_URL ?? 'redis://localhost:6379'
const client = await Client.connect(url)
const games = client.stream('codemojex', 'games')
const consumer = await games.consumer({ group: 'mailer', start: 'new' })

await games.append({ kind: 'won', player: 'ada' })
for await (const delivery of consumer) {
  console.log(delivery.id, delivery.get('player'))
  delivery.ack()
  break
}
await client.close()
