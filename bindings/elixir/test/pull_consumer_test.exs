defmodule EchoMQ.PullConsumerTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Consumers, only: [append!: 3, pending: 2]

  alias EchoMQ.{Notice, PullConsumer}
  alias EchoMQ.Stream, as: Bus

  setup %{queue: queue} do
    bus = connect!()
    %{bus: bus, ids: append!(bus, queue, 10)}
  end

  defp start!(bus, queue, more \\ []) do
    options = Keyword.merge([group: "g", group_start: :head], more)
    {:ok, consumer} = PullConsumer.start(bus, queue, "s", options)
    consumer
  end

  test "hands out as many as are asked for, in order, and nothing where there is nothing", context do
    %{bus: bus, queue: queue, ids: ids} = context
    consumer = start!(bus, queue)
    {:ok, three} = PullConsumer.take(consumer, 3)
    {:ok, [_ | _] = next} = PullConsumer.take(consumer, 100)
    rest = take(consumer, 7 - length(next))
    assert for(message <- three ++ next ++ rest, do: message.id) == ids
    assert PullConsumer.take(consumer, 1, 0) == {:ok, []}
    assert %{group: "g", name: <<_, _::binary>>} = consumer
  end

  test "a verdict counts once, and tells the server", context do
    %{bus: bus, plain: plain, queue: queue} = context
    consumer = start!(bus, queue, consumer: "c1", retry: 1)
    [one, two, three, four | rest] = take(consumer, 10)
    assert PullConsumer.ack(one) == :ok
    assert PullConsumer.ack(rest) == :ok
    assert PullConsumer.extend(two) == :ok
    assert PullConsumer.fail(two, :no, delay: 0) == :ok
    assert PullConsumer.give_back(three) == :ok
    assert PullConsumer.flush(consumer) == :ok

    for verdict <- [
          &PullConsumer.ack/1,
          &PullConsumer.fail(&1, "no"),
          &PullConsumer.give_back/1,
          &PullConsumer.extend/1
        ],
        settled <- [one, two, three] do
      assert code(verdict.(settled)) == :state
    end

    assert code(PullConsumer.ack([four, one])) == :state
    assert PullConsumer.flush(consumer) == :ok
    two_entry = two.entry_id
    three_entry = three.entry_id
    assert [{^two_entry, "c1", _}, {^three_entry, "c1", 1}] = pending(plain, queue)

    # What was given back comes at once, as the same delivery; what failed comes as another.
    again = take(consumer, 2)
    assert Map.new(again, &{&1.id, &1.attempts}) == %{two.id => 2, three.id => 1}
    assert PullConsumer.ack(again) == :ok
    assert PullConsumer.stop(consumer, 5_000) == {:ok, 0}
    assert pending(plain, queue) == []
    assert PullConsumer.stop(consumer, 5_000) == {:ok, 0}
    assert PullConsumer.take(consumer, 1) == :stopped
  end

  test "an entry that fails its last attempt is a dead letter, and can be put back", context do
    %{bus: bus, plain: plain, queue: queue, ids: [first | _]} = context
    consumer = start!(bus, queue, max_attempts: 2, retry: 1)
    [message | others] = take(consumer, 10)
    :ok = PullConsumer.ack(others)
    :ok = PullConsumer.fail(message, "no address")
    [again] = take(consumer, 1)
    assert {again.id, again.attempts} == {first, 2}
    :ok = PullConsumer.fail(again, {:still, "none"})
    :ok = PullConsumer.flush(consumer)
    Wait.until(fn -> pending(plain, queue) == [] end)

    [letter] = Enum.to_list(Bus.dead_letters(bus, queue, "s"))

    assert [
             {"origin", ^first},
             {"group", "g"},
             {"attempts", "2"},
             {"error", "{:still, \"none\"}"},
             {"at", at},
             {"n", "1"}
           ] = letter.fields

    assert {:ok, _} = DateTime.from_unix(String.to_integer(at), :millisecond)

    assert [[entry_id, ["id", id | _]]] =
             Plain.command(plain, ["XRANGE", "emq:{#{queue}}:stream:s:dead", "-", "+"])

    assert {letter.id, letter.entry_id} == {id, entry_id}
    assert Enum.to_list(Bus.dead_letters(bus, queue, "s", from: "(" <> letter.id)) == []

    notices = for _ <- 1..3, do: PullConsumer.notice(consumer)

    assert [
             %Notice{kind: :failed, id: ^first, attempts: 1, message: "no address"},
             %Notice{kind: :failed, id: ^first, attempts: 2, message: "{:still, \"none\"}"},
             %Notice{kind: :dead_letter, id: ^first, attempts: 2}
           ] = notices

    {:ok, back} = Bus.put_back(bus, queue, "s", letter.id)
    assert Enum.to_list(Bus.dead_letters(bus, queue, "s")) == []
    assert [%{id: ^back, payload: %{"n" => "1"}, attempts: 1}] = take(consumer, 1)
    assert code(Bus.put_back(bus, queue, "s", letter.id)) == :gone
    assert code(Bus.put_back(bus, queue, "s", "nonsense")) == :malformed_id
    assert_raise ArgumentError, fn -> Bus.dead_letters(bus, queue, "s", since: 1) end
  end

  test "asking is answered by one message, which takes nothing", %{bus: bus, queue: queue, ids: ids} do
    consumer = start!(bus, queue)
    tag = PullConsumer.ask(consumer)
    assert_receive {^tag, :ready}, 60_000
    {:ok, [_ | _] = there} = PullConsumer.take(consumer, 100, 0)
    messages = there ++ take(consumer, 10 - length(there))
    assert for(message <- messages, do: message.id) == ids
    forgotten = PullConsumer.ask(consumer)
    tag = PullConsumer.ask(consumer)
    :ok = PullConsumer.ack(messages)
    assert {:ok, 0} = PullConsumer.stop(consumer, 5_000)
    assert_receive {^tag, :ready}, 60_000
    assert PullConsumer.take(consumer, 1, 0) == :stopped
    tag = PullConsumer.ask(consumer)
    assert_receive {^tag, :ready}, 60_000
    tag = PullConsumer.ask(consumer)
    Wait.until(fn -> {tag, :ready} in mailbox() end)
    assert PullConsumer.cancel_ask(consumer, tag) == :ok
    assert mailbox() == []
    refute forgotten == tag
  end

  test "suspended, it hands nothing out", %{bus: bus, queue: queue} do
    consumer = start!(bus, queue)
    {:ok, [_]} = PullConsumer.take(consumer, 1)
    assert PullConsumer.suspend(consumer) == :ok
    assert PullConsumer.take(consumer, 9, 0) == {:ok, []}
    assert PullConsumer.resume(consumer) == :ok
    assert {:ok, [_ | _]} = PullConsumer.take(consumer, 9)
  end

  test "only its owner takes, anyone gives verdicts", %{bus: bus, queue: queue} do
    consumer = start!(bus, queue)
    {:ok, [message | _]} = PullConsumer.take(consumer, 10)
    take = Task.async(fn -> catch_error(PullConsumer.take(consumer, 1)) end)
    assert %ArgumentError{message: "only the process that started" <> _} = Task.await(take)
    assert Task.await(Task.async(fn -> PullConsumer.ack(message) end)) == :ok

    for wrong <- [0, -1, :all, 1.5] do
      assert_raise ArgumentError, fn -> PullConsumer.take(consumer, wrong) end
    end

    assert_raise ArgumentError, fn -> PullConsumer.take(consumer, 1, -1) end
    assert_raise ArgumentError, fn -> PullConsumer.fail(message, "no", delay: -1) end
    assert_raise ArgumentError, fn -> PullConsumer.start(bus, queue, "s", %{}) end
  end

  test "ends with its owner, and its messages reach another", %{bus: bus, queue: queue, plain: plain} do
    test = self()

    {owner, monitor} =
      spawn_monitor(fn ->
        consumer = start!(bus, queue, min_idle: 200, beat: 10)
        {:ok, messages} = PullConsumer.take(consumer, 4)
        send(test, {:taken, length(messages)})
        Process.sleep(:infinity)
      end)

    assert_receive {:taken, 4}, 60_000
    Process.exit(owner, :kill)
    assert_receive {:DOWN, ^monitor, :process, _, _}, 60_000
    other = start!(bus, queue, min_idle: 200, beat: 10)
    messages = take(other, 10)

    assert Enum.sort(for message <- messages, do: String.to_integer(message.payload["n"])) ==
             Enum.to_list(1..10)

    :ok = PullConsumer.ack(messages)
    :ok = PullConsumer.flush(other)
    assert pending(plain, queue) == []
  end

  test "says so when what was pending is trimmed, when an entry is foreign and when the group vanishes",
       context do
    %{bus: bus, plain: plain, queue: queue} = context
    key = "emq:{#{queue}}:stream:s"
    first = start!(bus, queue, consumer: "c1")
    {:ok, [lost | _]} = PullConsumer.take(first, 3)
    Wait.until(fn -> length(pending(plain, queue)) == 10 end)
    assert {:ok, 3} = PullConsumer.stop(first, 0)
    {:ok, 9} = Bus.trim(bus, queue, "s", {:maxlen, 1, false})
    foreign = Plain.command(plain, ["XADD", key, "*", "k", "v"])
    again = start!(bus, queue, consumer: "c1", on_foreign: :skip)
    lost_entry = lost.entry_id
    notices = for _ <- 1..10, do: PullConsumer.notice(again)
    assert %Notice{kind: :lost, entry_id: ^lost_entry, code: nil} = hd(notices)
    assert Enum.frequencies_by(notices, & &1.kind) == %{lost: 9, foreign: 1}
    assert [%{entry_id: ^foreign}] = Enum.filter(notices, &(&1.kind == :foreign))
    assert [%{payload: %{"n" => "10"}} = last] = take(again, 1)
    :ok = PullConsumer.ack(last)
    :ok = PullConsumer.flush(again)
    assert pending(plain, queue) == []

    Plain.command(plain, ["DEL", key])
    assert %Notice{kind: :group_recreated} = notice = PullConsumer.notice(again)
    assert to_string(notice) == "group_recreated: " <> notice.message
    {:ok, id} = Bus.append(bus, queue, "s", n: "11")
    assert [%{id: ^id}] = take(again, 1)
  end

  test "tells of the same trouble once a second, with how many it stands for", context do
    %{plain: plain, queue: queue} = context
    user = "acks-#{queue}"
    Plain.command(plain, ["ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all"])
    bus = connect!(username: user, password: "secret")
    consumer = start!(bus, queue, beat: 10)
    [message] = take(consumer, 1)
    Plain.command(plain, ["ACL", "SETUSER", user, "-xack"])
    :ok = PullConsumer.ack(message)
    assert %Notice{kind: :trouble, code: :auth, times: 1} = PullConsumer.notice(consumer)
    assert %Notice{kind: :trouble, code: :auth, times: times} = PullConsumer.notice(consumer)
    assert times > 1
    Plain.command(plain, ["ACL", "SETUSER", user, "+xack"])
    Wait.until(fn -> length(pending(plain, queue)) == 9 end)
  end

  test "every kind of notice is known, documented and typed" do
    assert Enum.map(Notice.kinds(), &Atom.to_string/1) == EchoMQ.Native.notice_kinds()
    {:docs_v1, _, _, _, _, _, docs} = Code.fetch_docs(Notice)
    [text] = for {{:type, :kind, 0}, _, _, %{"en" => text}, _} <- docs, do: text
    assert for([_, word] <- Regex.scan(~r/\* `:(\w+)`/, text), do: String.to_atom(word)) == Notice.kinds()
  end

  # As many messages as that.
  # One call gives what has come by then, which may be a part of what is there.
  defp take(_consumer, 0), do: []

  defp take(consumer, count) do
    {:ok, messages} = PullConsumer.take(consumer, count, 60_000)
    messages ++ take(consumer, count - length(messages))
  end
end
