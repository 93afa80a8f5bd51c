defmodule EchoMQ.WaitsTest do
  # A wait that is given up has taken nothing: what it would have been given is given to the next.
  use EchoMQ.Test.Case, async: true

  import ExUnit.CaptureLog
  import EchoMQ.Test.Consumers, only: [pending: 2]

  alias EchoMQ.{Events, Notice, Notifier, PullConsumer, StreamConsumer, Tail}
  alias EchoMQ.Stream, as: Bus

  @count 3_000
  @job "JOB000xY9Wvvcd"

  setup %{queue: queue} do
    bus = connect!()
    %{bus: bus, numbers: Enum.map(1..@count, &to_string/1), queue: queue}
  end

  # Appends numbered records a few at a time, so that waits begin before, while and after something comes.
  defp write(bus, queue, numbers) do
    Task.async(fn ->
      numbers |> Stream.chunk_every(:rand.uniform(4)) |> Enum.each(&write_some(bus, queue, &1))
    end)
  end

  defp write_some(bus, queue, numbers) do
    {:ok, results} = Bus.append_batch(bus, queue, "s", for(n <- numbers, do: [n: n]))
    true = Enum.all?(results, &match?({:ok, _}, &1))
  end

  # What `next` answers, again and again, until so many have come; and how many waits gave nothing.
  defp take_all(next, left, taken \\ [], given_up \\ 0)
  defp take_all(_next, 0, taken, given_up), do: {Enum.reverse(taken), given_up}

  defp take_all(next, left, taken, given_up) do
    case next.() do
      nil -> take_all(next, left, taken, given_up + 1)
      one -> take_all(next, left - 1, [one | taken], given_up)
    end
  end

  # Waits for one that was asked for, and gives up after up to 2 ms, counted more finely than a receive does.
  defp ask(reader, waited, module) do
    tag = module.ask(waited)
    until = System.monotonic_time(:microsecond) + :rand.uniform(2_000)

    with false <- wait(tag, until), :ok <- module.cancel_ask(waited, tag) do
      nil
    else
      true -> reader.(0)
    end
  end

  defp wait(tag, until) do
    receive do
      {^tag, :ready} -> true
    after
      0 -> if System.monotonic_time(:microsecond) < until, do: wait(tag, until), else: false
    end
  end

  defp tail_next(tail, within) do
    case Tail.take(tail, 1, within) do
      {:ok, [record]} -> Map.new(record.fields)["n"]
      {:ok, []} -> nil
    end
  end

  test "of a tail, by its time or by another message", %{bus: bus, queue: queue, numbers: numbers} do
    {:ok, tail} = Tail.open(bus, queue, "s", :head)
    writing = write(bus, queue, numbers)
    next = &tail_next(tail, &1)
    either = fn -> if :rand.uniform(2) == 1, do: next.(:rand.uniform(3) - 1), else: ask(next, tail, Tail) end
    {taken, given_up} = take_all(either, @count)
    Task.await(writing, :infinity)
    assert taken == numbers
    assert given_up > 0
    assert Tail.take(tail, 1, 0) == {:ok, []}
    assert mailbox() == []
  end

  defp consumer_next(consumer, within) do
    case PullConsumer.take(consumer, 1, within) do
      {:ok, [message]} -> PullConsumer.ack(message) && message.payload["n"]
      {:ok, []} -> nil
    end
  end

  defp no_dead_letter(plain, queue) do
    assert pending(plain, queue) == []
    assert Plain.command(plain, ["EXISTS", "emq:{#{queue}}:stream:s:dead"]) == 0
  end

  test "of a consumer, by its time or by another message", context do
    %{bus: bus, plain: plain, queue: queue, numbers: numbers} = context
    options = [group: "g", group_start: :head, max_attempts: 1]
    {:ok, consumer} = PullConsumer.start(bus, queue, "s", options)
    writing = write(bus, queue, numbers)
    next = &consumer_next(consumer, &1)

    either = fn ->
      if :rand.uniform(2) == 1, do: next.(:rand.uniform(3) - 1), else: ask(next, consumer, PullConsumer)
    end

    {taken, given_up} = take_all(either, @count)
    Task.await(writing, :infinity)
    assert taken == numbers
    assert given_up > 0
    assert PullConsumer.stop(consumer, 60_000) == {:ok, 0}
    no_dead_letter(plain, queue)
    assert mailbox() == []
  end

  # Does something that a process waits for, and ends the process after it was told and before it knows.
  defp kill_between(process, monitor, happen) do
    until_each_waits([process])
    :erlang.suspend_process(process)
    happen.()
    Wait.until(fn -> Process.info(process, :message_queue_len) != {:message_queue_len, 0} end)
    Process.exit(process, :kill)
    assert_receive {:DOWN, ^monitor, :process, _, :killed}, 60_000
  end

  # What a process has in hand at its end would be kept from others for `:min_idle`.
  test "of a consumer whose process ends", %{bus: bus, queue: queue} do
    options = [group: "g", group_start: :head, min_idle: 3_600_000, beat: 20]

    for n <- 1..20 do
      test = self()

      {process, monitor} =
        spawn_monitor(fn ->
          {:ok, consumer} = PullConsumer.start(bus, queue, "s", options)
          send(test, :consumes)
          PullConsumer.take(consumer, 10)
        end)

      assert_receive :consumes, 60_000
      kill_between(process, monitor, fn -> write_some(bus, queue, ["#{n}"]) end)
      {:ok, next} = PullConsumer.start(bus, queue, "s", options)
      assert consumer_next(next, 60_000) == "#{n}"
      assert PullConsumer.stop(next, 60_000) == {:ok, 0}
    end
  end

  test "of a consumer's worker that ends", %{bus: bus, plain: plain, queue: queue} do
    test = self()

    {:ok, consumer} =
      StreamConsumer.start_link(
        conn: bus,
        queue: queue,
        stream: "s",
        group: "g",
        group_start: :head,
        max_attempts: 1,
        handler: fn message -> send(test, {:seen, message.payload["n"]}) && :ok end
      )

    capture_log(fn ->
      for n <- 1..50 do
        [worker] = Wait.until(fn -> workers(consumer) end)
        kill_between(worker, Process.monitor(worker), fn -> write_some(bus, queue, ["#{n}"]) end)
        assert_receive {:seen, seen}, 60_000
        assert seen == "#{n}"
      end
    end)

    assert StreamConsumer.stop(consumer, 60_000) == {:ok, 0}
    no_dead_letter(plain, queue)
  end

  defp workers(consumer) do
    case Map.keys(:sys.get_state(consumer).workers) do
      [] -> nil
      workers -> workers
    end
  end

  test "of a process that waits for a notice and ends", %{bus: bus, queue: queue} do
    {:ok, consumer} = PullConsumer.start(bus, queue, "s", group: "g", group_start: :head, retry: 1)
    notices = EchoMQ.Native.consumer_notices(consumer.native)

    for n <- 1..50 do
      {process, monitor} = spawn_monitor(fn -> Notifier.next(notices, :infinity) end)

      kill_between(process, monitor, fn ->
        write_some(bus, queue, ["#{n}"])
        {:ok, [message]} = PullConsumer.take(consumer, 1)
        :ok = PullConsumer.fail(message, "no #{n}")
      end)

      expected = "no #{n}"
      assert %Notice{kind: :failed, message: ^expected} = PullConsumer.notice(consumer, 60_000)
      {:ok, [again]} = PullConsumer.take(consumer, 1)
      :ok = PullConsumer.ack(again)
      assert PullConsumer.notice(consumer, 0) == :timeout
    end
  end

  test "of a subscriber, which has its mailbox", %{bus: bus, queue: queue, numbers: numbers} do
    {:ok, listener} = Events.start_link(conn: bus, queue: queue)
    :ok = Events.subscribe(listener, buffer: 2 * @count)

    publishing =
      Task.async(fn -> for n <- numbers, do: {:ok, 1} = Events.publish(bus, queue, "progress", @job, n: n) end)

    next = fn ->
      receive do
        {:emq_event, "progress", %{"n" => n}} -> n
      after
        :rand.uniform(2) - 1 -> nil
      end
    end

    {taken, given_up} = take_all(next, @count)
    Task.await(publishing, :infinity)
    assert taken == numbers
    assert given_up > 0
    assert mailbox() == []
  end

  test "and leaves no task behind", %{bus: bus, queue: queue} do
    token = EchoMQ.Cancel.new()

    for _ <- 1..100 do
      {process, monitor} = spawn_monitor(fn -> EchoMQ.Cancel.await(token) end)
      until_each_waits([process])
      Process.exit(process, :kill)
      assert_receive {:DOWN, ^monitor, :process, _, :killed}, 60_000
    end

    # A token is watched for until nobody has it, and none of those who waited has it still.
    {:ok, plain} = Plain.connect(Server.shared().tcp_port)

    {process, monitor} =
      spawn_monitor(fn ->
        {:ok, watched} = EchoMQ.Cancel.watch(bus, queue, @job)
        EchoMQ.Cancel.await(watched)
      end)

    channel = "emq:{#{queue}}:events"
    Wait.until(fn -> Plain.command(plain, ["PUBSUB", "NUMSUB", channel]) == [channel, 1] end)
    until_each_waits([process])
    Process.exit(process, :kill)
    assert_receive {:DOWN, ^monitor, :process, _, :killed}, 60_000
    Wait.until(fn -> Plain.command(plain, ["PUBSUB", "NUMSUB", channel]) == [channel, 0] end)
  end
end
