defmodule EchoMQ.StreamConsumerStopTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Consumers
  import ExUnit.CaptureLog

  alias EchoMQ.{Group, StreamConsumer}
  alias EchoMQ.Stream, as: Bus

  setup do
    %{bus: connect!()}
  end

  # A handler that says which message it has begun, and waits.
  defp waiting(test) do
    fn message ->
      send(test, {:begun, self(), message.payload["n"]})

      receive do
        :go -> :ok
      end
    end
  end

  test "a stop waits for the message in hand and gives the others back at once", %{
    bus: bus,
    plain: plain,
    queue: queue
  } do
    ids = append!(bus, queue, 50)
    # A beat and min_idle that no test waits for.
    consumer = start!(bus, queue, handler: waiting(self()), beat: 60_000, min_idle: 3_600_000)
    assert_receive {:begun, worker, "1"}, 60_000
    # It has fetched all of them ahead of its handler.
    Wait.until(fn -> length(pending(plain, queue)) == 50 end)
    stopping = Task.async(fn -> StreamConsumer.stop(consumer, :infinity) end)
    Wait.until(fn -> StreamConsumer.info(consumer).state == :stopping end)
    send(worker, :go)
    assert Task.await(stopping, :infinity) == {:ok, 0}
    refute Process.alive?(consumer)
    refute_received {:begun, _, _}
    assert length(pending(plain, queue)) == 49

    # They were given back, so that they come with another's first beat, each as its second delivery.
    start!(bus, queue, min_idle: 3_600_000)
    messages = handled(49)
    assert for(message <- messages, do: message.id) == tl(ids)
    assert Enum.uniq(for message <- messages, do: message.attempts) == [2]
    until_acknowledged(plain, queue)
  end

  test "an idle consumer stops within less than a beat", %{bus: bus, queue: queue} do
    consumer = start!(bus, queue, beat: 3_600_000)
    assert StreamConsumer.stop(consumer, :infinity) == {:ok, 0}
  end

  test "at its deadline a stop ends the handler and says what is left", %{
    bus: bus,
    plain: plain,
    queue: queue
  } do
    append!(bus, queue, 3)
    consumer = start!(bus, queue, handler: waiting(self()))
    assert_receive {:begun, worker, "1"}, 60_000
    monitor = Process.monitor(worker)
    assert StreamConsumer.stop(consumer, 50) == {:ok, 1}
    assert_receive {:DOWN, ^monitor, :process, _, :killed}
    assert length(pending(plain, queue)) == 3
  end

  test "two that stop it at once both get their answer", %{bus: bus, queue: queue} do
    consumer = start!(bus, queue)
    stops = for _ <- 1..10, do: Task.async(fn -> StreamConsumer.stop(consumer, 5_000) end)
    assert Enum.uniq(Task.await_many(stops)) == [{:ok, 0}]
  end

  test "a handler cannot wait for the stop of its own consumer, but another process can", %{
    bus: bus,
    plain: plain,
    queue: queue
  } do
    append!(bus, queue, 2)
    test = self()

    handler = fn _message ->
      [consumer | _] = Process.get(:"$ancestors")
      send(test, {:answered, StreamConsumer.stop(consumer, 5_000)})
      spawn(fn -> send(test, {:stopped, StreamConsumer.stop(consumer, 5_000)}) end)
      Wait.until(fn -> StreamConsumer.info(consumer).state == :stopping end)
      :ok
    end

    start!(bus, queue, handler: handler)
    assert_receive {:answered, {:error, %Error{code: :state}}}, 60_000
    assert_receive {:stopped, {:ok, 0}}, 60_000
    assert length(pending(plain, queue)) == 1
  end

  test "a supervisor's stop lets the message in hand finish", %{bus: bus, plain: plain, queue: queue} do
    append!(bus, queue, 5)
    child = {StreamConsumer, options(bus, queue, handler: waiting(self()))}
    {:ok, supervisor} = Supervisor.start_link([child], strategy: :one_for_one)
    assert_receive {:begun, worker, "1"}, 60_000
    stopping = Task.async(fn -> Supervisor.stop(supervisor) end)
    [{_, consumer, _, _}] = Supervisor.which_children(supervisor)
    until_each_waits([consumer])
    send(worker, :go)
    assert Task.await(stopping, :infinity) == :ok
    refute_received {:begun, _, _}
    assert length(pending(plain, queue)) == 4
  end

  test "a supervisor starts a killed one again, and what it had in hand is handled", %{
    bus: bus,
    plain: plain,
    queue: queue
  } do
    append!(bus, queue, 20)
    test = self()

    handler = fn message ->
      send(test, {:handled, message})
      if message.attempts == 1 and message.payload["n"] == "5", do: Process.sleep(:infinity)
      :ok
    end

    name = __MODULE__.Supervised
    options = options(bus, queue, handler: handler, name: name, consumer: "c1")
    start_supervised!({StreamConsumer, options})
    assert [%{payload: %{"n" => "5"}} | _] = Enum.reverse(handled(5))
    first = Process.whereis(name)
    Process.exit(first, :kill)
    # The next one has its name, so that it finds what the first one had.
    again = Map.new(handled(16), &{&1.payload["n"], &1.attempts})
    assert again == Map.new(5..20, &{"#{&1}", 2})
    until_acknowledged(plain, queue)
    assert Process.whereis(name) != first
  end

  test "a killed one's reader ends, and others get what it had", %{bus: bus, plain: plain, queue: queue} do
    Process.flag(:trap_exit, true)
    append!(bus, queue, 100)
    doomed = start!(bus, queue, handler: waiting(self()), min_idle: 1_000, beat: 10)
    assert_receive {:begun, worker, "1"}, 60_000
    monitor = Process.monitor(worker)
    Process.exit(doomed, :kill)
    assert_receive {:DOWN, ^monitor, :process, _, _}, 60_000
    start!(bus, queue, min_idle: 1_000, beat: 10)
    numbers = for message <- handled(100), do: String.to_integer(message.payload["n"])
    assert Enum.sort(numbers) == Enum.to_list(1..100)
    until_acknowledged(plain, queue)
  end

  test "closing its connector ends it, with the message in hand", %{queue: queue, plain: plain} do
    bus = connect!()
    append!(bus, queue, 10)
    consumer = start!(bus, queue, handler: waiting(self()))
    monitor = Process.monitor(consumer)
    assert_receive {:begun, worker, "1"}, 60_000
    closing = Task.async(fn -> Connector.close(bus, 60_000) end)
    Wait.until(fn -> StreamConsumer.info(consumer).state == :stopping end)
    send(worker, :go)
    assert Task.await(closing, :infinity) == {:ok, 0}
    assert_receive {:DOWN, ^monitor, :process, _, :normal}, 60_000
    assert length(pending(plain, queue)) == 9
  end

  test "a connector that is killed ends it with a fault, and both start again", %{plain: plain, queue: queue} do
    name = __MODULE__.Bus

    children = [
      {Connector, url: url(), node_id: 1, name: name},
      {StreamConsumer, options(name, queue, name: __MODULE__.Consumer, min_idle: 500, beat: 50)}
    ]

    {:ok, _} = Supervisor.start_link(children, strategy: :rest_for_one)

    capture_log(fn ->
      Process.exit(Process.whereis(name), :kill)
      {:ok, id} = Wait.until(fn -> with {:error, _} <- Bus.append(name, queue, "s", n: "1"), do: nil end)
      # One that was answered with an error may have been stored as well.
      assert_receive {:handled, %{id: ^id}}, 60_000
      until_acknowledged(plain, queue)
    end)
  end

  test "a connector of its own ends with it", %{queue: queue, plain: plain} do
    own = [url: url(), client_name: "own-#{queue}"]

    {:ok, consumer} =
      nil
      |> options(queue)
      |> Keyword.delete(:conn)
      |> Keyword.put(:connector, own)
      |> StreamConsumer.start_link()

    listed = fn -> Plain.command(plain, ["CLIENT", "LIST"]) =~ "own-#{queue}" end
    assert listed.()
    assert StreamConsumer.stop(consumer, 5_000) == {:ok, 0}
    Wait.until(fn -> not listed.() end)
    # A running one is left alone.
    bus = connect!()

    {:ok, consumer} =
      nil
      |> options(queue)
      |> Keyword.delete(:conn)
      |> Keyword.put(:connector, bus)
      |> StreamConsumer.start_link()

    assert StreamConsumer.stop(consumer, 5_000) == {:ok, 0}
    assert {:ok, [_]} = Group.list(bus, queue, "s")
  end

  test "no report shows a password" do
    wrapped = StreamConsumer.child_spec(connector: [url: "redis://:secret@localhost"], name: :n)
    refute inspect(wrapped, limit: :infinity) =~ "secret"
    assert %{id: :n, restart: :transient} = wrapped
  end
end
