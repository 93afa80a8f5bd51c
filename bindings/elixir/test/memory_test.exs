defmodule EchoMQ.MemoryTest do
  use EchoMQ.Test.Case

  alias EchoMQ.{Cancel, Events, PullConsumer}
  alias EchoMQ.Stream, as: Bus

  @job "JOB000xY9Wvvcd"
  @megabyte 1_048_576

  test "what is closed or forgotten leaves nothing behind", %{plain: plain, queue: queue} do
    bus = connect!()

    use_all = fn times ->
      for _ <- 1..times do
        fn -> hear(bus, queue) end |> Task.async() |> Task.await(60_000)
        consume(bus, queue)
      end

      Wait.until(fn ->
        Plain.command(plain, ["PUBSUB", "NUMSUB", "emq:{#{queue}}:events"]) |> List.last() == 0
      end)
    end

    use_all.(100)
    before = size()
    use_all.(300)
    Wait.until(fn -> length(Process.list()) <= before.processes end)
    assert size().memory - before.memory < @megabyte
  end

  # The highest that a VM of its own has ever had in memory, before and after reading, in kilobytes.
  @reading """
  {:ok, _} = Application.ensure_all_started(:echo_mq)
  [url, queue] = System.argv()
  {:ok, bus} = EchoMQ.Connector.start_link(url: url)
  high = fn -> ~r/VmHWM:\\s+(\\d+) kB/ |> Regex.run(File.read!("/proc/self/status")) |> List.last() |> String.to_integer() end
  size = fn record -> byte_size(record.fields |> hd() |> elem(1)) end
  sum = fn records -> records |> Stream.map(size) |> Enum.sum() end
  before = high.()
  read = bus |> EchoMQ.Stream.stream(queue, "s") |> sum.()
  followed = bus |> EchoMQ.Stream.tail(queue, "s", :head) |> Stream.take(200) |> sum.()
  IO.puts("\#{read} \#{followed} \#{high.() - before}")
  """

  test "large records are read and followed in bounded memory", %{queue: queue} do
    bus = connect!()
    value = String.duplicate("x", 900_000)
    for _ <- 1..20, do: {:ok, _} = Bus.append_batch(bus, queue, "s", for(_ <- 1..10, do: [value: value]))
    ebin = Path.join(Mix.Project.app_path(), "ebin")
    {output, 0} = System.cmd("elixir", ["-pa", ebin, "-e", @reading, url(), queue], stderr_to_stdout: true)

    assert [read, followed, more] =
             output
             |> String.split("\n", trim: true)
             |> List.last()
             |> String.split()
             |> Enum.map(&String.to_integer/1)

    assert {read, followed} == {200 * 900_000, 200 * 900_000}
    # All of it is 180 MB.
    assert more < 90_000
    {:ok, _} = Bus.trim(bus, queue, "s", {:maxlen, 0, false})
  end

  # Half of those that listen end without saying so.
  defp hear(bus, queue) do
    :ok = Events.subscribe(bus, queue)
    {:ok, token} = Cancel.watch(bus, queue, @job)
    {:ok, 1} = Events.publish(bus, queue, "added", @job)
    assert_receive {:emq_event, "added", _}, 60_000
    :ok = Cancel.check(token)
    if :rand.uniform(2) == 1, do: Events.unsubscribe(bus, queue)
  end

  defp consume(bus, queue) do
    {:ok, _} = Bus.append(bus, queue, "s", k: "v")
    {:ok, consumer} = PullConsumer.start(bus, queue, "s", group: "g", group_start: :head)
    {:ok, [_] = messages} = PullConsumer.take(consumer, 1)
    :ok = PullConsumer.ack(messages)
    {:ok, 0} = PullConsumer.stop(consumer, 60_000)
    {:ok, _} = Bus.trim(bus, queue, "s", {:maxlen, 0, false})
  end

  defp size do
    Enum.each(Process.list(), &:erlang.garbage_collect/1)
    %{processes: length(Process.list()), memory: :erlang.memory(:total)}
  end
end
