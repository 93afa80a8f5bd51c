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
    {"batch", "batch of 1000", 100_000, 0.7},
    {"consume", "consume, count 100", 100_000, 0.5},
    {"publish", "publish, 64 in flight", 64_000, nil},
    {"deliver", "hear, 1 listener", 100_000, nil}
  ]

  @in_flight 64
  @batch 1_000
  @job "JOB000xY9Wvvcd"
  # The server publishes them itself, so that nobody else takes part.
  @flood """
  for n = 1, tonumber(ARGV[1]) do
    redis.call('PUBLISH', KEYS[1], '{"event":"completed","job":"JOB000xY9Wvvcd","attempts":"1"}')
  end
  """
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

    text =
      report(Enum.group_by(rates, &elem(&1, 0), &elem(&1, 1)), rounds) <>
        latencies(div(5_000, part), bus, core) <> if(options[:short], do: "", else: memory(bus))

    IO.write(text)
    if options[:out], do: File.write!(options[:out], text)
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

  defp seconds(:elixir, "consume", records, bus, _core) do
    run("batch", records, bus)
    {micros, :ok} = :timer.tc(fn -> consume(records, bus) end)
    micros / 1_000_000
  end

  defp seconds(:elixir, "deliver", events, bus, _core) do
    {:ok, listener} = EchoMQ.Events.start_link(conn: bus, queue: "bench")
    :ok = EchoMQ.Events.subscribe(listener, buffer: events)
    {micros, :ok} = :timer.tc(fn -> hear(events, bus) end)
    :ok = EchoMQ.Events.unsubscribe(listener)
    GenServer.stop(listener)
    micros / 1_000_000
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

  defp run("publish", events, bus) do
    1..@in_flight
    |> Enum.map(fn _ ->
      Task.async(fn ->
        repeat(div(events, @in_flight), fn ->
          {:ok, 0} = EchoMQ.Events.publish(bus, "bench", "completed", @job, attempts: "1")
        end)
      end)
    end)
    |> Task.await_many(:infinity)

    :ok
  end

  defp hear(events, bus) do
    flood =
      Task.async(fn -> EchoMQ.Connector.command(bus, ["EVAL", @flood, 1, "emq:{bench}:events", events]) end)

    repeat(events, fn ->
      receive do
        {:emq_event, "completed", %{"job" => @job}} -> :ok
      end
    end)

    {:ok, nil} = Task.await(flood, :infinity)
    :ok
  end

  # A handler that does nothing but count. Its process is the only one that counts.
  defp consume(records, bus) do
    {test, seen} = {self(), :counters.new(1, [])}

    handler = fn _message ->
      :counters.add(seen, 1, 1)
      if :counters.get(seen, 1) == records, do: send(test, :all)
      :ok
    end

    consumer = consumer(bus, :head, handler)

    receive do
      :all -> {:ok, 0} = EchoMQ.StreamConsumer.stop(consumer, 60_000)
    end

    :ok
  end

  defp consumer(bus, start, handler) do
    {:ok, consumer} =
      EchoMQ.StreamConsumer.start_link(
        conn: bus,
        queue: "bench",
        stream: "elixir",
        group: "bench",
        group_start: start,
        count: 100,
        handler: handler
      )

    consumer
  end

  defp latencies(records, bus, core) do
    rows =
      for who <- [:elixir, :core] do
        {:ok, _} = EchoMQ.Connector.command(bus, ["FLUSHALL"])
        [who(who) | for(late <- latency(who, records, bus, core), do: "#{round(late * 1_000_000)} µs")]
      end

    table = table([["append to handler", "half within", "99 of 100 within"], ["---", "---:", "---:"] | rows])
    "\nAt 1 000 records a second, #{records} of them:\n\n#{table}\n"
  end

  defp latency(:core, records, _bus, core) do
    Port.command(core, "latency #{records}\n")

    receive do
      {^core, {:data, {:eol, found}}} -> found |> String.split() |> Enum.map(&String.to_float/1)
    end
  end

  defp latency(:elixir, records, bus, _core) do
    test = self()

    handler = fn message ->
      send(test, {:late, micros() - String.to_integer(message.payload["at"])})
      :ok
    end

    consumer = consumer(bus, :new, handler)
    begin = micros()

    for n <- 1..records do
      wait(begin + n * 1_000)
      at = Integer.to_string(micros())
      {:ok, _} = EchoMQ.Stream.append(bus, "bench", "elixir", Map.put(@fields, "at", at))
    end

    late =
      for _ <- 1..records do
        receive do
          {:late, micros} -> micros
        end
      end

    {:ok, 0} = EchoMQ.StreamConsumer.stop(consumer, 60_000)
    late = Enum.sort(late)
    for place <- [div(records, 2), div(records * 99, 100)], do: Enum.at(late, place) / 1_000_000
  end

  defp micros, do: System.monotonic_time(:microsecond)

  # The VM's own timer is of whole milliseconds.
  defp wait(until), do: if(micros() < until, do: Process.sleep(1) && wait(until))

  # A million deliveries, and what the VM and its native part hold after a tenth and after all of them.
  defp memory(bus) do
    {:ok, _} = EchoMQ.Connector.command(bus, ["FLUSHALL"])
    {test, seen} = {self(), :counters.new(1, [])}

    handler = fn _message ->
      :counters.add(seen, 1, 1)
      if rem(:counters.get(seen, 1), 100_000) == 0, do: send(test, :filled)
      :ok
    end

    consumer = consumer(bus, :head, handler)

    resident =
      for _ <- 1..10 do
        run("batch", 100_000, bus)

        receive do
          :filled -> :ok
        end

        {:ok, _} = EchoMQ.Stream.trim(bus, "bench", "elixir", {:maxlen, 0, false})
        resident()
      end

    {:ok, 0} = EchoMQ.StreamConsumer.stop(consumer, 60_000)
    [first, last] = for kilobytes <- [hd(resident), List.last(resident)], do: "#{div(kilobytes, 1024)} MB"
    "\nResident after 100 000 deliveries #{first}, after 1 000 000 #{last}.\n"
  end

  defp resident do
    [_, kilobytes] = Regex.run(~r/VmRSS:\s+(\d+) kB/, File.read!("/proc/self/status"))
    String.to_integer(kilobytes)
  end

  defp repeat(0, _function), do: :ok

  defp repeat(times, function) do
    function.()
    repeat(times - 1, function)
  end

  defp report(rates, rounds) do
    rows =
      for {load, name, _, aim} <- @loads, who <- [:elixir, :core] do
        found = Enum.sort(rates[{load, who}])

        figures =
          for figure <- [hd(found), median(found), List.last(found)], do: Integer.to_string(round(figure))

        [name, who(who)] ++ figures ++ verdict(who, median(rates[{load, :elixir}]) / median(found), aim)
      end

    head = ["load", "peer", "min/s", "median/s", "max/s", "echomq is", "aim"]
    table = table([head, ["---", "---", "---:", "---:", "---:", "---:", "---"] | rows])

    "Elixir #{System.version()} on OTP #{System.otp_release()}: records or events a second, #{rounds} rounds in " <>
      "turns. Only ratios within one run mean anything.\n\n#{table}\n"
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
