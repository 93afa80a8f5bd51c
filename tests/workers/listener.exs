# A listener in Elixir for the fault tests; see README.md.
{:ok, _} = Application.ensure_all_started(:echo_mq)

defmodule Listening do
  def run(line) do
    receive do
      {:emq_event, name, payload} -> line.(["heard", name, payload["n"] || "-"])
      {:emq_gap, gap} -> line.(["gap", gap.missed, gap.reconnected])
      {:cancelled, reason} -> line.(["cancelled", reason])
      :stop -> System.halt(0)
    end

    run(line)
  end
end

given = Map.new(System.argv(), fn argument -> argument |> String.split("=", parts: 2) |> List.to_tuple() end)
line = fn words -> File.write!(given["log"], [Enum.join(words, " "), "\n"], [:append, :raw]) end

main = self()
{:ok, _} = System.trap_signal(:sigterm, fn -> send(main, :stop) && :ok end)

{:ok, bus} = EchoMQ.Connector.start_link(url: given["url"])
:ok = EchoMQ.Events.subscribe(bus, "codemojex")
{:ok, token} = EchoMQ.Cancel.watch(bus, "codemojex", given["job"])

spawn_link(fn ->
  {:cancelled, reason} = EchoMQ.Cancel.await(token, :infinity)
  send(main, {:cancelled, reason})
end)

line.(["ready"])
Listening.run(line)
