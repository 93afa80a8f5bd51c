defmodule EchoMQ.StreamConsumerModuleTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Consumers
  import ExUnit.CaptureLog

  alias EchoMQ.Notice
  alias EchoMQ.Test.Reports

  setup do
    %{bus: connect!()}
  end

  defmodule Mailer do
    use EchoMQ.StreamConsumer, stream: "s", group: "g", group_start: :head, retry: 1, shutdown: 60_000

    @impl true
    def handle_message(%{payload: %{"n" => "1"}, attempts: 1}), do: {:error, "not yet"}

    def handle_message(message) do
      send(Process.whereis(:"#{message.payload["to"]}"), {:handled, message})
      :ok
    end

    @impl true
    def handle_notice(notice), do: send(Process.whereis(:mailer_test), {:told, notice})
  end

  defmodule Batches do
    use EchoMQ.StreamConsumer, id: :batches, restart: :permanent

    @impl true
    def handle_batch(messages) do
      send(Process.whereis(:batches_test), {:batch, length(messages)})
      :ok
    end
  end

  defmodule Neither do
    use EchoMQ.StreamConsumer
  end

  defmodule Both do
    use EchoMQ.StreamConsumer
    @impl true
    def handle_message(_message), do: :ok
    @impl true
    def handle_batch(_messages), do: :ok
  end

  test "a module handles messages and notices", %{bus: bus, plain: plain, queue: queue} do
    Process.register(self(), :mailer_test)
    records = for n <- 1..3, do: [n: "#{n}", to: "mailer_test"]
    {:ok, _} = EchoMQ.Stream.append_batch(bus, queue, "s", records, atomic: true)
    start_supervised!({Mailer, conn: bus, queue: queue})
    assert Enum.sort(for message <- handled(3), do: message.payload["n"]) == ["1", "2", "3"]
    assert_receive {:told, %Notice{kind: :failed, message: "not yet", attempts: 1}}, 60_000
    until_acknowledged(plain, queue)
  end

  test "a module handles batches", %{bus: bus, plain: plain, queue: queue} do
    Process.register(self(), :batches_test)
    append!(bus, queue, 20)

    options = [
      conn: bus,
      queue: queue,
      stream: "s",
      group: "g",
      group_start: :head,
      max_n: 20,
      max_wait: 60_000
    ]

    start_supervised!({Batches, fn -> options end})
    assert_receive {:batch, 20}, 60_000
    until_acknowledged(plain, queue)
  end

  test "how a supervisor starts it" do
    assert %{id: Mailer, restart: :transient, shutdown: 60_000, start: {Mailer, :start_link, [start]}} =
             Mailer.child_spec(queue: "q")

    assert start.() == [connect: :lazy, queue: "q"]
    assert %{start: {Mailer, :start_link, [start]}} = Mailer.child_spec(fn -> [connect: :wait] end)
    assert start.() == [connect: :wait]
    assert %{id: :batches, restart: :permanent} = Batches.child_spec([])
  end

  test "a module that handles neither or both is refused", %{bus: bus, queue: queue} do
    for module <- [Neither, Both] do
      assert_raise ArgumentError, ~r/either handle_message\/1 or handle_batch\/1/, fn ->
        module.start_link(options(bus, queue, handler: module))
      end
    end
  end

  test "notices reach a function, which may fail, and else the log", %{bus: bus, plain: plain, queue: queue} do
    test = self()
    key = "emq:{#{queue}}:stream:s"

    on_notice = fn notice ->
      send(test, {:told, notice.kind})
      raise "broken"
    end

    capture_log(fn ->
      start!(bus, queue, on_notice: on_notice)

      # A notifier that failed tells the next notice too.
      log =
        Reports.capture(~r/a handler of EchoMQ's notices failed.*a handler of EchoMQ's notices failed/s, fn ->
          for _ <- 1..2 do
            Wait.until(fn -> match?([_], Plain.command(plain, ["XINFO", "GROUPS", key])) end)
            Plain.command(plain, ["DEL", key])
            assert_receive {:told, :group_recreated}, 60_000
          end
        end)

      assert log =~ "broken"
    end)

    capture_log(fn ->
      other = start!(bus, queue, group: "other")

      log =
        Reports.capture(~r/EchoMQ consumer .*group_recreated/, fn -> Plain.command(plain, ["DEL", key]) end)

      assert log =~ inspect(other)
    end)
  end

  test "telemetry tells of handlers and notices", %{bus: bus, queue: queue} do
    :telemetry.tell(self(), queue)
    append!(bus, queue, 2)
    handler = fn message -> if message.payload["n"] == "1", do: {:error, "no"}, else: :ok end
    start!(bus, queue, handler: handler, consumer: "c1", on_notice: self())
    about = %{queue: queue, stream: "s", group: "g", consumer: "c1"}

    for verdict <- [{:error, "no"}, :ok] do
      assert_receive {:telemetry, [:echo_mq, :consumer, :handled], %{messages: 1, duration: duration},
                      metadata},
                     60_000

      assert metadata == Map.put(about, :verdict, verdict)
      assert is_integer(duration) and duration >= 0
    end

    assert_receive {:telemetry, [:echo_mq, :consumer, :notice], %{count: 1},
                    %{notice: %Notice{kind: :failed}} = metadata},
                   60_000

    assert Map.delete(metadata, :notice) == about
  end
end
