defmodule EchoMQ.EventsPublishTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Hearing

  alias EchoMQ.Events
  alias EchoMQ.Events.{Announced, Decided}

  @vectors Path.expand("../../../conformance/vectors.json", __DIR__)
  @external_resource @vectors

  setup %{queue: queue} do
    {:ok, ear} = Plain.connect(Server.shared().tcp_port)
    %{bus: connect!(), ear: Plain.listen(ear, channel(queue))}
  end

  # As the server's own JSON reads them: name, job, payload, and the further members one behind the other.
  defp vectors(plain) do
    script = """
    local found = {}
    for _, event in ipairs(cjson.decode(ARGV[1]).events) do
      local one = {event.event, event.job, event.payload}
      for _, member in ipairs(event.extra) do
        one[#one + 1] = member[1]
        one[#one + 1] = member[2]
      end
      found[#found + 1] = one
    end
    return found
    """

    for [event, job, payload | extra] <- Plain.command(plain, ["EVAL", script, 0, File.read!(@vectors)]) do
      {event, job, for([name, value] <- Enum.chunk_every(extra, 2), do: {name, value}), payload}
    end
  end

  test "every event of the vectors has its bytes on the channel", context do
    vectors = vectors(context.plain)
    assert length(vectors) >= 4

    for {event, job, extra, payload} <- vectors do
      assert Events.publish(context.bus, context.queue, event, job, extra) == {:ok, 1}
      assert Plain.heard(context.ear) == payload
      named = for {name, value} <- extra, do: {String.to_atom(name), [value]}
      assert Events.publish(context.bus, context.queue, String.to_atom(event), job, named) == {:ok, 1}
      assert Plain.heard(context.ear) == payload
    end
  end

  test "members are a map, a keyword list or pairs, which keep their order", context do
    %{bus: bus, queue: queue, ear: ear} = context

    for extra <- [%{"n" => "1"}, [n: "1"], [{"n", ~c"1"}], %{n: "1"}] do
      assert {:ok, 1} = Events.publish(bus, queue, "added", job(), extra)
      assert Plain.heard(ear) == ~s({"event":"added","job":"#{job()}","n":"1"})
    end

    assert {:ok, 1} = Events.publish(bus, queue, "added", job(), z: "1", a: "2", m: "3")
    assert Plain.heard(ear) == ~s({"event":"added","job":"#{job()}","z":"1","a":"2","m":"3"})
  end

  test "nobody listens", %{bus: bus, queue: queue} do
    assert Events.publish(bus, queue <> "-silent", "added", job()) == {:ok, 0}
  end

  test "what cannot be published is refused before the wire", %{bus: bus, queue: queue, ear: ear} do
    for {event, job, extra, code} <- [
          {"", job(), [], :invalid_name},
          {"added", "job-7", [], :malformed_id},
          {"added", job(), [event: "x"], :reserved_field},
          {"added", job(), [{"job", "x"}], :reserved_field},
          {"added", job(), [{"a", "1"}, {"a", "2"}], :invalid_option},
          {"added", job(), [a: <<255>>], :invalid_option},
          {<<255>>, job(), [], :invalid_option},
          {"added", job(), [a: String.duplicate("x", 1_048_576)], :too_large},
          # These are read elsewhere than on a scheduler.
          {"added", job(), [a: String.duplicate("x", 500_000), job: "x"], :reserved_field},
          {"added", job(), [a: String.duplicate("x", 500_000) <> <<255>>], :invalid_option}
        ] do
      assert code(Events.publish(bus, queue, event, job, extra)) == code
    end

    assert code(Events.publish(bus, "a:b", "added", job())) == :invalid_name

    for {event, job, extra, said} <- [
          {nil, job(), [], "an event's name must be text or an atom, got: nil"},
          {7, job(), [], "an event's name must be text or an atom, got: 7"},
          {"added", 7, [], "the job must be a binary"},
          {"added", job(), [n: 7],
           "the further members, as fields of a record: field 1 of the record must have a value of iodata"},
          {"added", job(), "n", "the further members, as fields of a record: a record must be a list"}
        ] do
      assert_raise ArgumentError, said, fn -> Events.publish(bus, queue, event, job, extra) end
    end

    # Nothing of it was heard.
    assert {:ok, 1} = Events.publish(bus, queue, "last", job())
    assert Plain.heard(ear) == ~s({"event":"last","job":"#{job()}"})
  end

  test "large members are published whole", %{bus: bus, queue: queue, ear: ear} do
    text = String.duplicate("abcdefgh", 100_000)
    assert {:ok, 1} = Events.publish(bus, queue, "added", job(), text: text)
    assert Plain.heard(ear) == ~s({"event":"added","job":"#{job()}","text":"#{text}"})
  end

  test "progress changes the row and is heard; a job without a row is gone", context do
    %{bus: bus, queue: queue, plain: plain, ear: ear} = context
    row = "emq:{#{queue}}:job:#{job()}"
    assert code(Events.update_progress(bus, queue, job(), "50")) == :gone
    assert Plain.command(plain, ["EXISTS", row]) == 0
    Plain.command(plain, ["HSET", row, "state", "active"])
    assert Events.update_progress(bus, queue, job(), "50") == {:ok, 1}
    assert Plain.command(plain, ["HGETALL", row]) == ["state", "active", "progress", "50"]
    # The order of the members is the server's, so that the server reads them.
    members = "local o = cjson.decode(ARGV[1]) return {o.event, o.job, o.progress}"
    assert Plain.command(plain, ["EVAL", members, 0, Plain.heard(ear)]) == ["progress", job(), "50"]
    Plain.command(plain, ["DEL", row])
    Plain.command(plain, ["SET", row, "x"])
    assert code(Events.update_progress(bus, queue, job(), "50")) == :wrong_type
    assert code(Events.update_progress(bus, queue, "job-7", "50")) == :malformed_id
    assert_raise ArgumentError, fn -> Events.update_progress(bus, queue, job(), 50) end
  end

  test "a record is appended and announced with its place", context do
    %{bus: bus, queue: queue, plain: plain, ear: ear} = context

    for {announce, stream} <- [
          {&Events.append_and_publish/7, "s"},
          {&Events.append_sequenced_and_publish/7, "shared"}
        ] do
      assert {:ok, %Announced{id: id, published: {:ok, 1}}} =
               announce.(bus, queue, stream, [score: "7"], :completed, job(), more: "x")

      assert Plain.heard(ear) ==
               ~s({"event":"completed","job":"#{job()}","stream":"#{stream}","id":"#{id}","more":"x"})

      assert [{_entry_id, ["id", ^id, "score", "7"]}] = entries(plain, queue, stream)

      for extra <- [[id: "x"], [stream: "x"]] do
        assert code(announce.(bus, queue, stream, [score: "8"], :completed, job(), extra)) == :reserved_field
      end

      assert code(announce.(bus, queue, stream, [id: "8"], :completed, job(), [])) == :reserved_field
      assert code(announce.(bus, queue, "a:b", [score: "8"], :completed, job(), [])) == :invalid_name
      large = String.duplicate("x", 200_000)

      assert {:ok, %Announced{}} =
               announce.(bus, queue, stream, [score: large], :completed, job(), text: large)

      assert Plain.heard(ear) =~ large
      assert [_, {_, ["id", _, "score", ^large]}] = entries(plain, queue, stream)
    end

    assert {:ok, %Announced{}} = Events.append_and_publish(bus, queue, "s", %{}, :added, job())
    assert {:ok, %Announced{}} = Events.append_sequenced_and_publish(bus, queue, "s", %{}, :added, job())
  end

  test "a record is there whatever becomes of its event", %{queue: queue} do
    {bus, plain} = without_channels()

    assert {:ok, %Announced{id: id, published: {:error, error}}} =
             Events.append_and_publish(bus, queue, "s", [n: "1"], :added, job())

    assert error.code == :auth
    assert error.message =~ "`&#{channel(queue)}`"
    assert [{_, ["id", ^id, "n", "1"]}] = entries(plain, queue, "s")
  end

  test "a user without the channel is told which rule is missing", %{queue: queue} do
    {bus, _plain} = without_channels()

    for refused <- [
          Events.publish(bus, queue, :added, job()),
          Events.subscribe(bus, queue),
          EchoMQ.Cancel.cancel(bus, queue, job(), "late"),
          EchoMQ.Cancel.watch(bus, queue, job())
        ] do
      assert {:error, %Error{code: :auth, message: message}} = refused
      assert message =~ "`&#{channel(queue)}`"
    end
  end

  test "what has decided is published behind its verdict", %{bus: bus, queue: queue, ear: ear} do
    assert Events.after_verdict(bus, queue, :completed, job(), fn -> :ok end) ==
             {:ok, %Decided{verdict: :ok, published: {:ok, 1}}}

    assert Plain.heard(ear) == ~s({"event":"completed","job":"#{job()}"})

    assert Events.after_verdict(bus, queue, :failed, job(), [attempts: "3"], fn -> {:ok, %{score: 7}} end) ==
             {:ok, %Decided{verdict: %{score: 7}, published: {:ok, 1}}}

    assert Plain.heard(ear) == ~s({"event":"failed","job":"#{job()}","attempts":"3"})

    for other <- [:error, {:error, :stale}, nil, false, {:ok, 1, 2}, "text"] do
      assert Events.after_verdict(bus, queue, :failed, job(), fn -> other end) == other
    end

    assert_raise RuntimeError, "no", fn ->
      Events.after_verdict(bus, queue, :x, job(), fn -> raise "no" end)
    end

    assert catch_throw(Events.after_verdict(bus, queue, :x, job(), fn -> throw(:no) end)) == :no
    assert catch_exit(Events.after_verdict(bus, queue, :x, job(), fn -> exit(:no) end)) == :no

    for {queue, event, job, extra} <- [
          {queue, "", job(), []},
          {queue, :x, "job-7", []},
          {queue, :x, job(), [job: "x"]},
          {"a:b", :x, job(), []}
        ] do
      run = fn -> send(self(), :run) end
      assert {:error, %Error{}} = Events.after_verdict(bus, queue, event, job, extra, run)
    end

    refute_received :run
    # A verdict stands, whatever becomes of its event.
    {silent, _plain} = without_channels()

    assert {:ok, %Decided{verdict: 7, published: {:error, %Error{code: :auth}}}} =
             Events.after_verdict(silent, queue, :x, job(), fn -> {:ok, 7} end)

    gone = fn -> with {:ok, 0} <- Connector.close(silent, 0), do: :ok end

    assert {:ok, %Decided{verdict: :ok, published: {:error, %Error{code: :closed}}}} =
             Events.after_verdict(silent, queue, :x, job(), gone)

    Wait.until(fn -> match?({:error, _}, Connector.status(silent)) end)
    assert code(Events.after_verdict(silent, queue, :x, job(), fn -> send(self(), :run) end)) == :closed
    refute_received :run
    assert {:ok, 1} = Events.publish(bus, queue, "last", job())
    assert Plain.heard(ear) == ~s({"event":"last","job":"#{job()}"})
  end

  # A connector whose user has every key and command but no channel, and a plain client of the same server.
  defp without_channels do
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    {:ok, plain} = Plain.connect(server.tcp_port)
    "OK" = Plain.command(plain, ["ACL", "SETUSER", "quiet", "on", ">secret", "~*", "+@all", "resetchannels"])
    {:ok, bus} = Connector.start_link(url: Server.url(server, "quiet:secret@"), node_id: 1)
    {bus, plain}
  end
end
