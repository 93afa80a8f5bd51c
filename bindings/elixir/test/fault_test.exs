defmodule EchoMQ.FaultTest do
  # Each panic is written to standard error by Rust before it is caught.
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.Native

  setup do
    bus = connect!()

    # Whatever panicked: the VM is there, and the connection still works.
    on_exit(fn -> assert {:ok, "PONG"} = EchoMQ.Connector.command(connect!(), ["PING"]) end)
    %{bus: bus}
  end

  test "a panic in a call, while decoding or while encoding is an error of the caller", %{bus: bus} do
    assert_raise ErlangError, ~r/nif_panicked/, fn -> Native.panic_in_call(1) end
    assert_raise ErlangError, ~r/nif_panicked/, fn -> Native.panic_in_decode(1) end
    assert_raise ErlangError, ~r/nif_panicked/, fn -> Native.panic_in_encode() end
    assert {:ok, "PONG"} = Connector.command(bus, ["PING"])
  end

  test "a panic in a task is an error of the caller that waits for it", %{bus: bus} do
    assert_raise ErlangError, ~r/nif_panicked/, fn -> Native.call(&Native.panic_in_task/1) end
    assert {:ok, "PONG"} = Connector.command(bus, ["PING"])
    assert mailbox() == []
  end

  test "a panic while a message is made is an error of the caller, and other messages arrive", %{bus: bus} do
    others = for _ <- 1..50, do: Task.async(fn -> Connector.command(bus, ["PING"]) end)
    assert_raise ErlangError, ~r/nif_panicked/, fn -> Native.call(&Native.panic_in_message/1) end
    assert Enum.uniq(Task.await_many(others)) == [{:ok, "PONG"}]
    assert mailbox() == []
  end

  test "a panic that another process waits for in the caller's place is an error of the caller" do
    assert_raise ErlangError, ~r/nif_panicked/, fn ->
      Native.call(&Native.panic_in_task/1, 60_000, :command)
    end

    assert mailbox() == []
  end

  test "a panic while a resource is dropped harms nobody", %{bus: bus} do
    {process, monitor} = spawn_monitor(fn -> Native.panic_in_drop() end)
    assert_receive {:DOWN, ^monitor, :process, ^process, :normal}
    Native.panic_in_drop()
    :erlang.garbage_collect()
    assert {:ok, "PONG"} = Connector.command(bus, ["PING"])
  end
end
