url = System.get_env("ECHOMQ_URL", "redis://localhost:6379")
{:ok, bus} = EchoMQ.Connector.start_link(url: url)
:ok = EchoMQ.Events.subscribe(bus, "codemojex")

# The stream remembers the record; whoever listens hears at once where it is.
{:ok, _announced} =
  EchoMQ.Events.append_and_publish(
    bus,
    "codemojex",
    "games",
    [kind: "won", player: "ada"],
    :completed,
    "JOB000xY9Wvvcd"
  )

# After a gap, `{:emq_gap, gap}`, the stream is read from the last id that is known.
receive do
  {:emq_event, "completed", %{"id" => id}} ->
    {:ok, records} = EchoMQ.Stream.read(bus, "codemojex", "games", id, "+")
    for {id, %{"player" => player}} <- records, do: IO.puts("#{id} #{player}")
end
