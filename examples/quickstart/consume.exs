url = System.get_env("ECHOMQ_URL", "redis://localhost:6379")
{:ok, bus} = EchoMQ.Connector.start_link(url: url)
caller = self()

{:ok, consumer} =
  EchoMQ.StreamConsumer.start_link(
    conn: bus,
    queue: "codemojex",
    stream: "games",
    group: "mailer",
    group_start: :new,
    handler: fn message ->
      send(caller, {:won, message.id, message.payload["player"]})
      :ok
    end
  )

{:ok, _id} = EchoMQ.Stream.append(bus, "codemojex", "games", kind: "won", player: "ada")

receive do
  {:won, id, player} -> IO.puts("#{id} #{player}")
end

EchoMQ.StreamConsumer.stop(consumer, 5_000)
