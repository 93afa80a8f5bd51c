defmodule EchoMQ.BroadwayProducerTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.{BroadwayProducer, Group}
  alias EchoMQ.Stream, as: Bus
  alias EchoMQ.Test.{Server, Stage}

  import ExUnit.CaptureLog, only: [with_log: 1]

  setup %{queue: queue} do
    bus = connect!()
    records = for n <- 1..10, do: [n: "#{n}"]
    {:ok, ids} = Bus.append_batch(bus, queue, "s", records, atomic: true)
    options = [conn: bus, queue: queue, stream: "s", group: "g", group_start: :head]
    %{bus: bus, ids: ids, options: options}
  end

  test "gives as many messages as are demanded, in order", %{ids: ids, options: options} do
    {:ok, stage} = Stage.start_link(BroadwayProducer, options)
    Stage.demand(stage, 3)
    first = events(3)
    assert for(event <- first, do: event.metadata.id) == Enum.take(ids, 3)
    assert for(event <- first, do: event.data) == for(n <- 1..3, do: %{"n" => "#{n}"})

    assert %{attempts: 1, group: "g", fields: [{"n", "1"}], entry_id: entry_id} = hd(first).metadata
    assert EchoMQ.Stream.Id.to_entry(hd(ids)) == {:ok, entry_id}
    assert hd(first).status == :ok

    Stage.demand(stage, 2)
    Stage.demand(stage, 100)
    assert for(event <- events(7), do: event.metadata.id) == Enum.drop(ids, 3)
  end

  test "acknowledges what succeeds and fails what does not", %{bus: bus, queue: queue, options: options} do
    {:ok, stage} = Stage.start_link(BroadwayProducer, options ++ [max_attempts: 1])
    Stage.demand(stage, 10)
    [one, two, three | rest] = events(10)

    crash =
      try do
        raise "broken"
      rescue
        error -> {:error, error, __STACKTRACE__}
      end

    {BroadwayProducer, hand, _} = one.acknowledger
    failed = [%{two | status: {:failed, "no address"}}, %{three | status: crash}]
    assert BroadwayProducer.ack(hand, [one | rest], failed) == :ok
    Wait.until(fn -> match?({:ok, %{pending: 0}}, Group.get(bus, queue, "s", "g")) end)

    assert for(letter <- Bus.dead_letters(bus, queue, "s"), do: Map.new(letter.fields)["error"]) == [
             "no address",
             "** (RuntimeError) broken"
           ]
  end

  test "when it drains, what was not handed out goes to another consumer", %{ids: ids, options: options} do
    {:ok, stage} = Stage.start_link(BroadwayProducer, options)
    Stage.demand(stage, 4)
    first = events(4)
    :ok = Stage.drain(stage)
    {BroadwayProducer, hand, _} = hd(first).acknowledger
    BroadwayProducer.ack(hand, first, [])
    GenServer.stop(stage)

    {:ok, other} = Stage.start_link(BroadwayProducer, options)
    Stage.demand(other, 100)
    assert for(event <- events(6), do: event.metadata.id) == Enum.drop(ids, 4)
  end

  test "does not start where its consumer does not, and ends where it ends", %{bus: bus, options: options} do
    Process.flag(:trap_exit, true)
    assert {:error, %Error{code: :invalid_option}} = Stage.start_link(BroadwayProducer, options ++ [beet: 1])
    {:ok, stage} = Stage.start_link(BroadwayProducer, options)
    Stage.demand(stage, 100)
    events(10)
    Connector.close(bus, 0)
    assert_receive {:EXIT, ^stage, %Error{code: :closed}}, 60_000
  end

  test "starts without its server, says why once, and goes on when it is there", %{
    queue: queue,
    options: options
  } do
    server = Server.kill(Server.start())
    on_exit(fn -> Server.remove(server) end)
    url = Server.url(server)
    bus = start_supervised!({Connector, url: url, connect: :lazy, timeout: 100, reconnect_max: 50}, id: :late)
    options = Keyword.replace!(options, :conn, bus)

    {stage, log} =
      with_log(fn ->
        {:ok, stage} = Stage.start_link(BroadwayProducer, options)
        Stage.demand(stage, 1)
        # The call that waits for the server ends by its time, several times over.
        for _ <- 1..5, do: assert({:error, _} = Bus.append(bus, queue, "s", n: "0"))
        Server.start_again(server)
        Wait.until(fn -> match?({:ok, _}, Bus.append(bus, queue, "s", n: "1")) end)
        assert [%{data: %{"n" => "1"}}] = events(1)
        stage
      end)

    assert length(String.split(log, "EchoMQ producer #{inspect(stage)}")) == 2, log
    GenServer.stop(stage)
  end

  # As many events as that, in the order in which they came.
  defp events(0), do: []

  defp events(count) do
    receive do
      {:events, events} -> events ++ events(count - length(events))
    after
      60_000 -> flunk("#{count} more events did not come")
    end
  end
end
