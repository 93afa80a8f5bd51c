url = System.get_env("ECHOMQ_URL", "redis://localhost:6379")
{:ok, bus} = EchoMQ.Connector.start_link(url: url)

{:ok, id} = EchoMQ.Stream.append(bus, "codemojex", "events", kind: "guessed", player: "ada")
{:ok, records} = EchoMQ.Stream.read(bus, "codemojex", "events", id, "+")

for {id, %{"player" => player}} <- records, do: IO.puts("#{id} #{player}")
