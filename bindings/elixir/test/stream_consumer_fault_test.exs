defmodule EchoMQ.StreamConsumerFaultTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Consumers

  alias EchoMQ.{Notice, StreamConsumer}
  alias EchoMQ.Stream, as: Bus

  test "200 idle consumers hold up nobody", %{queue: queue, plain: plain} do
    bus = connect!()
    consumers = for n <- 1..200, do: start!(bus, queue, group: "g#{n}")

    # More than the VM has threads of any kind: one that held a thread would end the ticking.
    for _ <- 1..200 do
      Process.sleep(1)
      {:ok, _} = File.read(__ENV__.file)
    end

    assert Enum.uniq(for consumer <- consumers, do: StreamConsumer.info(consumer).state) == [:running]
    {:ok, id} = Bus.append(bus, queue, "s", n: "1")
    assert Enum.uniq(for message <- handled(200), do: message.id) == [id]
    assert length(Plain.command(plain, ["XINFO", "GROUPS", "emq:{#{queue}}:stream:s"])) == 200
    stops = for consumer <- consumers, do: Task.async(fn -> StreamConsumer.stop(consumer, 60_000) end)
    assert Enum.uniq(Task.await_many(stops, :infinity)) == [{:ok, 0}]
  end

  test "a slow handler's mailbox holds no more than was asked for", %{queue: queue, plain: plain} do
    bus = connect!()
    append!(bus, queue, 1_000)
    test = self()

    handler = fn message ->
      send(test, {:begun, self(), message.payload["n"]})

      receive do
        :go -> :ok
      end
    end

    consumer = start!(bus, queue, count: 50, handler: handler)

    for n <- 1..120 do
      text = "#{n}"
      assert_receive {:begun, worker, ^text}, 60_000

      for process <- [worker, consumer] do
        assert {:message_queue_len, length} = Process.info(process, :message_queue_len)
        assert length <= 1
      end

      # Acknowledgements are on their way for a moment.
      Wait.until(fn -> length(pending(plain, queue)) <= 51 end)
      send(worker, :go)
    end
  end

  for {persistence, arguments} <- [with: ~w(--appendonly yes), without: []] do
    test "a server that starts again #{persistence} persistence", %{queue: queue} do
      server = Server.start(unquote(arguments))
      on_exit(fn -> Server.remove(server) end)

      {:ok, bus} =
        Connector.start_link(url: Server.url(server), node_id: 1, timeout: 60_000, reconnect_max: 50)

      for n <- 1..3, do: start!(bus, queue, consumer: "c#{n}", on_notice: self(), min_idle: 500, beat: 50)

      for round <- 1..3, reduce: server do
        server ->
          server = server |> Server.kill() |> Server.start_again()
          records = for n <- 1..100, do: [n: "#{round * 100 + n}"]
          {:ok, results} = Bus.append_batch(bus, queue, "s", records)
          ids = for {:ok, id} <- results, do: id
          assert length(ids) == 100
          until_handled(MapSet.new(ids))
          {:ok, plain} = Plain.connect(server.tcp_port)
          until_acknowledged(plain, queue)
          server
      end

      assert_received {:echo_mq_notice, _, %Notice{kind: :disconnected}}
      assert_received {:echo_mq_notice, _, %Notice{kind: :reconnected}}
    end
  end

  test "a stop ends while there is no server", %{queue: queue} do
    server = Server.start()
    {:ok, bus} = Connector.start_link(url: Server.url(server), node_id: 1, timeout: 60_000)
    append!(bus, queue, 3)
    test = self()

    handler = fn _message ->
      send(test, {:begun, self()})

      receive do
        :go -> :ok
      end
    end

    consumer = start!(bus, queue, handler: handler, on_notice: self())
    assert_receive {:begun, worker}, 60_000
    Server.kill(server)
    send(worker, :go)
    assert {:ok, left} = StreamConsumer.stop(consumer, 200)
    assert left >= 1
    assert StreamConsumer.stop(consumer, 200) == {:ok, 0}
    assert {:ok, _} = Connector.close(bus, 200)
    Server.remove(server)
  end

  defp until_handled(ids) do
    unless Enum.empty?(ids) do
      [message] = handled(1)
      until_handled(MapSet.delete(ids, message.id))
    end
  end
end
