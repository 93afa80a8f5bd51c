defmodule EchoMQ.StreamTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.Stream, as: Bus

  setup do
    %{bus: connect!()}
  end

  describe "append" do
    test "writes the record as the plain client sees it", %{bus: bus, plain: plain, queue: queue} do
      all = for byte <- 0..255, into: "", do: <<byte>>

      fields = [
        {"k", "2"},
        {"k", "1"},
        {"", ""},
        {all, all <> <<0xC3, 0x28>>},
        {"name", "Zoë ✓"},
        {"%", "%00\r\n"}
      ]

      {:ok, id} = Bus.append(bus, queue, "s", fields)
      {:ok, entry_id} = EchoMQ.Stream.Id.to_entry(id)
      flat = Enum.flat_map(fields, &Tuple.to_list/1)
      assert entries(plain, queue, "s") == [{entry_id, ["id", id | flat]}]

      assert Bus.records(bus, queue, "s") ==
               {:ok, [%Record{id: id, entry_id: entry_id, fields: fields, foreign?: false}]}
    end

    test "takes maps, keyword lists, pairs, atoms and iodata", %{bus: bus, plain: plain, queue: queue} do
      for fields <- [
            %{"a" => "1", "b" => "2"},
            %{a: "1", b: '2'},
            [a: "1", b: ["", ?2]],
            [{"a", "1"}, {'b', [["2"] | ""]}],
            [{:a, <<"1">>}, {["b"], "2"}]
          ] do
        {:ok, id} = Bus.append(bus, queue, "s", fields)
        assert {_, ["id", ^id, "a", "1", "b", "2"]} = List.last(entries(plain, queue, "s"))
      end

      large_map = for n <- 1..100, into: %{}, do: {"f#{n}", "#{n}"}
      {:ok, id} = Bus.append(bus, queue, "large", large_map)
      assert Bus.read(bus, queue, "large") == {:ok, [{id, large_map}]}
    end

    test "takes no fields, and 500 of them", %{bus: bus, queue: queue} do
      fields = for n <- 1..500, do: {"f#{n}", "v#{n}"}
      {:ok, first} = Bus.append(bus, queue, "s", %{})
      {:ok, second} = Bus.append(bus, queue, "s", [])
      {:ok, third} = Bus.append(bus, queue, "s", fields)
      assert {:ok, [%{fields: []}, %{fields: []}, %{fields: ^fields}]} = Bus.records(bus, queue, "s")
      assert first < second and second < third
    end

    test "takes a large value, as a binary and as iodata", %{bus: bus, plain: plain, queue: queue} do
      value = :binary.copy(<<0, 1, 255, "x">>, 225 * 1024)
      {:ok, _} = Bus.append(bus, queue, "s", [{"k", value}, {:n, "1"}])

      {:ok, _} =
        Bus.append(bus, queue, "s", %{"k" => [binary_part(value, 0, 100), [binary_part(value, 100, 921_500)]]})

      {:ok, [{:ok, _}, {:ok, _}]} = Bus.append_batch(bus, queue, "s", [%{k: value}, %{k: "small"}])

      assert [
               {_, ["id", _, "k", ^value, "n", "1"]},
               {_, [_, _, "k", ^value]},
               {_, [_, _, "k", ^value]},
               {_, small}
             ] = entries(plain, queue, "s")

      assert ["id", _, "k", "small"] = small
    end

    test "refuses what no record may be", %{bus: bus, plain: plain, queue: queue} do
      assert {:error, %Error{code: :reserved_field, subject: key}} = Bus.append(bus, queue, "s", id: "x")
      assert key == "emq:{#{queue}}:stream:s"
      assert code(Bus.append(bus, queue, "s", k: :binary.copy("x", 1_048_576))) == :too_large
      assert code(Bus.append(bus, queue, "s:t", k: "v")) == :invalid_name
      assert code(Bus.append(bus, "emq", "s", k: "v")) == :invalid_name
      assert Plain.command(plain, ["EXISTS", key]) == 0
    end

    test "raises for what is no record", %{bus: bus, queue: queue} do
      for {wrong, why} <- [
            {"k=v", "a record must be a list"},
            {nil, "a record must be a list"},
            {[{"k", "v"} | "rest"], "a record must be a proper list"},
            {["k", "v"], "field 1 of the record must be a pair of name and value"},
            {[{"k", "v"}, {"k"}], "field 2 of the record must be a pair of name and value"},
            {[{"k", 5}], "field 1 of the record must have a value of iodata"},
            {[{"k", nil}], "field 1 of the record must have a value of iodata"},
            {[{"k", [256]}], "field 1 of the record must have a value of iodata"},
            {%{"k" => %{}}, "field 1 of the record must have a value of iodata"},
            {[{5, "v"}], "field 1 of the record must have a name of iodata or an atom"},
            {[{<<1::3>>, "v"}], "field 1 of the record must have a name of iodata or an atom"}
          ] do
        assert_raise ArgumentError, why, fn -> Bus.append(bus, queue, "s", wrong) end
        assert_raise ArgumentError, why, fn -> Bus.append_id(bus, queue, "s", "EVT0NgWEfAER90", wrong) end

        assert_raise ArgumentError, "record 2 of the batch: #{why}", fn ->
          Bus.append_batch(bus, queue, "s", [[], wrong])
        end
      end

      assert_raise ArgumentError, "the queue must be a binary", fn -> Bus.append(bus, :q, "s", []) end
      assert_raise ArgumentError, "the stream must be a binary", fn -> Bus.append(bus, queue, nil, []) end
      assert Bus.read(bus, queue, "s") == {:ok, []}
    end
  end

  describe "append_id" do
    test "writes under the caller's id, above the top alone", %{bus: bus, plain: plain, queue: queue} do
      id = "EVT09nSpDrfawy"
      assert Bus.append_id(bus, queue, "s", id, k: "v") == {:ok, id}
      assert entries(plain, queue, "s") == [{"1735689600001-12288", ["id", id, "k", "v"]}]

      assert {:error, %Error{code: :nonmonotonic, id: ^id, top: "1735689600001-12288"}} =
               Bus.append_id(bus, queue, "s", id, k: "w")

      assert code(Bus.append_id(bus, queue, "s", "JOB09nSpDrfawy", [])) == :kind
      assert code(Bus.append_id(bus, queue, "s", "EVT", [])) == :malformed_id
      assert_raise ArgumentError, "the id must be a binary", fn -> Bus.append_id(bus, queue, "s", 1, []) end
      assert length(entries(plain, queue, "s")) == 1
    end
  end

  describe "append_batch" do
    test "answers one result for each record", %{bus: bus, plain: plain, queue: queue} do
      records = [[n: "1"], [id: "2"], %{n: "3"}, [n: :binary.copy("x", 1_048_577)], []]

      assert {:ok, [{:ok, a}, {:error, b}, {:ok, c}, {:error, d}, {:ok, e}]} =
               Bus.append_batch(bus, queue, "s", records)

      assert {b.code, d.code} == {:reserved_field, :too_large}
      assert for({_, ["id", id | _]} <- entries(plain, queue, "s"), do: id) == [a, c, e]
      assert Bus.append_batch(bus, queue, "s", []) == {:ok, []}
      assert Bus.append_batch(bus, queue, "s", [], atomic: true) == {:ok, []}
    end

    test "of many records keeps their order, read a slice at a time", %{bus: bus, plain: plain, queue: queue} do
      records = for n <- 1..10_000, do: [n: Integer.to_string(n)]
      {:ok, results} = Bus.append_batch(bus, queue, "s", records)
      ids = for {:ok, id} <- results, do: id
      numbers = for n <- 1..10_000, do: Integer.to_string(n)
      assert for({_, ["id", id, "n", n]} <- entries(plain, queue, "s"), do: {id, n}) == Enum.zip(ids, numbers)

      rest = EchoMQ.Native.batch_add(EchoMQ.Native.batch(10_000), records)
      assert length(rest) in 1..9_999
    end

    test "atomic writes all or none", %{bus: bus, plain: plain, queue: queue} do
      {:ok, ids} = Bus.append_batch(bus, queue, "s", for(n <- 1..3_000, do: [n: "#{n}"]), atomic: true)
      assert for({_, ["id", id | _]} <- entries(plain, queue, "s"), do: id) == ids
      assert length(ids) == 3_000

      assert code(Bus.append_batch(bus, queue, "s", [[n: "1"], [id: "2"]], atomic: true)) == :reserved_field
      Plain.command(plain, ["XADD", "emq:{#{queue}}:stream:s", "9999999999999-0", "k", "v"])
      assert code(Bus.append_batch(bus, queue, "s", [[n: "1"], [n: "2"]], atomic: true)) == :nonmonotonic
      assert length(entries(plain, queue, "s")) == 3_001
    end

    test "raises for what is no batch", %{bus: bus, queue: queue} do
      assert_raise ArgumentError, fn -> Bus.append_batch(bus, queue, "s", %{}) end
      assert_raise ArgumentError, fn -> Bus.append_batch(bus, queue, "s", [[] | []] ++ :rest) end
      assert_raise ArgumentError, ~r/atomic/, fn -> Bus.append_batch(bus, queue, "s", [], atomic: 1) end
      assert_raise ArgumentError, ~r/atomic/, fn -> Bus.append_batch(bus, queue, "s", [], atomc: true) end
    end
  end

  describe "trim" do
    setup %{bus: bus, queue: queue} do
      for n <- 0..9 do
        {:ok, id} = EchoMQ.Stream.Id.from_entry("#{1_735_689_600_000 + n}-0")
        {:ok, ^id} = Bus.append_id(bus, queue, "s", id, n: "#{n}")
      end

      :ok
    end

    test "by length and by instant, exactly where that is asked for", %{bus: bus, plain: plain, queue: queue} do
      assert Bus.trim(bus, queue, "s", {:maxlen, 2}) == {:ok, 0}
      assert Bus.trim(bus, queue, "s", {:maxlen, 2, true}) == {:ok, 0}
      assert Bus.trim(bus, queue, "s", {:maxlen, 8, false}) == {:ok, 2}
      assert Bus.trim(bus, queue, "s", {:minid, ~U[2025-01-01 00:00:00.005Z]}) == {:ok, 0}
      assert Bus.trim(bus, queue, "s", {:minid, ~U[2025-01-01 00:00:00.005999Z], false}) == {:ok, 3}
      assert ["1735689600005-0" | _] = for({entry_id, _} <- entries(plain, queue, "s"), do: entry_id)
      assert Bus.trim(bus, queue, "s", {:maxlen, 0, false}) == {:ok, 5}
    end

    test "raises for what is no window", %{bus: bus, plain: plain, queue: queue} do
      for wrong <- [
            {:maxlen, -1},
            {:maxlen, "1"},
            {:maxlen, 1, :exact},
            {:minid, 1},
            {:minid, ~N[2025-01-01 00:00:00]},
            {:maxid, 1},
            10,
            nil
          ] do
        assert_raise ArgumentError, fn -> Bus.trim(bus, queue, "s", wrong) end
      end

      assert length(entries(plain, queue, "s")) == 10
    end
  end
end
