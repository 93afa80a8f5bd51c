defmodule EchoMQ.StartTest do
  use EchoMQ.Test.Case, async: true

  import ExUnit.CaptureLog
  import EchoMQ.Test.Consumers, only: [telling: 1]
  import EchoMQ.Test.Hearing, only: [job: 0]

  alias EchoMQ.{Events, Notice, StreamConsumer}
  alias EchoMQ.Stream, as: Bus

  # What a process that does not trap exits is answered, which is there afterwards.
  defp answered(start) do
    Task.await(
      Task.async(fn ->
        answer = start.()
        # Whoever ends with another process does so before it has taken turns with the others.
        for _ <- 1..100, do: :erlang.yield()
        {answer, Process.info(self(), :links)}
      end)
    )
  end

  defp refused(code, start) do
    {answer, {:links, _}} = answered(start)
    assert {:error, %Error{code: ^code}} = answer
  end

  describe "what cannot start answers the error and ends nobody:" do
    test "a connector", %{queue: queue} do
      nobody = Server.url(Server.kill(Server.start()))

      for {code, options} <- [
            invalid_option: [node_id: 1023],
            invalid_option: [node_id: 70_000],
            invalid_option: [timeuot: 1],
            invalid_option: [timeout: 0],
            invalid_option: [username: "u"],
            invalid_option: [url: "http://h"],
            invalid_option: [tls_ca: "/nowhere"],
            invalid_option: [connect: :never],
            disconnected: [url: nobody, connect: :once]
          ],
          start <- [&Connector.start_link/1, &start_child(Connector, &1)] do
        refused(code, fn -> start.(Keyword.merge([url: url(), client_name: queue], options)) end)
      end
    end

    test "a consumer", %{queue: queue, plain: plain} do
      bus = connect!()
      Plain.command(plain, ["SET", "emq:{#{queue}}:stream:text", "x"])

      valid = [
        conn: bus,
        queue: queue,
        stream: "s",
        group: "g",
        group_start: :new,
        handler: fn _ -> :ok end
      ]

      for {code, options} <- [
            invalid_option: [concurrency: 0],
            invalid_option: [count: 0],
            invalid_option: [nothing: 1],
            invalid_option: [min_idle: 10, retry: 20],
            invalid_name: [queue: "a:b"],
            invalid_name: [stream: ""],
            malformed_id: [group_start: "middle"],
            closed: [conn: :nobody]
          ],
          start <- [&StreamConsumer.start_link/1, &start_child(StreamConsumer, &1)] do
        refused(code, fn -> start.(Keyword.merge(valid, options)) end)
      end

      refused(:wrong_type, fn -> StreamConsumer.start_link(Keyword.merge(valid, stream: "text")) end)

      refused(:invalid_option, fn ->
        valid
        |> Keyword.delete(:conn)
        |> Keyword.put(:connector, url: "http://h")
        |> StreamConsumer.start_link()
      end)
    end

    test "a listener", %{queue: queue} do
      bus = connect!()

      for {code, options} <- [
            invalid_option: [buffer: 0],
            invalid_option: [nothing: 1],
            invalid_name: [queue: "a:b"],
            closed: [conn: :nobody]
          ] do
        refused(code, fn -> Events.start_link(Keyword.merge([conn: bus, queue: queue], options)) end)
      end

      for {code, options} <- [invalid_name: [queue: "a:b"], closed: [conn: :nobody]] do
        refused(code, fn -> start_child(Events, Keyword.merge([conn: bus, queue: queue], options)) end)
      end

      defmodule Stops do
        use EchoMQ.Events, state: 0
        @impl true
        def init(_), do: {:stop, :not_today}
        @impl true
        def handle_event(_, _, state), do: {:ok, state}
      end

      assert {{:error, :not_today}, _} = answered(fn -> Stops.start_link(conn: bus, queue: queue) end)
    end

    # As a supervisor starts it.
    defp start_child(module, options) do
      %{start: {module, function, arguments}} = module.child_spec(options)
      apply(module, function, arguments)
    end
  end

  describe "without its server" do
    setup do
      server = Server.kill(Server.start())
      on_exit(fn -> Server.remove(server) end)
      %{server: server, names: Enum.map([Bus, Consumer, Listener], &Module.concat(__MODULE__, &1))}
    end

    test "an application starts, and goes on when the server comes", %{
      server: server,
      queue: queue,
      names: names
    } do
      [bus, consumer, listener] = names
      test = self()

      children = [
        {Connector,
         name: bus, url: Server.url(server), node_id: 1, timeout: 300, reconnect_max: 50, on_notice: test},
        {StreamConsumer,
         conn: bus,
         queue: queue,
         stream: "s",
         group: "g",
         group_start: :head,
         handler: telling(test),
         on_notice: test,
         name: consumer},
        {Events, conn: bus, queue: queue, on_notice: test, name: listener, connect: :lazy}
      ]

      {:ok, supervisor} = Supervisor.start_link(children, strategy: :rest_for_one, max_restarts: 0)
      processes = Enum.map(names, &Process.whereis/1)
      [bus_process, consumer_process, listener_process] = processes
      assert %{state: :connecting, group: "g", consumer: nil} = StreamConsumer.info(consumer)
      assert %{connected: false, subscribers: 0} = Events.status(listener)
      assert StreamConsumer.suspend(consumer) == :ok
      assert StreamConsumer.resume(consumer) == :ok
      ear = Task.async(fn -> {Events.subscribe(listener), hear()} end)

      # Each says how it stands.
      assert code(Bus.append(bus, queue, "s", n: "0")) == :disconnected
      assert {:ok, %{connected: false, error: %Error{code: :disconnected}}} = Connector.status(bus)

      for process <- processes do
        assert_receive {:echo_mq_notice, ^process, %Notice{kind: :disconnected, code: :disconnected}}, 60_000
      end

      assert %{state: :connecting, error: %Error{code: :disconnected}} = StreamConsumer.info(consumer)
      assert %{connected: false, error: %Error{code: :disconnected}} = Events.status(listener)

      Server.start_again(server)

      for process <- processes do
        assert_receive {:echo_mq_notice, ^process, %Notice{kind: :connected}}, 60_000
      end

      {:ok, id} = Bus.append(bus, queue, "s", n: "1")
      assert_receive {:handled, %{id: ^id}}, 60_000
      assert %{state: :running, consumer: <<_, _::binary>>, error: nil} = StreamConsumer.info(consumer)
      assert {:ok, %{connected: true, error: nil}} = Connector.status(bus)

      # Whoever has heard an event is gone, so it is subscribed before there is one.
      Wait.until(fn -> Events.status(listener).subscribers == 1 end)
      Wait.until(fn -> Events.publish(bus, queue, "added", job()) == {:ok, 1} end)
      assert {:ok, {:emq_event, "added", _}} = Task.await(ear, 60_000)

      # None of them was started again.
      assert Enum.map(names, &Process.whereis/1) == [bus_process, consumer_process, listener_process]
      Supervisor.stop(supervisor)
    end

    defp hear do
      receive do
        {:emq_event, _, _} = event -> event
      after
        60_000 -> nil
      end
    end

    test "what is stopped before it was connected stops at once", %{
      server: server,
      queue: queue,
      names: names
    } do
      [bus, consumer, listener] = names
      {:ok, _} = Connector.start_link(name: bus, url: Server.url(server), connect: :lazy)

      capture_log(fn ->
        options = [queue: queue, stream: "s", group: "g", group_start: :new, handler: fn _ -> :ok end]
        lazily = [connect: :lazy, name: consumer]
        {:ok, _} = StreamConsumer.start_link([conn: bus] ++ lazily ++ options)
        assert StreamConsumer.stop(consumer, 60_000) == {:ok, 0}
        {:ok, _} = StreamConsumer.start_link([connector: [url: Server.url(server)]] ++ lazily ++ options)
        assert StreamConsumer.stop(consumer, 60_000) == {:ok, 0}
        {:ok, _} = Events.start_link(conn: bus, queue: queue, name: listener, connect: :lazy)
        assert GenServer.stop(listener) == :ok
        assert Connector.close(bus, 60_000) == {:ok, 0}
      end)
    end

    test "what cannot begin once the server is there ends", %{server: server, queue: queue, names: [bus | _]} do
      {:ok, _} = Connector.start_link(name: bus, url: Server.url(server), connect: :lazy, reconnect_max: 50)

      capture_log(fn ->
        {:ok, consumer} =
          StreamConsumer.start_link(
            conn: bus,
            connect: :lazy,
            queue: queue,
            stream: "text",
            group: "g",
            group_start: :new,
            handler: fn _ -> :ok end
          )

        Process.unlink(consumer)
        monitor = Process.monitor(consumer)
        server = Server.start_again(server)
        {:ok, _} = Connector.command(bus, ["SET", "emq:{#{queue}}:stream:text", "x"])

        receive do
          {:DOWN, ^monitor, :process, _, reason} -> assert %Error{code: :wrong_type} = reason
        after
          # It began before the key was there, and finds it later.
          60_000 -> flunk("it goes on")
        end

        Server.kill(server)
      end)
    end

    test "options say whether a start waits", %{queue: queue} do
      assert_raise ArgumentError, ~r/:connect/, fn ->
        Events.start_link(conn: connect!(), queue: queue, connect: :once)
      end

      for {given, expected} <- [
            {[url: "redis://h"], :lazy},
            {[url: "redis://h", connect: :once], :once},
            {[url: "redis://h?connect=wait"], nil},
            {[url: "redis://h?connect_timeout=7"], :lazy}
          ],
          options <- [given, fn -> given end] do
        %{start: {Connector, :start_link, [start]}} = Connector.child_spec(options)
        assert start.()[:connect] == expected
      end
    end
  end
end
