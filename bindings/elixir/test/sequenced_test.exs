defmodule EchoMQ.SequencedTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.Stream, as: Bus

  test "a candidate above the top is kept, another is given by the sequencer", %{plain: plain, queue: queue} do
    near = connect!(node_id: 7)
    late = connect!(node_id: 8, clock: 1_735_689_600_000)
    {:ok, first} = Bus.append_sequenced(near, queue, "s", n: "1")
    {:ok, second} = Bus.append_sequenced(late, queue, "s", [{"n", "2"}, {"n", "3"}])
    assert {:ok, %{node: 7, unix_ms: ms}} = EchoMQ.Stream.Id.decode(first)
    assert {:ok, %{node: 1023, unix_ms: ^ms}} = EchoMQ.Stream.Id.decode(second)

    assert [{_, ["id", ^first, "n", "1"]}, {_, ["id", ^second, "n", "2", "n", "3"]}] =
             entries(plain, queue, "s")
  end

  test "many writers of one stream are none of them refused", %{plain: plain, queue: queue} do
    ids =
      for(n <- 1..8, do: connect!(node_id: n, clock: 1_735_689_600_000 + n))
      |> Enum.map(fn bus ->
        Task.async(fn ->
          for n <- 1..50, {:ok, id} = Bus.append_sequenced(bus, queue, "s", n: "#{n}"), do: id
        end)
      end)
      |> Task.await_many(:infinity)

    assert Enum.all?(ids, &(&1 == Enum.sort(&1)))
    stored = for {_, ["id", id | _]} <- entries(plain, queue, "s"), do: id
    assert stored == ids |> Enum.concat() |> Enum.sort()
    assert stored == Enum.uniq(stored)
  end

  test "a batch is all or nothing, in one piece", %{plain: plain, queue: queue} do
    bus = connect!(clock: 1_735_689_600_000)
    {:ok, _} = Bus.append_id(bus, queue, "s", "EVT0NgWEfAER90", n: "0")
    {:ok, ids} = Bus.append_batch(bus, queue, "s", [[n: "1"], %{n: "2"}], sequenced: true)
    assert [_, {_, ["id", first, "n", "1"]}, {_, ["id", second, "n", "2"]}] = entries(plain, queue, "s")
    assert ids == [first, second]
    assert code(Bus.append_batch(bus, queue, "s", [[n: "3"], [id: "4"]], sequenced: true)) == :reserved_field
    assert length(entries(plain, queue, "s")) == 3
    assert Bus.append_batch(bus, queue, "s", [], sequenced: true) == {:ok, []}
    assert Bus.append_batch(bus, queue, "s", [], sequenced: true, atomic: true) == {:ok, []}

    for wrong <- [[sequenced: 1], [sequenced: true, atomic: nil], [sequence: true], true] do
      assert_raise ArgumentError, fn -> Bus.append_batch(bus, queue, "s", [], wrong) end
    end
  end

  test "a large record and a large batch", %{plain: plain, queue: queue} do
    bus = connect!()
    value = :binary.copy("x", 300_000)
    {:ok, id} = Bus.append_sequenced(bus, queue, "s", value: value)
    assert [{_, ["id", ^id, "value", ^value]}] = entries(plain, queue, "s")
    {:ok, ids} = Bus.append_batch(bus, queue, "s", for(n <- 1..5_000, do: [n: "#{n}"]), sequenced: true)
    assert length(ids) == 5_000 and ids == Enum.sort(ids)
  end

  test "a stream whose top is far ahead, and a clock that is, are refused", %{plain: plain, queue: queue} do
    ahead = (System.os_time(:millisecond) + 3_600_000) |> Integer.to_string()
    Plain.command(plain, ["XADD", "emq:{#{queue}}:stream:s", ahead <> "-0", "k", "v"])
    assert code(Bus.append_sequenced(connect!(), queue, "s", n: "1")) == :stream_ahead
    # A node of its own: what it mints is ahead for the rest of the VM's life.
    fast = connect!(node_id: 99, clock: System.os_time(:millisecond) + 3_600_000, max_clock_ahead: :none)
    assert code(Bus.append_sequenced(fast, queue, "other", n: "1")) == :clock_ahead
    assert entries(plain, queue, "other") == []
  end
end
