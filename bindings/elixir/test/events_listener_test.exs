defmodule EchoMQ.EventsListenerTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Hearing
  import ExUnit.CaptureLog

  alias EchoMQ.{EventGap, Events, Notice}

  setup %{queue: queue} do
    bus = connect!()
    %{bus: bus, listener: start_supervised!({Events, conn: bus, queue: queue, connect: :wait})}
  end

  defp publish(plain, queue, payload), do: Plain.command(plain, ["PUBLISH", channel(queue), payload])

  test "every option of the core is documented" do
    {:docs_v1, _, _, _, _, _, docs} = Code.fetch_docs(Events)
    [text] = for {{:type, :hearing, 0}, _, _, %{"en" => text}, _} <- docs, do: text
    documented = for [_, name] <- Regex.scan(~r/\* `:(\w+)`/, text), do: name
    assert documented -- ["raw"] == EchoMQ.Native.subscriber_option_names()
  end

  test "members come by name, whatever their order and form", context do
    %{plain: plain, queue: queue, listener: listener} = context
    :ok = Events.subscribe(listener)

    for {payload, name, members} <- [
          {~s( {"n" : 1,"list":[null,true],"job":"no id", "event":"progr\\u0065ss", "text":"a\\/b ☕"} ),
           "progress",
           %{"n" => "1", "list" => "[null,true]", "job" => "no id", "event" => "progress", "text" => "a/b ☕"}},
          {~s({"event":"unknown"}), "unknown", %{"event" => "unknown"}},
          {~s({"event":7,"job":"#{job()}"}), "unknown", %{"event" => "7", "job" => job()}},
          {~s({"event":"e","k":"1","k":"2"}), "e", %{"event" => "e", "k" => "2"}},
          {"{}", "unknown", %{}},
          {~s(["event"]), "unknown", ~s(["event"])},
          {<<255, 0>>, "unknown", <<255, 0>>},
          {"", "unknown", ""}
        ] do
      assert publish(plain, queue, payload) == 1
      assert heard() == {:emq_event, name, members}
    end
  end

  test "a large event comes whole, in its place", %{plain: plain, queue: queue, listener: listener} do
    :ok = Events.subscribe(listener)
    large = String.duplicate("abcdefgh", 262_144)
    for payload <- [~s({"event":"a"}), large, ~s({"event":"b"})], do: publish(plain, queue, payload)
    assert {:emq_event, "a", _} = heard()
    assert {:emq_event, "unknown", ^large} = heard()
    assert {:emq_event, "b", _} = heard()
  end

  test "payloads come as their bytes where that is asked for", %{bus: bus, plain: plain, queue: queue} do
    {:ok, listener} = Events.start_link(conn: bus, queue: queue, raw: true)
    test = self()
    other = spawn_link(fn -> send(test, {:other, heard()}) end)
    :ok = Events.subscribe(listener)
    :ok = Events.subscribe(listener, pid: other, raw: false)
    publish(plain, queue, ~s({"event": "e"}))
    assert heard() == {:emq_event, "e", ~s({"event": "e"})}
    assert_receive {:other, {:emq_event, "e", %{"event" => "e"}}}, 60_000
  end

  test "a process hears from its subscription to its end, once", context do
    %{plain: plain, queue: queue, listener: listener} = context
    :ok = Events.subscribe(listener)

    event = fn name ->
      publish(plain, queue, ~s({"event":"#{name}"}))
      assert {:emq_event, ^name, _} = heard()
    end

    event.("early")
    ear = ear!(&Events.subscribe(listener, pid: &1))
    for _ <- 1..2, do: :ok = Events.subscribe(listener, pid: ear)
    assert Events.status(listener).subscribers == 2
    event.("e1")
    event.("e2")
    Wait.until(fn -> Process.info(ear, :message_queue_len) == {:message_queue_len, 2} end)
    for _ <- 1..2, do: assert(Events.unsubscribe(listener, pid: ear) == :ok)
    event.("late")
    {:messages, messages} = Process.info(ear, :messages)
    assert [{:emq_event, "e1", _}, {:emq_event, "e2", _}] = messages
    assert Events.status(listener).subscribers == 1
  end

  test "nothing comes when an unsubscription was answered", context do
    %{plain: plain, queue: queue, listener: listener} = context

    for _ <- 1..20 do
      :ok = Events.subscribe(listener, buffer: 10_000)
      other = ear!(&Events.subscribe(listener, pid: &1, buffer: 10_000))
      flood(plain, queue, 2_000)
      :ok = Events.unsubscribe(listener)
      {:message_queue_len, length} = Process.info(self(), :message_queue_len)
      collect(other, 2_000)
      assert collected(other) == Enum.to_list(1..2_000)
      for _ <- 1..length//1, do: assert_received({:emq_event, "flood", _})
      assert mailbox() == []
    end
  end

  test "a thousand processes hear everything, each in its order", context do
    %{plain: plain, queue: queue, listener: listener} = context
    ears = for _ <- 1..1_000, do: ear!(&Events.subscribe(listener, pid: &1))
    assert Events.status(listener).subscribers == 1_000
    assert listening(plain, queue) == 1
    flood(plain, queue, 100)
    for ear <- ears, do: collect(ear, 100)
    for ear <- ears, do: assert(collected(ear) == Enum.to_list(1..100))
    Wait.until(fn -> Events.status(listener).subscribers == 0 end)
  end

  test "one that is slow loses what does not fit and is told so, and the others hear everything", context do
    %{plain: plain, queue: queue, listener: listener} = context

    [slow | fast] =
      for room <- [100 | List.duplicate(10_000, 9)] do
        ear!(&Events.subscribe(listener, pid: &1, buffer: room))
      end

    for ear <- fast, do: collect(ear, 5_000)
    flood(plain, queue, 5_000)
    for ear <- fast, do: assert(collected(ear) == Enum.to_list(1..5_000))
    Wait.until(fn -> Process.info(slow, :message_queue_len) == {:message_queue_len, 100} end)

    collect(slow, 5_000)
    heard = collected(slow)
    assert missed(heard, 5_000) > 4_000
    assert Enum.take(heard, 100) == Enum.to_list(1..100)
  end

  test "a buffer of one is enough for one who is quick", %{plain: plain, queue: queue, listener: listener} do
    :ok = Events.subscribe(listener, buffer: 1)

    for n <- 1..100 do
      publish(plain, queue, ~s({"event":"e","n":"#{n}"}))
      n = "#{n}"
      assert {:emq_event, "e", %{"n" => ^n}} = heard()
    end
  end

  test "messages of others count, and what waits comes when they are taken", context do
    %{plain: plain, queue: queue, listener: listener} = context
    for n <- 1..10, do: send(self(), {:other, n})
    :ok = Events.subscribe(listener, buffer: 10)
    flood(plain, queue, 5)
    Wait.until(fn -> Events.status(listener).subscribers == 1 end)
    refute_received {:emq_event, _, _}
    for n <- 1..10, do: assert_received({:other, ^n})
    for n <- 1..5, do: assert({:emq_event, "flood", %{"n" => text}} = heard()) && assert(text == "#{n}")
  end

  test "one that died is dropped, however it stood", %{plain: plain, queue: queue, listener: listener} do
    idle = ear!(&Events.subscribe(listener, pid: &1))
    full = ear!(&Events.subscribe(listener, pid: &1, buffer: 5))
    flood(plain, queue, 20)
    Wait.until(fn -> Process.info(full, :message_queue_len) == {:message_queue_len, 5} end)
    %{feeders: feeders} = :sys.get_state(listener)
    feeders = for {_, {feeder, _}} <- feeders, do: Process.monitor(feeder)

    for ear <- [idle, full] do
      Process.unlink(ear)
      Process.exit(ear, :kill)
    end

    for feeder <- feeders, do: assert_receive({:DOWN, ^feeder, :process, _, :normal}, 60_000)
    Wait.until(fn -> Events.status(listener).subscribers == 0 end)
    # One that is dead already is no fault.
    assert Events.subscribe(listener, pid: idle) == :ok
    Wait.until(fn -> Events.status(listener).subscribers == 0 end)
  end

  test "a stop tells the end behind everything that was heard, and leaves nothing", context do
    %{bus: bus, plain: plain, queue: queue} = context
    {:ok, listener} = Events.start_link(conn: bus, queue: queue <> "-own")
    queue = queue <> "-own"
    :ok = Events.subscribe(listener, buffer: 10)
    %{feeders: %{} = feeders} = :sys.get_state(listener)
    [feeder] = for {_, {feeder, _}} <- feeders, do: Process.monitor(feeder)
    flood(plain, queue, 50)
    Wait.until(fn -> Process.info(self(), :message_queue_len) == {:message_queue_len, 10} end)
    GenServer.stop(listener)
    assert_receive {:DOWN, ^feeder, :process, _, :normal}, 60_000
    assert missed(until_the_end(), 50) > 0
    until_listening(plain, queue, 0)
  end

  # What of a flood comes until the end, which was wanted.
  defp until_the_end do
    case heard() do
      {:emq_event, "flood", %{"n" => n}} -> [String.to_integer(n) | until_the_end()]
      {:emq_gap, gap} -> [gap | until_the_end()]
      {:emq_end, nil} -> []
    end
  end

  test "a listener that is killed tells its end and leaves nothing", %{bus: bus, plain: plain, queue: queue} do
    Process.flag(:trap_exit, true)
    {:ok, listener} = Events.start_link(conn: bus, queue: queue <> "-own")
    :ok = Events.subscribe(listener)
    Process.exit(listener, :kill)
    assert heard() == {:emq_end, nil}
    until_listening(plain, queue <> "-own", 0)
  end

  test "a supervisor starts a killed one again", %{bus: bus, plain: plain, queue: queue} do
    name = Module.concat(__MODULE__, Supervised)
    spec = {Events, conn: bus, queue: queue, name: name}
    assert %{id: ^name, restart: :transient} = Supervisor.child_spec(spec, [])
    start_supervised!(spec)
    first = Process.whereis(name)
    Process.exit(first, :kill)
    Wait.until(fn -> Process.whereis(name) not in [nil, first] end)
    :ok = Events.subscribe(name)
    assert nothing_more?(plain, queue)
  end

  test "closing its connector ends it and tells why", %{queue: queue, plain: plain} do
    bus = connect!()
    {:ok, listener} = Events.start_link(conn: bus, queue: queue <> "-own")
    monitor = Process.monitor(listener)
    :ok = Events.subscribe(listener)
    publish(plain, queue <> "-own", ~s({"event":"e"}))
    assert {:emq_event, "e", _} = heard()
    assert Connector.close(bus, 5_000) == {:ok, 0}
    assert_receive {:DOWN, ^monitor, :process, _, :normal}, 60_000
    assert {:emq_end, %Error{code: :closed}} = heard()
    until_listening(plain, queue <> "-own", 0)
    Process.flag(:trap_exit, true)
    assert code(Events.start_link(conn: bus, queue: queue)) == :closed
  end

  test "a server that is killed and started again is heard again, with a gap for each", %{queue: queue} do
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    {:ok, bus} = Connector.start_link(url: Server.url(server), reconnect_max: 50)
    {:ok, listener} = Events.start_link(conn: bus, queue: queue, on_notice: self())
    ears = for _ <- 1..10, do: ear!(&Events.subscribe(listener, pid: &1))
    assert %{connected: true, resubscriptions: 0, error: nil} = Events.status(listener)

    Enum.reduce(1..3, server, fn round, server ->
      Server.kill(server)
      assert_receive {:echo_mq_notice, ^listener, %Notice{kind: :disconnected, code: :disconnected}}, 60_000
      assert %{connected: false, error: %Error{}} = Events.status(listener)
      server = Server.start_again(server)
      assert_receive {:echo_mq_notice, ^listener, %Notice{kind: notice}}, 60_000
      assert notice == :reconnected
      assert %{connected: true, resubscriptions: ^round, error: nil} = Events.status(listener)
      server
    end)

    {:ok, plain} = Plain.connect(server.tcp_port)
    flood(plain, queue, 3)
    for ear <- ears, do: collect(ear, 3)
    gap = %EventGap{missed: 0, reconnected: true}
    for ear <- ears, do: assert(collected(ear) == [gap, gap, gap, 1, 2, 3])
  end

  test "a user who may listen no longer is told which rule is missing", %{queue: queue} do
    Process.flag(:trap_exit, true)
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    {:ok, plain} = Plain.connect(server.tcp_port)
    allow = ["ACL", "SETUSER", "ear", "on", ">secret", "~*", "+@all", "resetchannels"]
    "OK" = Plain.command(plain, allow)
    {:ok, bus} = Connector.start_link(url: Server.url(server, "ear:secret@"), node_id: 1, reconnect_max: 50)

    capture_log(fn ->
      assert {:error, %Error{code: :auth, message: message}} = Events.start_link(conn: bus, queue: queue)
      assert message =~ "`&#{channel(queue)}`"
      # Appending works without.
      assert {:ok, _} = EchoMQ.Stream.append(bus, queue, "s", n: "1")
      "OK" = Plain.command(plain, allow ++ ["&#{channel(queue)}"])
      {:ok, listener} = Events.start_link(conn: bus, queue: queue)
      :ok = Events.subscribe(listener)
      # The server ends the connection of one who listens to what it may not hear any longer.
      "OK" = Plain.command(plain, allow)
      assert {:emq_end, %Error{code: :auth}} = heard()
      assert_receive {:EXIT, ^listener, %Error{code: :auth}}, 60_000
    end)
  end

  test "arguments that make no sense are refused", %{bus: bus, queue: queue, listener: listener} do
    Process.flag(:trap_exit, true)

    for options <- [[buffer: 0], [buffer: "x"], [bufer: 5], [buffer: -1]] do
      assert {:error, %Error{code: :invalid_option} = error} =
               Events.start_link([conn: bus, queue: queue] ++ options)

      assert error.subject in ["buffer", "bufer"]
      assert code(Events.subscribe(listener, options)) == :invalid_option
    end

    assert code(Events.start_link(conn: bus, queue: "a:b")) == :invalid_name

    for options <- [
          [conn: bus],
          [queue: queue],
          [conn: bus, queue: :q],
          [conn: bus, queue: queue, raw: 1],
          [conn: bus, queue: queue, buffer: nil],
          [conn: bus, queue: queue, state: 0],
          [conn: bus, queue: queue, handler: 7],
          [conn: bus, queue: queue, handler: Enum],
          [:conn],
          %{conn: bus}
        ] do
      assert_raise ArgumentError, fn -> Events.start_link(options) end
    end

    for options <- [[pid: :name], [raw: :yes], [:raw], %{}, [buffer: nil]] do
      assert_raise ArgumentError, fn -> Events.subscribe(listener, options) end
    end

    assert_raise ArgumentError, fn -> Events.unsubscribe(listener, buffer: 5) end
    assert_raise Error, ~r/no handler/, fn -> Events.state(listener) end
    assert Process.alive?(listener)
  end
end
