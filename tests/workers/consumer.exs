# A consumer in Elixir for the fault tests; see README.md.
{:ok, _} = Application.ensure_all_started(:echo_mq)

given = Map.new(System.argv(), fn argument -> argument |> String.split("=", parts: 2) |> List.to_tuple() end)
line = fn words -> File.write!(given["log"], [Enum.join(words, " "), "\n"], [:append, :raw]) end

handle = fn message ->
  line.(["begun", message.id, message.attempts])

  if message.payload["die"] do
    System.cmd("kill", ["-9", System.pid()])
    Process.sleep(:infinity)
  end

  if pause = message.payload["pause"], do: Process.sleep(String.to_integer(pause))
  line.(["handled", message.id, message.attempts])
  :ok
end

options =
  for name <- [:consumer, :count, :beat, :min_idle, :max_attempts], value = given[to_string(name)] do
    {name, value}
  end

start = with name when name in ["new", "head"] <- given["start"], do: String.to_atom(name)

main = self()
{:ok, _} = System.trap_signal(:sigterm, fn -> send(main, :stop) && :ok end)

{:ok, consumer} =
  EchoMQ.StreamConsumer.start_link(
    [
      connector: [url: given["url"], node_id: given["node_id"], timeout: given["timeout"]],
      queue: "codemojex",
      stream: given["stream"],
      group: given["group"],
      group_start: start,
      handler: handle,
      on_notice: &line.(["notice", &1.kind, &1.id || "-"])
    ] ++ options
  )

line.(["ready"])

receive do
  :stop ->
    {:ok, left} = EchoMQ.StreamConsumer.stop(consumer, 20_000)
    line.(["stopped", left])
end
