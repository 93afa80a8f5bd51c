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
