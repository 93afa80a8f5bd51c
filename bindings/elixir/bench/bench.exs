# Measures the Elixir face beside the core itself, in turns within each round, and prints what it finds as a table.
#
#   mix run --no-start bench/bench.exs [--short] [--out FILE] CORE_ROUNDS
#
# CORE_ROUNDS is the program of native/examples/core_rounds.rs.

for support <- ~w(wait plain server), do: Code.require_file("../test/support/#{support}.ex", __DIR__)

defmodule EchoMQ.Bench do
  alias EchoMQ.Test.Server

  # Load, its name, records in a round, and the share of the core's rate that is aimed at.
  @loads [
    {"single", "append, 1 in flight", 4_000, nil},
    {"flight", "append, 64 in flight", 64_000, 0.3},
    {"batch", "batch of 1000", 100_000, 0.7}
  ]

  @in_flight 64
  @batch 1_000
  @fields %{"kind" => "order.placed", "player" => "PLR0NgWEfAEJfs", "note" => String.duplicate("x", 130)}

  def main(arguments) do
    {options, [core_rounds]} = OptionParser.parse!(arguments, strict: [short: :boolean, out: :string])
    {:ok, _} = Application.ensure_all_started(:echo_mq)
    server = Server.start()
    {:ok, bus} = EchoMQ.Connector.start_link(url: Server.url(server), node_id: 1)
    core = Port.open({:spawn_executable, core_rounds}, [:binary, line: 100, args: [Server.url(server)]])
    {rounds, part} = if options[:short], do: {2, 10}, else: {9, 1}

    # The first round warms up. Whoever comes first in a round comes second in the next.
    measured =
      for round <- 0..rounds, {load, _, records, _} <- @loads, who <- turns(round) do
        {:ok, _} = EchoMQ.Connector.command(bus, ["FLUSHALL"])
        records = max(div(records, part), @batch)
        {round, {load, who}, records / seconds(who, load, records, bus, core)}
      end

    rates = for {round, key, rate} <- measured, round > 0, do: {key, rate}
    report(Enum.group_by(rates, &elem(&1, 0), &elem(&1, 1)), rounds, options[:out])
    EchoMQ.Connector.close(bus, :infinity)
    Server.remove(server)
  end

  defp turns(round), do: if(rem(round, 2) == 0, do: [:elixir, :core], else: [:core, :elixir])

  defp seconds(:core, load, records, _bus, core) do
    Port.command(core, "#{load} #{records}\n")

    receive do
      {^core, {:data, {:eol, seconds}}} -> String.to_float(seconds)
    end
  end

  defp seconds(:elixir, load, records, bus, _core) do
    {micros, :ok} = :timer.tc(fn -> run(load, records, bus) end)
    micros / 1_000_000
  end

  defp run("single", records, bus) do
    repeat(records, fn -> {:ok, _} = EchoMQ.Stream.append(bus, "bench", "elixir", @fields) end)
  end

  defp run("flight", records, bus) do
    1..@in_flight
    |> Enum.map(fn _ -> Task.async(fn -> run("single", div(records, @in_flight), bus) end) end)
    |> Task.await_many(:infinity)

    :ok
  end

  defp run("batch", records, bus) do
    repeat(div(records, @batch), fn ->
      {:ok, results} = EchoMQ.Stream.append_batch(bus, "bench", "elixir", List.duplicate(@fields, @batch))
      true = Enum.all?(results, &match?({:ok, _}, &1))
    end)
  end

  defp repeat(0, _function), do: :ok

  defp repeat(times, function) do
    function.()
    repeat(times - 1, function)
  end

  defp report(rates, rounds, file) do
    rows =
      for {load, name, _, aim} <- @loads, who <- [:elixir, :core] do
        found = Enum.sort(rates[{load, who}])

        figures =
          for figure <- [hd(found), median(found), List.last(found)], do: Integer.to_string(round(figure))

        [name, who(who)] ++ figures ++ verdict(who, median(rates[{load, :elixir}]) / median(found), aim)
      end

    head = ["load", "peer", "min/s", "median/s", "max/s", "echomq is", "aim"]
    table = table([head, ["---", "---", "---:", "---:", "---:", "---:", "---"] | rows])

    text =
      "Elixir #{System.version()} on OTP #{System.otp_release()}: records appended a second, #{rounds} rounds in " <>
        "turns. Only ratios within one run mean anything.\n\n#{table}\n"

    IO.write(text)
    if file, do: File.write!(file, text)
  end

  defp who(:elixir), do: "echomq"
  defp who(:core), do: "the core, in Rust"

  defp verdict(:elixir, _ratio, _aim), do: ["", ""]
  defp verdict(:core, ratio, nil), do: [times(ratio), ""]

  defp verdict(:core, ratio, aim),
    do: [times(ratio), "≥ #{aim} ×: #{if ratio >= aim, do: "met", else: "missed"}"]

  defp times(ratio), do: :erlang.float_to_binary(ratio, decimals: 2) <> " ×"

  defp table(rows) do
    widths = for column <- Enum.zip_with(rows, & &1), do: column |> Enum.map(&String.length/1) |> Enum.max()
    cells = fn row -> Enum.zip_with(row, widths, &String.pad_trailing/2) end
    Enum.map_join(rows, "\n", fn row -> "| #{Enum.join(cells.(row), " | ")} |" end)
  end

  defp median(rates), do: rates |> Enum.sort() |> Enum.at(div(length(rates), 2))
end

EchoMQ.Bench.main(System.argv())
