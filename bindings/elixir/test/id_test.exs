defmodule EchoMQ.Stream.IdTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.Stream.Id

  # Worked out by hand: ((1735689600001 - 1704067200000) << 22) + (3 << 12), in base62.
  @id "EVT09nSpDrfawy"
  @snowflake 132_633_958_813_806_592
  @unix_ms 1_735_689_600_001

  test "an id and its parts" do
    assert @snowflake == Bitwise.bsl(@unix_ms - 1_704_067_200_000, 22) + Bitwise.bsl(3, 12)

    assert {:ok, %Id{namespace: "EVT", snowflake: @snowflake, unix_ms: @unix_ms, node: 3, sequence: 0}} =
             Id.decode(@id)

    assert Id.encode("EVT", @snowflake) == {:ok, @id}
    assert Id.to_entry(@id) == {:ok, "1735689600001-12288"}
    assert Id.from_entry("1735689600001-12288") == {:ok, @id}
    assert Id.to_datetime(@id) == {:ok, ~U[2025-01-01 00:00:00.001Z]}
  end

  test "the smallest and the largest id" do
    assert Id.encode("AAA", 0) == {:ok, "AAA00000000000"}
    assert Id.encode("ZZZ", 9_223_372_036_854_775_807) == {:ok, "ZZZAzL8n0Y58m7"}
    assert {:ok, %Id{snowflake: 9_223_372_036_854_775_807, entry_id: nil}} = Id.decode("ZZZAzL8n0Y58m7")
  end

  test "ids of another namespace are decoded, but are no ids of records" do
    assert {:ok, %Id{namespace: "JOB", entry_id: nil}} = Id.decode("JOB0NgWEfAER90")
    assert code(Id.parse("JOB0NgWEfAER90")) == :kind
    assert code(Id.to_entry("JOB0NgWEfAER90")) == :kind
  end

  test "what is no id is refused, with the first check that fails" do
    for {text, check} <- [
          {"", "length"},
          {"EVT0NgWEfAER9", "length"},
          {"evt0NgWEfAER90", "namespace"},
          {"EVT0NgWEfAER-0", "charset"},
          {<<"EVT0NgWEfAER", 0xFF, "0">>, "charset"},
          {"EVTAzL8n0Y58m8", "range"}
        ] do
      assert {:error, %Error{code: :malformed_id, message: message}} = Id.parse(text)
      assert String.starts_with?(message, check), message
      assert code(Id.decode(text)) == :malformed_id
      assert code(Id.unix_ms(text)) == :malformed_id
      assert code(Id.to_datetime(text)) == :malformed_id
    end

    assert code(Id.encode("EVT", 9_223_372_036_854_775_808)) == :malformed_id
    assert code(Id.encode("EV", 1)) == :malformed_id
    assert code(Id.from_entry("1-1")) == :malformed_id
    assert code(Id.from_entry("x")) == :malformed_id
  end

  # A number cannot hold an id in every language, so none takes one.
  test "an id is text" do
    for wrong <- [653_247_040_368_672_769, :EVT0NgWEfAER90, nil, 'EVT0NgWEfAER90', <<1::3>>] do
      assert_raise ArgumentError, ~r/must be a binary/, fn -> Id.parse(wrong) end
      assert_raise ArgumentError, ~r/must be a binary/, fn -> Id.decode(wrong) end
      assert_raise ArgumentError, ~r/must be a binary/, fn -> Id.from_entry(wrong) end
    end

    for wrong <- [-1, 1.0, "1", 18_446_744_073_709_551_616] do
      assert_raise ArgumentError, ~r/snowflake/, fn -> Id.encode("EVT", wrong) end
    end
  end
end
