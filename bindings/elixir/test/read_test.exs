defmodule EchoMQ.ReadTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.Stream, as: Bus

  # Ten records, ten milliseconds apart, from 2025-01-01T00:00:00Z on.
  setup %{queue: queue} do
    bus = connect!()

    ids =
      for n <- 0..9 do
        {:ok, id} = EchoMQ.Stream.Id.from_entry("#{1_735_689_600_000 + 10 * n}-4096")
        {:ok, ^id} = Bus.append_id(bus, queue, "s", id, n: "#{n}")
        id
      end

    %{bus: bus, ids: ids}
  end

  defp numbers({:ok, pairs}), do: for({_, %{"n" => n}} <- pairs, do: String.to_integer(n))

  test "read/3..6 by bounds and count", %{bus: bus, queue: queue, ids: ids} do
    [third, eighth] = [Enum.at(ids, 3), Enum.at(ids, 8)]
    assert numbers(Bus.read(bus, queue, "s")) == Enum.to_list(0..9)
    assert {:ok, [{id, %{"n" => "0"}} | _]} = Bus.read(bus, queue, "s")
    assert id == hd(ids)
    assert numbers(Bus.read(bus, queue, "s", third)) == Enum.to_list(3..9)
    assert numbers(Bus.read(bus, queue, "s", "(" <> third, eighth)) == Enum.to_list(4..8)
    assert numbers(Bus.read(bus, queue, "s", third, "(" <> eighth, 2)) == [3, 4]
    assert numbers(Bus.read(bus, queue, "s", "-", "+", 0)) == []
    assert numbers(Bus.read(bus, queue, "s", eighth, third)) == []
    assert Bus.read(bus, queue, "nothing") == {:ok, []}
  end

  test "windows have both edges, cut to the millisecond", %{bus: bus, queue: queue} do
    at = &DateTime.add(~U[2025-01-01 00:00:00.000000Z], &1, :microsecond)
    assert numbers(Bus.read_window(bus, queue, "s", at.(10_999), at.(30_000))) == [1, 2, 3]
    assert numbers(Bus.read_window(bus, queue, "s", at.(11_000), at.(29_999))) == [2]
    assert numbers(Bus.read_window(bus, queue, "s", at.(10_000), at.(10_000))) == [1]
    assert numbers(Bus.read_window(bus, queue, "s", at.(0), at.(90_000), 2)) == [0, 1]
    assert numbers(Bus.read_window(bus, queue, "s", ~U[1969-12-31 23:59:59Z], at.(0))) == [0]
    assert numbers(Bus.read_since(bus, queue, "s", at.(80_000))) == [8, 9]
    assert numbers(Bus.read_since(bus, queue, "s", at.(80_000), 1)) == [8]
    assert code(Bus.read_window(bus, queue, "s", at.(1_000), at.(0))) == :invalid_window

    # The same instant in another zone.
    zone = %{
      at.(80_000)
      | hour: 3,
        utc_offset: 10_800,
        std_offset: 0,
        zone_abbr: "EAT",
        time_zone: "Africa/Nairobi"
    }

    assert numbers(Bus.read_since(bus, queue, "s", zone)) == [8, 9]
  end

  test "read_last is newest first", %{bus: bus, queue: queue} do
    assert numbers(Bus.read_last(bus, queue, "s", 3)) == [9, 8, 7]
    assert numbers(Bus.read_last(bus, queue, "s", 0)) == []
    assert numbers(Bus.read_last(bus, queue, "s", 100)) == Enum.to_list(9..0)
  end

  test "a foreign entry is given with all its fields and no id", %{bus: bus, plain: plain, queue: queue} do
    key = "emq:{#{queue}}:stream:f"
    Plain.command(plain, ["XADD", key, "5-1", "id", "EVT0NgWEfAER90", "k", "1", "k", "2", "", ""])
    fields = %{"id" => "EVT0NgWEfAER90", "k" => "2", "" => ""}
    assert Bus.read(bus, queue, "f") == {:ok, [{nil, fields}]}
    assert {:ok, [%Record{id: nil, entry_id: "5-1", foreign?: true} = record]} = Bus.records(bus, queue, "f")
    assert record.fields == [{"id", "EVT0NgWEfAER90"}, {"k", "1"}, {"k", "2"}, {"", ""}]
  end

  test "stream is lazy, paged, and can be read again", %{bus: bus, queue: queue, ids: ids} do
    all = Bus.stream(bus, queue, "s", page_size: 3)
    assert Enum.map(all, & &1.id) == ids
    assert Enum.map(all, & &1.id) == ids
    assert [%Record{foreign?: false}] = Enum.take(all, 1)

    # What is appended ahead of the reader is seen; nothing is read before it is asked for.
    seen =
      Enum.map(Bus.stream(bus, queue, "s", page_size: 5), fn record ->
        if record.id == hd(ids), do: {:ok, _} = Bus.append(bus, queue, "s", n: "10")
        record.id
      end)

    assert length(seen) == 11
    of = fn options -> for record <- Bus.stream(bus, queue, "s", options), do: Map.new(record.fields)["n"] end
    assert of.(from: Enum.at(ids, 7), to: "(" <> Enum.at(ids, 9)) == ["7", "8"]
    assert of.(to: Enum.at(ids, 1)) == ["0", "1"]
    assert of.(count: 2, page_size: 1) == ["0", "1"]
    assert of.(to: Enum.at(ids, 2), page_size: 2, page_bytes: 1) == ["0", "1", "2"]
    assert of.(last: 2, page_bytes: 1) == ["10", "9"]
    assert of.(window: {~U[2025-01-01 00:00:00.020Z], ~U[2025-01-01 00:00:00.030Z]}) == ["2", "3"]
    assert of.(since: ~U[2025-01-01 00:00:00.080Z], count: 1) == ["8"]
    assert of.(last: 2) == ["10", "9"]
  end

  test "stream raises its error where it is enumerated", %{bus: bus, plain: plain, queue: queue} do
    Plain.command(plain, ["SET", "emq:{#{queue}}:stream:text", "v"])
    wrong = Bus.stream(bus, queue, "text")
    assert_raise Error, ~r/wrong_type/, fn -> Enum.to_list(wrong) end
    assert_raise Error, ~r/malformed_id/, fn -> Enum.to_list(Bus.stream(bus, queue, "s", from: "x")) end
    assert_raise Error, ~r/closed/, fn -> Enum.to_list(Bus.stream(:nobody, queue, "s")) end
    backwards = [window: {~U[2025-01-02 00:00:00Z], ~U[2025-01-01 00:00:00Z]}]
    assert_raise Error, ~r/invalid_window/, fn -> Enum.to_list(Bus.stream(bus, queue, "s", backwards)) end
  end

  test "errors by code", %{bus: bus, plain: plain, queue: queue} do
    Plain.command(plain, ["SET", "emq:{#{queue}}:stream:text", "v"])
    assert code(Bus.read(bus, queue, "text")) == :wrong_type
    assert code(Bus.append(bus, queue, "text", [])) == :wrong_type
    assert code(Bus.trim(bus, queue, "text", {:maxlen, 0})) == :wrong_type
    assert code(Bus.read(bus, queue, "s", "x")) == :malformed_id
    assert code(Bus.read(bus, queue, "s", "-", "JOB0NgWEfAER90")) == :kind
    assert code(Bus.read(bus, queue, "a b")) == :invalid_name
    assert code(Bus.read_last(bus, "a b", "s", 1)) == :invalid_name
  end

  test "arguments of a wrong type raise", %{bus: bus, queue: queue} do
    for wrong <- [-1, "1", 1.0, nil, :some] do
      assert_raise ArgumentError, fn -> Bus.read(bus, queue, "s", "-", "+", wrong) end
      assert_raise ArgumentError, fn -> Bus.read_last(bus, queue, "s", wrong) end
      assert_raise ArgumentError, fn -> Enum.to_list(Bus.stream(bus, queue, "s", page_size: wrong)) end
      assert_raise ArgumentError, fn -> Enum.to_list(Bus.stream(bus, queue, "s", page_bytes: wrong)) end
    end

    for wrong <- [~N[2025-01-01 00:00:00], ~D[2025-01-01], 1_735_689_600_000, "2025-01-01T00:00:00Z", nil] do
      assert_raise ArgumentError, ~r/DateTime/, fn -> Bus.read_since(bus, queue, "s", wrong) end

      assert_raise ArgumentError, ~r/DateTime/, fn ->
        Bus.read_window(bus, queue, "s", DateTime.utc_now(), wrong)
      end
    end

    assert_raise ArgumentError, fn -> Bus.read(bus, queue, "s", 5) end

    assert_raise ArgumentError, fn ->
      Bus.stream(bus, queue, "s", since: ~U[2025-01-01 00:00:00Z], last: 1)
    end

    assert_raise ArgumentError, fn -> Bus.stream(bus, queue, "s", pagesize: 1) end
  end
end
