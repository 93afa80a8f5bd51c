defmodule EchoMQ.EventsSharedTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Hearing

  alias EchoMQ.Events

  setup do
    %{bus: connect!()}
  end

  test "all who hear a queue through one connector share a subscription, which ends with the last", context do
    %{bus: bus, plain: plain, queue: queue} = context
    ears = for _ <- 1..50, do: ear!(&Events.subscribe(bus, queue, pid: &1))
    :ok = Events.subscribe(bus, queue)
    assert listening(plain, queue) == 1
    flood(plain, queue, 10)
    for ear <- ears, do: collect(ear, 10)
    for ear <- ears, do: assert(collected(ear) == Enum.to_list(1..10))
    for n <- 1..10, do: assert({:emq_event, "flood", %{"n" => text}} = heard()) && assert(text == "#{n}")
    assert listening(plain, queue) == 1
    assert Events.unsubscribe(bus, queue) == :ok
    until_listening(plain, queue, 0)
    assert Events.unsubscribe(bus, queue) == :ok
  end

  test "many that begin and end at once all hear", %{bus: bus, plain: plain, queue: queue} do
    for _ <- 1..20 do
      tasks =
        for _ <- 1..20 do
          Task.async(fn ->
            :ok = Events.subscribe(bus, queue)
            heard?(bus, queue)
          end)
        end

      assert Enum.all?(Task.await_many(tasks, 60_000))
    end

    until_listening(plain, queue, 0)
  end

  # Publishes until one of them is heard; all of them are the process's own.
  defp heard?(bus, queue) do
    own = "own#{System.unique_integer([:positive])}"
    {:ok, _} = Events.publish(bus, queue, own, job())

    receive do
      {:emq_event, ^own, _} -> Events.unsubscribe(bus, queue) == :ok
    after
      60_000 -> false
    end
  end

  test "queues and connectors have each their own", %{bus: bus, plain: plain, queue: queue} do
    other = connect!()
    :ok = Events.subscribe(bus, queue)
    ear = ear!(&Events.subscribe(other, queue, pid: &1))
    third = ear!(&Events.subscribe(bus, queue <> "-other", pid: &1))
    assert listening(plain, queue) == 2
    flood(plain, queue, 3)
    collect(ear, 3)
    assert collected(ear) == [1, 2, 3]
    for _ <- 1..3, do: assert({:emq_event, "flood", _} = heard())
    assert Process.info(third, :message_queue_len) == {:message_queue_len, 0}
    until_listening(plain, queue, 1)
  end

  test "it ends with its connector, and a name finds the next one", %{plain: plain, queue: queue} do
    name = Module.concat(__MODULE__, Bus)
    {:ok, _} = Connector.start_link(url: url(), name: name)
    :ok = Events.subscribe(name, queue)
    assert Connector.close(name, 5_000) == {:ok, 0}
    assert {:emq_end, %Error{code: :closed}} = heard()
    assert code(Events.subscribe(name, queue)) == :closed
    assert Events.unsubscribe(name, queue) == :ok
    {:ok, _} = Connector.start_link(url: url(), name: name)
    :ok = Events.subscribe(name, queue)
    assert nothing_more?(plain, queue)
  end

  test "refuses what is no queue, no connector and no process", %{bus: bus, queue: queue} do
    assert code(Events.subscribe(bus, "a:b")) == :invalid_name
    assert code(Events.subscribe(bus, queue, buffer: 0)) == :invalid_option
    assert code(Events.subscribe(bus, queue, bufer: 1)) == :invalid_option
    assert code(Events.subscribe(:nobody, queue)) == :closed
    assert Events.unsubscribe(:nobody, queue) == :ok
    assert_raise ArgumentError, fn -> Events.subscribe(bus, :queue, []) end
    assert_raise ArgumentError, fn -> Events.subscribe(bus, queue, pid: nil) end
  end

  test "options that are refused harm nobody who asks at the same time", context do
    %{bus: bus, plain: plain, queue: queue} = context

    for _ <- 1..50 do
      wrong = Task.async(fn -> Events.subscribe(bus, queue, buffer: 0) end)
      ear = ear!(&Events.subscribe(bus, queue, pid: &1))
      assert code(Task.await(wrong)) == :invalid_option
      assert Events.unsubscribe(bus, queue, pid: ear) == :ok
    end

    assert code(Events.subscribe(bus, queue, buffer: 0)) == :invalid_option
    until_listening(plain, queue, 0)
  end

  test "a server that does not answer holds nobody else up", %{bus: bus, plain: plain, queue: queue} do
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    {:ok, paused} = Connector.start_link(url: Server.url(server), timeout: 500)
    Server.pause(server)
    waiting = Task.async(fn -> Events.subscribe(paused, queue) end)
    until_each_waits_for_listener(waiting.pid)
    :ok = Events.subscribe(bus, queue)
    assert nothing_more?(plain, queue)
    assert code(Task.await(waiting, 60_000)) in [:disconnected, :timeout]
  end

  defp until_each_waits_for_listener(process) do
    Wait.until(fn -> Process.info(process, :current_function) == {:current_function, {:gen, :do_call, 4}} end)
  end
end
