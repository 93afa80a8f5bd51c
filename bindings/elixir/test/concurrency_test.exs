defmodule EchoMQ.ConcurrencyTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.Stream, as: Bus

  test "64 processes append at once: nothing is lost, and each one's order is kept", %{
    plain: plain,
    queue: queue
  } do
    bus = connect!()

    receipts =
      1..64
      |> Enum.map(fn writer ->
        Task.async(fn ->
          for n <- 1..100 do
            {:ok, id} = Bus.append(bus, queue, "s", writer: "#{writer}", n: "#{n}")
            {id, ["writer", "#{writer}", "n", "#{n}"]}
          end
        end)
      end)
      |> Task.await_many(:infinity)

    stored = for {_, ["id", id | fields]} <- entries(plain, queue, "s"), do: {id, fields}
    assert stored == receipts |> Enum.concat() |> Enum.sort()
    assert Enum.all?(receipts, &(&1 == Enum.sort(&1)))
  end

  describe "with a server that is paused" do
    setup do
      server = Server.start()
      on_exit(fn -> Server.remove(server) end)

      {:ok, bus} =
        Connector.start_link(url: Server.url(server), node_id: 1, timeout: 60_000, max_in_flight: 500)

      {:ok, plain} = Plain.connect(server.tcp_port)
      %{server: server, bus: bus, plain: plain}
    end

    # More calls than the VM has threads of any kind: one that held a thread would end the ticking.
    test "calls that wait hold up nobody", %{server: server, bus: bus, queue: queue} do
      Server.pause(server)
      waiting = for n <- 1..400, do: Task.async(fn -> Bus.append(bus, queue, "s", n: "#{n}") end)
      until_each_waits(for call <- waiting, do: call.pid)

      ticks =
        for _ <- 1..50 do
          Process.sleep(1)
          {:ok, _} = File.read(__ENV__.file)
        end

      assert length(ticks) == 50
      assert Enum.all?(waiting, &Process.alive?(&1.pid))
      Server.resume(server)
      assert Enum.all?(Task.await_many(waiting, :infinity), &match?({:ok, _}, &1))
    end

    test "more calls than the bound are refused, and the others end well", %{server: server, queue: queue} do
      {:ok, bus} =
        Connector.start_link(url: Server.url(server), node_id: 2, timeout: 60_000, max_in_flight: 10)

      Server.pause(server)
      calls = for _ <- 1..50, do: Task.async(fn -> Bus.append(bus, queue, "s", []) end)

      refused =
        Wait.until(fn -> (ended = Enum.reject(calls, &Process.alive?(&1.pid))) |> length() == 40 && ended end)

      assert Enum.uniq(for call <- refused, do: code(Task.await(call))) == [:overloaded]
      Server.resume(server)
      assert Enum.all?(Task.await_many(calls -- refused, :infinity), &match?({:ok, _}, &1))
    end

    test "a caller that is killed does no harm", %{server: server, bus: bus, plain: plain, queue: queue} do
      Server.pause(server)
      callers = for _ <- 1..100, do: spawn(fn -> Bus.append(bus, queue, "s", k: "v") end)
      until_each_waits(callers)
      Enum.each(callers, &Process.exit(&1, :kill))
      Server.resume(server)
      {:ok, id} = Bus.append(bus, queue, "s", k: "last")
      stored = entries(plain, queue, "s")
      assert length(stored) == 101
      assert {_, ["id", ^id, "k", "last"]} = List.last(stored)
    end

    test "a call past its deadline leaves nothing in the mailbox", %{
      server: server,
      plain: plain,
      queue: queue
    } do
      {:ok, bus} = Connector.start_link(url: Server.url(server), node_id: 3, timeout: 2_000)
      # It has its node, so that what is appended is sent.
      {:ok, _} = Connector.mint(bus)
      Server.pause(server)

      assert {:error, %Error{code: :unknown_outcome, id: "EVT" <> _ = id}} =
               Bus.append(bus, queue, "s", k: "v")

      assert code(Connector.command(bus, ["PING"])) in [:timeout, :unknown_outcome, :disconnected]
      Server.resume(server)
      Wait.until(fn -> match?({:ok, "PONG"}, Connector.command(bus, ["PING"])) end)

      # Asking again with the same id tells whether it is there.
      assert match?({:ok, ^id}, Bus.append_id(bus, queue, "s", id, k: "v")) or
               match?([{_, ["id", ^id, "k", "v"]}], entries(plain, queue, "s"))

      assert [{_, ["id", ^id, "k", "v"]}] = entries(plain, queue, "s")
      assert mailbox() == []
    end

    test "a caller that waits no longer exits, and the answer reaches nobody", %{server: server, bus: bus} do
      Server.pause(server)

      assert {:timeout, {Connector, :command, [20]}} =
               catch_exit(Connector.command(bus, ["INCR", "late"], 20))

      assert {:timeout, {Connector, :pipeline, [0]}} =
               catch_exit(Connector.pipeline(bus, [["INCR", "late"]], 0))

      Server.resume(server)
      assert Connector.command(bus, ["INCR", "late"], 60_000) == {:ok, 3}
      assert mailbox() == []
    end
  end
end
