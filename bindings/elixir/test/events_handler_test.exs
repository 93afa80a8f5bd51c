defmodule EchoMQ.EventsHandlerTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Hearing
  alias EchoMQ.{EventGap, Events}
  alias EchoMQ.Test.Reports

  @moduletag capture_log: true

  defmodule Completed do
    use EchoMQ.Events, state: [], shutdown: 60_000

    @impl true
    def init(names), do: {:ok, [:begun | names]}

    @impl true
    def handle_event("flood", %{"n" => n}, names), do: {:ok, [n | names]}
    def handle_event("raise", _payload, _names), do: raise("broken")
    def handle_event("throw", _payload, _names), do: throw(:broken)
    def handle_event("exit", _payload, _names), do: exit(:broken)
    def handle_event("answer", _payload, _names), do: :broken
    def handle_event(name, payload, names), do: {:ok, [{name, payload} | names]}

    @impl true
    def handle_gap(%EventGap{} = gap, names), do: {:ok, [gap | names]}
  end

  defmodule Counter do
    use EchoMQ.Events, id: :counter, restart: :permanent, state: 0

    @impl true
    def handle_event("wait", %{"for" => name}, count) do
      test = Process.whereis(String.to_existing_atom(name))
      send(test, {:waiting, self()})

      receive do
        :go -> {:ok, count + 1}
      end
    end

    def handle_event(_name, _payload, count), do: {:ok, count + 1}
  end

  defmodule Noticing do
    use EchoMQ.Events

    @impl true
    def handle_event(_name, _payload, state), do: {:ok, state}

    @impl true
    def handle_notice(notice), do: send(:noticing_test, {:noticed, notice.kind})
  end

  defmodule Unable do
    use EchoMQ.Events

    @impl true
    def init(_state), do: {:stop, :unable}

    @impl true
    def handle_event(_name, _payload, state), do: {:ok, state}
  end

  setup do
    %{bus: connect!()}
  end

  defp publish(plain, queue, payload), do: Plain.command(plain, ["PUBLISH", channel(queue), payload])

  test "a module folds what it hears, and its state is read at any time", context do
    %{bus: bus, plain: plain, queue: queue} = context
    listener = start_supervised!({Completed, conn: bus, queue: queue, connect: :wait})
    assert Events.state(listener) == [:begun]
    flood(plain, queue, 1_000)
    Wait.until(fn -> length(Events.state(listener)) == 1_001 end)
    assert Enum.reverse(Events.state(listener)) == [:begun | for(n <- 1..1_000, do: "#{n}")]
    publish(plain, queue, "no event")
    Wait.until(fn -> hd(Events.state(listener)) == {"unknown", "no event"} end)
    # Others hear off the same subscription.
    :ok = Events.subscribe(listener)
    assert nothing_more?(plain, queue)
    assert listening(plain, queue) == 1
    stop_supervised!(Completed)
    assert heard() == {:emq_end, nil}
    until_listening(plain, queue, 0)
  end

  test "a function is a handler too", %{bus: bus, plain: plain, queue: queue} do
    last = fn name, payload, _state -> {:ok, {name, payload}} end
    {:ok, listener} = Events.start_link(conn: bus, queue: queue, handler: last, raw: true)
    assert Events.state(listener) == nil
    publish(plain, queue, ~s({"event": "e"}))
    Wait.until(fn -> Events.state(listener) == {"e", ~s({"event": "e"})} end)
  end

  test "a handler that fails is reported with the event, keeps its state and goes on", context do
    %{bus: bus, plain: plain, queue: queue} = context
    listener = start_supervised!({Completed, conn: bus, queue: queue, connect: :wait})
    :telemetry.tell(self(), queue)

    for {event, said} <- [
          {"raise", "(RuntimeError) broken"},
          {"throw", "(throw) :broken"},
          {"exit", "(exit) :broken"},
          {"answer", "did not answer {:ok, state}, but: :broken"}
        ] do
      state = Events.state(listener)

      log =
        Reports.capture(~r/events failed on {:emq_event, .*#{event}.*#{queue}/, fn ->
          publish(plain, queue, ~s({"event":"#{event}","queue":"#{queue}"}))
        end)

      assert log =~ said
      assert Events.state(listener) == state
      publish(plain, queue, ~s({"event":"after-#{event}"}))
      Wait.until(fn -> match?([{"after-" <> ^event, _} | ^state], Events.state(listener)) end)
    end

    for event <- ["raise", "throw", "exit", "answer"] do
      assert_receive {:telemetry, [:echo_mq, :events, :handled], %{duration: duration},
                      %{event: ^event, queue: ^queue, result: {:error, reason}}},
                     60_000

      assert is_integer(duration) and reason =~ "broken"
    end

    assert_receive {:telemetry, _, _, %{event: "after-answer", result: :ok}}, 60_000
  end

  test "the state is read between two events, and one that waits holds no subscriber up", context do
    %{bus: bus, plain: plain, queue: queue} = context
    name = :"handler_test_#{queue}"
    Process.register(self(), name)
    listener = start_supervised!({Counter, conn: bus, queue: queue, connect: :wait})
    :ok = Events.subscribe(listener)
    publish(plain, queue, ~s({"event":"wait","for":"#{name}"}))
    assert_receive {:waiting, ^listener}, 60_000
    assert {:timeout, {GenServer, :call, _}} = catch_exit(Events.state(listener, 10))
    flood(plain, queue, 500)
    assert {:emq_event, "wait", _} = heard()
    for _ <- 1..500, do: assert({:emq_event, "flood", _} = heard())
    reader = Task.async(fn -> Events.state(listener, 60_000) end)

    Wait.until(fn ->
      match?({:message_queue_len, n} when n > 0, Process.info(listener, :message_queue_len))
    end)

    send(listener, :go)
    # Not behind all events that wait.
    assert Task.await(reader, 60_000) < 501
    Wait.until(fn -> Events.state(listener) == 501 end)
  end

  test "a handler is told of gaps, or they are logged", %{queue: queue} do
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    {:ok, bus} = Connector.start_link(url: Server.url(server), reconnect_max: 50)
    {:ok, told} = Completed.start_link(conn: bus, queue: queue)
    {:ok, plain} = Plain.connect(server.tcp_port)
    :telemetry.tell(self(), queue)

    {:ok, counter} = Counter.start_link(conn: bus, queue: queue)

    Reports.capture("events of the queue #{queue} may be missing", fn ->
      assert Plain.command(plain, ["CLIENT", "KILL", "TYPE", "pubsub"]) == 1
    end)

    assert Events.state(counter) == 0

    Wait.until(fn -> Events.state(told) == [%EventGap{missed: 0, reconnected: true}, :begun] end)

    for _ <- 1..2 do
      assert_receive {:telemetry, [:echo_mq, :events, :gap], %{missed: 0}, %{reconnected: true}}, 60_000
    end
  end

  test "a slow handler is told how many it missed", %{bus: bus, plain: plain, queue: queue} do
    test = self()

    handler = fn
      "flood", %{"n" => n}, heard ->
        if heard == [] do
          send(test, {:waiting, self()})

          receive do
            :go -> :ok
          end
        end

        {:ok, [String.to_integer(n) | heard]}
    end

    defmodule Slow do
      use EchoMQ.Events
      @impl true
      def handle_event(name, payload, {handler, heard}) do
        with {:ok, heard} <- handler.(name, payload, heard), do: {:ok, {handler, heard}}
      end

      @impl true
      def handle_gap(gap, {handler, heard}), do: {:ok, {handler, [gap | heard]}}
    end

    {:ok, listener} = Slow.start_link(conn: bus, queue: queue, state: {handler, []}, buffer: 10)
    witness = ear!(&Events.subscribe(listener, pid: &1, buffer: 10_000))
    flood(plain, queue, 3_000)
    assert_receive {:waiting, ^listener}, 60_000
    collect(witness, 3_000)
    assert collected(witness) == Enum.to_list(1..3_000)
    send(listener, :go)

    heard =
      Wait.until(fn ->
        {_, heard} = Events.state(listener)

        all =
          Enum.reduce(heard, 0, fn one, sum -> if is_integer(one), do: sum + 1, else: sum + one.missed end)

        if all == 3_000, do: Enum.reverse(heard)
      end)

    assert missed(heard, 3_000) > 2_000
  end

  test "what was heard is handled before it ends with its connector", %{plain: plain, queue: queue} do
    bus = connect!()
    test = self()

    handler = fn _name, %{"n" => n}, nil ->
      if n == "1" do
        send(test, {:waiting, self()})

        receive do
          :go -> :ok
        end
      end

      send(test, {:handled, n})
      {:ok, nil}
    end

    {:ok, listener} = Events.start_link(conn: bus, queue: queue, handler: handler)
    witness = ear!(&Events.subscribe(listener, pid: &1))
    monitor = Process.monitor(listener)
    flood(plain, queue, 300)
    assert_receive {:waiting, ^listener}, 60_000
    collect(witness, 300)
    assert collected(witness) == Enum.to_list(1..300)
    assert Connector.close(bus, 5_000) == {:ok, 0}
    send(listener, :go)
    for n <- 1..300, n = "#{n}", do: assert_receive({:handled, ^n}, 60_000)
    assert_receive {:DOWN, ^monitor, :process, _, :normal}, 60_000
  end

  test "how a supervisor starts it, and what cannot begin", %{bus: bus, queue: queue} do
    Process.flag(:trap_exit, true)
    assert %{id: Completed, restart: :transient, shutdown: 60_000} = Completed.child_spec(queue: queue)
    assert %{id: :counter, restart: :permanent} = Counter.child_spec([])
    assert {Counter, :start_link, [options]} = Counter.child_spec(queue: "q").start
    assert options == [connect: :lazy, queue: "q"]
    assert Unable.start_link(conn: bus, queue: queue) == {:error, :unable}
    assert {:error, %Error{code: :invalid_option}} = Counter.start_link(conn: bus, queue: queue, buffer: 0)
  end

  describe "notices" do
    setup do
      server = Server.start()
      on_exit(fn -> Server.remove(server) end)
      {:ok, bus} = Connector.start_link(url: Server.url(server), reconnect_max: 50)
      {:ok, plain} = Plain.connect(server.tcp_port)
      %{bus: bus, plain: plain}
    end

    defp cut(plain), do: assert(Plain.command(plain, ["CLIENT", "KILL", "TYPE", "PUBSUB"]) == 1)

    test "a module is told that the connection is gone and there again", context do
      %{bus: bus, plain: plain, queue: queue} = context
      Process.register(self(), :noticing_test)
      :telemetry.tell(self(), queue)
      start_supervised!({Noticing, conn: bus, queue: queue, connect: :wait})

      for _ <- 1..3 do
        cut(plain)
        assert_receive {:noticed, first}, 60_000
        assert_receive {:noticed, second}, 60_000
        assert {first, second} == {:disconnected, :reconnected}

        assert_receive {:telemetry, [:echo_mq, :events, :notice], %{count: 1},
                        %{queue: ^queue, notice: notice}}

        assert notice.kind == :disconnected

        assert_receive {:telemetry, [:echo_mq, :events, :notice], %{count: 1},
                        %{notice: %{kind: :reconnected}}}
      end
    end

    test "a function is told, even after it had its process killed", context do
      %{bus: bus, plain: plain, queue: queue} = context
      test = self()

      on_notice = fn notice ->
        send(test, {:noticed, notice.kind})
        Process.exit(self(), :kill)
      end

      {:ok, listener} = Events.start_link(conn: bus, queue: queue, on_notice: on_notice)

      for _ <- 1..2 do
        cut(plain)
        assert_receive {:noticed, :disconnected}, 60_000
        assert_receive {:noticed, :reconnected}, 60_000
      end

      assert %{connected: true, resubscriptions: 2} = Events.status(listener)
    end

    test "nobody else is told, so that the log is", %{bus: bus, plain: plain, queue: queue} do
      :ok = Events.subscribe(bus, queue)

      Reports.capture(~r/EchoMQ listener .*disconnected.*EchoMQ listener .*reconnected/s, fn -> cut(plain) end)

      assert heard() == {:emq_gap, %EventGap{missed: 0, reconnected: true}}
    end

    test "who is to be told is a function of one or a process", %{bus: bus, queue: queue} do
      for target <- ["text", fn -> :none end] do
        assert_raise ArgumentError, ~r/:on_notice/, fn ->
          Events.start_link(conn: bus, queue: queue, on_notice: target)
        end
      end
    end
  end
end
