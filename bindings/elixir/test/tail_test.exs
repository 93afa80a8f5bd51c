defmodule EchoMQ.TailTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.{Gap, Tail}
  alias EchoMQ.Stream, as: Bus

  setup do
    %{bus: connect!()}
  end

  defp append!(bus, queue, numbers) do
    for n <- numbers, {:ok, id} = Bus.append(bus, queue, "s", n: "#{n}"), do: id
  end

  test "begins where it is told and goes on with what is appended", %{bus: bus, queue: queue} do
    [first, second] = append!(bus, queue, 1..2)
    {:ok, new} = Tail.open(bus, queue, "s", :new)
    {:ok, behind} = Tail.open(bus, queue, "s", first)
    {:ok, head} = Tail.open(bus, queue, "s", :head)
    {:ok, since} = Tail.open(bus, queue, "s", DateTime.add(DateTime.utc_now(), 3_600))
    assert Tail.take(new, 1, 0) == {:ok, []}
    [third] = append!(bus, queue, [3])

    for {tail, ids} <- [{new, [third]}, {behind, [second, third]}, {head, [first, second, third]}] do
      assert take(tail, length(ids)) == ids
      assert Tail.take(tail, 1, 0) == {:ok, []}
    end

    # What is appended now is minted before that instant.
    assert Tail.take(since, 1, 0) == {:ok, []}
  end

  test "shows each record with all that there is to it", %{bus: bus, plain: plain, queue: queue} do
    {:ok, id} = Bus.append(bus, queue, "s", [{"k", "1"}, {"k", "2"}])
    foreign = Plain.command(plain, ["XADD", "emq:{#{queue}}:stream:s", "*", "id", "mine"])

    assert [
             %Record{id: ^id, fields: [{"k", "1"}, {"k", "2"}], foreign?: false},
             %Record{id: nil, entry_id: ^foreign, fields: [{"id", "mine"}], foreign?: true}
           ] = bus |> Bus.tail(queue, "s", :head) |> Enum.take(2)
  end

  test "says where records are missing", %{bus: bus, queue: queue} do
    ids = append!(bus, queue, 1..10)
    {:ok, 5} = Bus.trim(bus, queue, "s", {:maxlen, 5, false})
    [from, to] = for at <- [1, 5], {:ok, entry_id} = EchoMQ.Stream.Id.to_entry(Enum.at(ids, at)), do: entry_id

    assert [%Gap{from: ^from, to: ^to} | records] =
             bus |> Bus.tail(queue, "s", Enum.at(ids, 1)) |> Enum.take(6)

    assert for(record <- records, do: record.id) == Enum.drop(ids, 5)
  end

  test "an enumeration that ends closes its connection, and may be begun again", context do
    %{bus: bus, plain: plain, queue: queue} = context
    append!(bus, queue, 1..3)
    tail = Bus.tail(bus, queue, "s", :head)

    readers = fn ->
      plain |> Plain.command(["CLIENT", "LIST"]) |> String.split("\n") |> Enum.count(&(&1 =~ queue))
    end

    assert readers.() == 0
    assert [%{fields: [{"n", "1"}]}] = Enum.take(tail, 1)
    assert [_, _, %{fields: [{"n", "3"}]}] = Enum.take(tail, 3)
  end

  test "a process that enumerates waits without holding anything up, and dies well", %{bus: bus, queue: queue} do
    test = self()

    {process, monitor} =
      spawn_monitor(fn -> bus |> Bus.tail(queue, "s", :new) |> Enum.each(&send(test, {:record, &1})) end)

    until_each_waits([process])

    Wait.until(fn ->
      append!(bus, queue, [1]) && Process.info(test, :message_queue_len) != {:message_queue_len, 0}
    end)

    Process.exit(process, :kill)
    assert_receive {:DOWN, ^monitor, :process, _, :killed}
  end

  test "goes on where it was when its connection breaks", %{queue: queue} do
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    {:ok, bus} = Connector.start_link(url: Server.url(server), node_id: 1, reconnect_max: 50)
    {:ok, plain} = Plain.connect(server.tcp_port)
    [first] = append!(bus, queue, [1])
    {:ok, tail} = Tail.open(bus, queue, "s", :head)
    assert take(tail, 1) == [first]
    assert Plain.command(plain, ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]) >= 2
    ids = append!(bus, queue, 2..50)
    assert take(tail, 49) == ids
  end

  test "ends with its connector, and with its owner's close", %{bus: bus, queue: queue} do
    {:ok, tail} = Tail.open(bus, queue, "s", :new)
    assert Tail.close(tail) == :ok
    assert Tail.take(tail, 1) == :closed
    {:ok, tail} = Tail.open(bus, queue, "s", :new)
    assert Connector.close(bus, 5_000) == {:ok, 0}
    assert code(Tail.take(tail, 1)) == :closed
    assert Tail.take(tail, 1) == :closed
    assert code(Tail.open(bus, queue, "s", :new)) == :closed
    assert_raise Error, ~r/closed/, fn -> bus |> Bus.tail(queue, "s", :new) |> Enum.take(1) end
  end

  test "refuses what is no place, no stream and no owner", %{bus: bus, plain: plain, queue: queue} do
    assert code(Tail.open(bus, queue, "s", "middle")) == :malformed_id
    assert code(Tail.open(bus, queue, "s", "JOB0NgWEfAER90")) == :kind
    assert code(Tail.open(bus, "a:b", "s", :new)) == :invalid_name
    Plain.command(plain, ["SET", "emq:{#{queue}}:stream:text", "x"])
    assert code(Tail.open(bus, queue, "text", :new)) == :wrong_type
    assert_raise ArgumentError, fn -> Tail.open(bus, queue, "s", 5) end
    {:ok, tail} = Tail.open(bus, queue, "s", :new)
    assert_raise ArgumentError, fn -> Tail.take(tail, 0) end
    other = Task.async(fn -> catch_error(Tail.take(tail, 1)) end)
    assert %ArgumentError{message: "only the process that opened" <> _} = Task.await(other)
  end

  # The ids of as many records as that.
  defp take(_tail, 0), do: []

  defp take(tail, count) do
    {:ok, records} = Tail.take(tail, count, 60_000)
    for(record <- records, do: record.id) ++ take(tail, count - length(records))
  end
end
