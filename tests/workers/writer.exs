# A writer in Elixir for the fault tests; see README.md.
{:ok, _} = Application.ensure_all_started(:echo_mq)

defmodule Writer do
  alias EchoMQ.Stream

  # Appends until there are enough records or the time is over: the ids, the last one first.
  def write(writer, done, ids) do
    if done < writer.count and System.monotonic_time(:millisecond) < writer.until do
      id = one(writer, record(writer, done))
      batch = batch(writer, done + 1, min(writer.batch, writer.count - done - 1))
      write(writer, done + 1 + length(batch), Enum.reverse(batch, [id | ids]))
    else
      ids
    end
  end

  defp one(writer, record) do
    append = if writer.sequenced, do: &Stream.append_sequenced/4, else: &Stream.append/4
    {:ok, id} = append.(writer.bus, "codemojex", writer.stream, record)
    id
  end

  defp batch(_writer, _from, 0), do: []

  defp batch(writer, from, size) do
    records = for n <- from..(from + size - 1), do: record(writer, n)
    options = if writer.sequenced, do: [sequenced: true], else: [atomic: true]
    {:ok, ids} = Stream.append_batch(writer.bus, "codemojex", writer.stream, records, options)
    ids
  end

  defp record(writer, n), do: [writer: writer.name, n: Integer.to_string(n)]

  def wait_for(gate) do
    unless File.exists?(gate) do
      Process.sleep(1)
      wait_for(gate)
    end
  end
end

given = Map.new(System.argv(), fn argument -> argument |> String.split("=", parts: 2) |> List.to_tuple() end)
number = fn name -> given[name] && String.to_integer(given[name]) end

options = for name <- [:url, :node_id, :clock, :timeout], value = given[to_string(name)], do: {name, value}
{:ok, bus} = EchoMQ.Connector.start_link(options)
File.write!(given["log"], "ready\n")
Writer.wait_for(given["gate"])
unbounded = 1_000_000_000

writer = %{
  bus: bus,
  name: given["name"],
  stream: given["stream"],
  sequenced: given["how"] == "sequenced",
  batch: number.("batch"),
  count: number.("count") || unbounded,
  until: System.monotonic_time(:millisecond) + (number.("time") || unbounded)
}

ids = writer |> Writer.write(0, []) |> Enum.reverse()
File.write!(given["log"], Enum.map(ids, &"appended #{&1}\n"), [:append])
EchoMQ.Connector.close(bus, 5_000)
