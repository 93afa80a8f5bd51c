defmodule EchoMQ.StreamConsumerTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Consumers
  import ExUnit.CaptureLog

  alias EchoMQ.{Message, Notice, PullConsumer, StreamConsumer}
  alias EchoMQ.Stream, as: Bus

  setup do
    %{bus: connect!()}
  end

  describe "options" do
    test "every option of the core is documented, and no other" do
      {:docs_v1, _, _, _, %{"en" => text}, _, _} = Code.fetch_docs(StreamConsumer)
      names = for [_, name] <- Regex.scan(~r/^\| `:(\w+)`/m, text), do: name

      ours =
        for name <- EchoMQ.Native.consumer_option_names(),
            do: if(name == "start", do: "group_start", else: name)

      assert Enum.sort(names) == Enum.sort(ours)
    end

    test "are taken by their names", %{bus: bus, queue: queue} do
      consumer =
        start!(bus, queue,
          consumer: "c1",
          count: 10,
          beat: 100,
          min_idle: 5_000,
          max_attempts: :none,
          retry: 100..1_000,
          concurrency: 2,
          order_by: "player",
          on_foreign: :skip,
          max_n: 5,
          max_wait: 0,
          name: __MODULE__.Named
        )

      assert StreamConsumer.info(__MODULE__.Named) ==
               %{queue: queue, stream: "s", group: "g", consumer: "c1", state: :running, error: nil}

      assert Process.whereis(__MODULE__.Named) == consumer
      assert StreamConsumer.stop(__MODULE__.Named, 5_000) == {:ok, 0}
      assert StreamConsumer.stop(__MODULE__.Named, 5_000) == {:ok, 0}
    end

    test "that cannot be used are refused by name", %{bus: bus, queue: queue} do
      Process.flag(:trap_exit, true)

      for {option, code, subject} <- [
            {[beet: 1], :invalid_option, "beet"},
            {[count: 0], :invalid_option, "count"},
            {[retry: 5..1], :invalid_option, "retry"},
            {[retry: 60_000], :invalid_option, "retry"},
            {[on_foreign: :drop], :invalid_option, "on_foreign"},
            {[group: "a:b"], :invalid_name, "a:b"},
            {[consumer: "streams"], :invalid_name, "streams"},
            {[queue: "emq"], :invalid_name, "emq"}
          ] do
        assert {:error, %Error{code: ^code} = error} = StreamConsumer.start_link(options(bus, queue, option))
        assert error.subject =~ subject, "#{inspect(option)}: #{inspect(error)}"
      end

      for missing <- [:group, :group_start] do
        refused = bus |> options(queue) |> Keyword.delete(missing) |> StreamConsumer.start_link()
        assert {:error, %Error{code: :invalid_option}} = refused
      end

      for {start, code} <- [{"middle", :malformed_id}, {"JOB0NgWEfAER90", :kind}] do
        assert code(StreamConsumer.start_link(options(bus, queue, group_start: start))) == code
      end
    end

    test "of a wrong type raise", %{bus: bus, queue: queue} do
      for wrong <- [
            [queue: nil],
            [stream: :s],
            [handler: nil],
            [handler: fn -> :ok end],
            [handler: __MODULE__],
            [batch_handler: fn _ -> :ok end],
            [conn: nil],
            [connector: bus],
            [on_notice: "me"],
            [count: nil],
            [count: 1.5],
            [group_start: 5],
            [start: "head"]
          ] do
        assert_raise ArgumentError, fn -> StreamConsumer.start_link(options(bus, queue, wrong)) end
      end

      assert_raise ArgumentError, fn -> StreamConsumer.start_link(%{}) end
      assert_raise ArgumentError, ~r/milliseconds/, fn -> StreamConsumer.stop(self(), -1) end
    end

    test "a key of another type fails the start", %{bus: bus, plain: plain, queue: queue} do
      Plain.command(plain, ["SET", "emq:{#{queue}}:stream:s", "x"])
      assert {:error, %Error{code: :wrong_type} = error} = StreamConsumer.start_link(options(bus, queue))
      assert error.subject == "emq:{#{queue}}:stream:s"
    end
  end

  describe "a handler" do
    test "gets the message as it was written, foreign entries too", %{bus: bus, plain: plain, queue: queue} do
      all = for byte <- 0..255, into: "", do: <<byte>>
      fields = [{"k", "2"}, {"k", "1"}, {"", ""}, {all, all}]
      {:ok, id} = Bus.append(bus, queue, "s", fields)
      {:ok, entry_id} = EchoMQ.Stream.Id.to_entry(id)
      foreign = Plain.command(plain, ["XADD", "emq:{#{queue}}:stream:s", "*", "k", "v"])
      start!(bus, queue)

      assert [
               %Message{id: ^id, entry_id: ^entry_id, attempts: 1, group: "g", fields: ^fields} = message,
               %Message{id: nil, entry_id: ^foreign, payload: %{"k" => "v"}, fields: [{"k", "v"}]}
             ] = handled(2)

      assert message.payload == %{"k" => "1", "" => "", all => all}
      refute inspect(message) =~ "handle"
      until_acknowledged(plain, queue)
    end

    test "is called in order, and sees what is appended after the start", %{
      bus: bus,
      queue: queue,
      plain: plain
    } do
      start!(bus, queue, group_start: :new)
      ids = for n <- 1..500, {:ok, id} = Bus.append(bus, queue, "s", n: "#{n}"), do: id
      assert for(message <- handled(500), do: message.id) == ids
      until_acknowledged(plain, queue)
    end

    test "begins where it is told", %{bus: bus, queue: queue} do
      {:ok, first} = Bus.append_id(bus, queue, "s", "EVT0NgWEfAER90", n: "1")
      {:ok, second} = Bus.append(bus, queue, "s", n: "2")

      for {start, ids} <- [
            {:head, [first, second]},
            {first, [second]},
            {~U[2026-06-03 18:56:10.164999Z], [first, second]},
            {~U[2026-06-03 18:56:10.165000Z], [second]}
          ] do
        group = "g#{System.unique_integer([:positive])}"
        consumer = start!(bus, queue, group: group, group_start: start)
        assert for(message <- handled(length(ids)), do: message.id) == ids
        StreamConsumer.stop(consumer, 5_000)
        refute_received {:handled, _}
      end
    end

    test "that fails in whichever way does not end the consumer", %{bus: bus, plain: plain, queue: queue} do
      test = self()

      handler = fn %{payload: %{"n" => n}, attempts: attempts} = message ->
        send(test, {:handled, message})

        case {n, attempts} do
          {"1", 1} -> raise "broken"
          {"2", 1} -> throw(:broken)
          {"3", 1} -> exit(:broken)
          {"4", 1} -> {:error, :broken}
          {"5", 1} -> {:ok, "what?"}
          {"6", 1} -> {:error, "later", delay: 1}
          {"7", 1} -> spawn_link(fn -> exit(:linked) end) && Process.sleep(:infinity)
          {"8", 1} -> Process.exit(self(), :kill) && Process.sleep(:infinity)
          {"9", 1} -> {:error, "later", delay: -1}
          _ -> :ok
        end
      end

      append!(bus, queue, 10)

      log =
        capture_log(fn ->
          consumer = start!(bus, queue, handler: handler, retry: 1, on_notice: self())
          messages = handled(19)
          counts = Enum.frequencies_by(messages, & &1.payload["n"])
          assert counts == Map.new(for(n <- 1..9, do: {"#{n}", 2}) ++ [{"10", 1}])
          until_acknowledged(plain, queue)
          assert %{state: :running} = StreamConsumer.info(consumer)
        end)

      reasons =
        for _ <- 1..9 do
          assert_receive {:echo_mq_notice, _, %Notice{kind: :failed, attempts: 1} = notice}, 60_000
          notice.message
        end

      assert Enum.sort(reasons) ==
               Enum.sort([
                 "** (RuntimeError) broken",
                 "** (throw) :broken",
                 "** (exit) :broken",
                 ":broken",
                 ~s|the handler answered neither :ok nor an error, but: {:ok, "what?"}|,
                 "later",
                 "the process of the handler ended: :linked",
                 "the process of the handler ended: killed",
                 ~s|the handler answered neither :ok nor an error, but: {:error, "later", [delay: -1]}|
               ])

      for text <- ["(RuntimeError) broken", "(throw) :broken", "(exit) :broken", ":linked", "what?"] do
        assert log =~ text
      end
    end

    test "what was taken with a message whose process ended is handled once", %{
      bus: bus,
      plain: plain,
      queue: queue
    } do
      append!(bus, queue, 50)
      test = self()

      handler = fn message ->
        send(test, {:handled, message})
        if message.payload["n"] == "10" and message.attempts == 1, do: Process.exit(self(), :kill)
        :ok
      end

      capture_log(fn ->
        start!(bus, queue, handler: handler, retry: 1)
        messages = handled(51)
        until_acknowledged(plain, queue)
        assert Enum.frequencies_by(messages, & &1.attempts) == %{1 => 50, 2 => 1}
      end)
    end

    test "may give the verdict by hand", %{bus: bus, plain: plain, queue: queue} do
      append!(bus, queue, 1)
      test = self()

      handler = fn message ->
        send(
          test,
          {:verdicts, PullConsumer.extend(message), PullConsumer.ack(message), PullConsumer.extend(message)}
        )

        {:error, "is not heard any more"}
      end

      start!(bus, queue, handler: handler, on_notice: self())
      assert_receive {:verdicts, :ok, :ok, {:error, %Error{code: :state}}}, 60_000
      until_acknowledged(plain, queue)
      refute_received {:echo_mq_notice, _, _}
    end

    test "that runs longer than min_idle keeps its message", %{bus: bus, plain: plain, queue: queue} do
      append!(bus, queue, 1)
      test = self()

      handler = fn message ->
        send(test, {:begun, self(), message.attempts})

        receive do
          :done -> :ok
        end
      end

      start!(bus, queue, handler: handler, min_idle: 3_000, beat: 10)
      assert_receive {:begun, worker, 1}, 60_000
      # Another consumer looks for what is idle all the while.
      other = start!(bus, queue, min_idle: 3_000, beat: 10)
      [{entry_id, _, 1}] = pending(plain, queue)
      key = "emq:{#{queue}}:stream:s"

      # Its idle time falls again and again, since signs of life arrive.
      for _ <- 1..2, do: until_younger(plain, key, entry_id)
      send(worker, :done)
      until_acknowledged(plain, queue)
      StreamConsumer.stop(other, 5_000)
      refute_received {:begun, _, _}
      refute_received {:handled, _}
    end

    test "of batches gets several at once, and its verdict is on all", %{bus: bus, plain: plain, queue: queue} do
      append!(bus, queue, 25)
      test = self()

      handler = fn messages ->
        send(test, {:batch, for(message <- messages, do: {message.payload["n"], message.attempts})})
        if Enum.any?(messages, &(&1.attempts == 1 and &1.payload["n"] == "15")), do: {:error, "no"}, else: :ok
      end

      more = [handler: nil, batch_handler: handler, max_n: 10, max_wait: 1_000, retry: 1]
      {:ok, _} = bus |> options(queue, more) |> Keyword.delete(:handler) |> StreamConsumer.start_link()
      until_acknowledged(plain, queue)
      batches = batches()
      assert Enum.all?(batches, &(length(&1) <= 10))
      assert hd(batches) == for(n <- 1..10, do: {"#{n}", 1})
      assert Enum.frequencies_by(Enum.concat(batches), &elem(&1, 1))[1] == 25
      assert {"15", 2} in Enum.concat(batches)
    end
  end

  describe "concurrency" do
    test "handles as many at a time, each value in its order", %{bus: bus, plain: plain, queue: queue} do
      records = for n <- 1..60, do: [player: "p#{rem(n, 6)}", n: "#{n}"]
      {:ok, _} = Bus.append_batch(bus, queue, "s", records, atomic: true)
      test = self()

      handler = fn message ->
        send(test, {:begun, self()})

        receive do
          :go -> send(test, {:handled, message})
        end

        :ok
      end

      start!(bus, queue, handler: handler, concurrency: 3, order_by: "player")
      workers = for _ <- 1..3, do: assert_receive({:begun, worker}, 60_000) && worker
      assert workers |> Enum.uniq() |> length() == 3
      Enum.each(workers, &send(&1, :go))
      go_on = spawn_link(fn -> relay() end)
      messages = handle_all(60, [], go_on)
      until_acknowledged(plain, queue)

      for {_player, of_player} <- Enum.group_by(messages, & &1.payload["player"]) do
        ids = for message <- of_player, do: message.id
        assert ids == Enum.sort(ids)
      end
    end
  end

  describe "suspend" do
    test "lets the message in hand finish and no other begin", %{bus: bus, plain: plain, queue: queue} do
      append!(bus, queue, 20)
      {handler, step} = stepping()
      consumer = start!(bus, queue, handler: handler)
      assert step.() == "1"
      assert step.() == "2"
      assert_receive {:begun, worker, "3"}, 60_000
      assert StreamConsumer.suspend(consumer) == :ok
      assert %{state: :suspended} = StreamConsumer.info(consumer)
      send(worker, :go)
      Wait.until(fn -> length(pending(plain, queue)) == 17 end)
      refute_received {:begun, _, _}
      assert StreamConsumer.resume(consumer) == :ok
      assert %{state: :running} = StreamConsumer.info(consumer)
      assert for(_ <- 4..20, do: step.()) == for(n <- 4..20, do: "#{n}")
      until_acknowledged(plain, queue)
    end
  end

  # A handler that waits for the test, and a function that lets it take one step and answers the message's number.
  defp stepping do
    test = self()

    handler = fn message ->
      send(test, {:begun, self(), message.payload["n"]})

      receive do
        :go -> :ok
      end
    end

    step = fn ->
      assert_receive {:begun, worker, n}, 60_000
      send(worker, :go)
      n
    end

    {handler, step}
  end

  defp until_younger(plain, key, entry_id) do
    idle = fn ->
      plain |> Plain.command(["XPENDING", key, "g", entry_id, entry_id, 1]) |> hd() |> Enum.at(2)
    end

    before = Wait.until(fn -> (idle = idle.()) > 20 && idle end)
    Wait.until(fn -> idle.() < before end)
  end

  defp batches do
    receive do
      {:batch, batch} -> [batch | batches()]
    after
      0 -> []
    end
  end

  defp relay do
    receive do
      {:begun, worker} -> send(worker, :go)
    end

    relay()
  end

  defp handle_all(0, messages, _go_on), do: Enum.reverse(messages)

  defp handle_all(left, messages, go_on) do
    receive do
      {:begun, _worker} = begun ->
        send(go_on, begun)
        handle_all(left, messages, go_on)

      {:handled, message} ->
        handle_all(left - 1, [message | messages], go_on)
    after
      60_000 -> flunk("#{left} more messages were not handled")
    end
  end
end
