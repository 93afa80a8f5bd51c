defmodule EchoMQ.KeyspaceTest do
  use EchoMQ.Test.Case, async: true

  test "keys of a queue, and their slot as the server sees it", %{plain: plain, queue: queue} do
    {:ok, key} = Keyspace.stream_key(queue, "events")
    assert key == "emq:{#{queue}}:stream:events"
    assert Keyspace.key(queue, "stream:events") == {:ok, key}
    assert Keyspace.slot("123456789") == 12_739
    assert Keyspace.slot(key) == Keyspace.slot(queue)

    bus = connect!()
    {:ok, _} = EchoMQ.Stream.append(bus, queue, "events", [])
    assert Plain.command(plain, ["EXISTS", key]) == 1
  end

  test "bad names are refused everywhere" do
    for name <- ["", "a b", "a:b", "a{b", "é", <<0xFF>>, "a\0", String.duplicate("x", 129)] do
      assert code(Keyspace.key(name, "seq")) == :invalid_name
      assert code(Keyspace.stream_key("q", name)) == :invalid_name
    end

    assert code(Keyspace.stream_key("emq", "s")) == :invalid_name
    assert {:ok, _} = Keyspace.stream_key(String.duplicate("x", 128), "s")
  end

  test "names are text" do
    assert_raise ArgumentError, "the queue must be a binary", fn -> Keyspace.key(:orders, "seq") end
    assert_raise ArgumentError, "the stream must be a binary", fn -> Keyspace.stream_key("orders", nil) end
    assert_raise ArgumentError, "the key must be a binary", fn -> Keyspace.slot(1) end
    assert_raise ArgumentError, "the key must be UTF-8 text", fn -> Keyspace.slot(<<0xFF>>) end
  end
end
