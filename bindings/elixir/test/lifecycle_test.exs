defmodule EchoMQ.LifecycleTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.Stream, as: Bus

  setup do
    server = Server.start(~w(--appendonly yes))
    on_exit(fn -> Server.remove(server) end)
    %{server: server, url: Server.url(server)}
  end

  test "a server that is killed and starts again under appends", %{server: server, url: url, queue: queue} do
    {:ok, bus} = Connector.start_link(url: url, node_id: 1, timeout: 60_000, reconnect_max: 100)
    test = self()

    writers =
      for writer <- 1..20 do
        Task.async(fn ->
          for n <- 1..200 do
            if writer == 1 and n == 100, do: send(test, :half)
            Bus.append(bus, queue, "s", writer: "#{writer}", n: "#{n}")
          end
        end)
      end

    assert_receive :half, 60_000
    server = server |> Server.kill() |> Server.start_again()
    results = writers |> Task.await_many(:infinity) |> Enum.concat()
    {:ok, plain} = Plain.connect(server.tcp_port)
    stored = for {_, ["id", id | _]} <- entries(plain, queue, "s"), do: id

    # Every call has its answer, and what was answered `ok` is what is stored, each once.
    assert length(results) == 4_000
    assert Enum.uniq(for {kind, _} <- results, do: kind) == [:ok]
    assert Enum.sort(for {:ok, id} <- results, do: id) == stored
    assert {:ok, %{connected: true, reconnects: reconnects}} = Connector.status(bus)
    assert reconnects >= 1
  end

  test "without a server, calls fail at their deadline and work again afterwards", %{
    server: server,
    url: url,
    queue: queue
  } do
    {:ok, bus} = Connector.start_link(url: url, node_id: 1, timeout: 2_000, reconnect_max: 50)
    server = Server.kill(server)
    Wait.until(fn -> match?({:ok, %{connected: false}}, Connector.status(bus)) end)
    assert code(Bus.append(bus, queue, "s", k: "v")) == :disconnected
    assert code(Bus.read(bus, queue, "s")) == :disconnected
    Server.start_again(server)
    {:ok, id} = Wait.until(fn -> with {:error, _} <- Bus.append(bus, queue, "s", k: "v"), do: nil end)
    assert {:ok, [{^id, _}]} = Bus.read(bus, queue, "s")
    assert mailbox() == []
  end

  test "close waits for the calls under way", %{server: server, url: url, queue: queue} do
    {:ok, bus} = Connector.start_link(url: url, node_id: 1, timeout: 60_000)
    Server.pause(server)
    waiting = for _ <- 1..10, do: Task.async(fn -> Bus.append(bus, queue, "s", []) end)
    until_each_waits(for call <- waiting, do: call.pid)
    closing = Task.async(fn -> Connector.close(bus, :infinity) end)
    until_each_waits([bus])
    Server.resume(server)
    assert Task.await(closing, :infinity) == {:ok, 0}
    assert Enum.all?(Task.await_many(waiting), &match?({:ok, _}, &1))
    refute Process.alive?(bus)
    assert code(Bus.append(bus, queue, "s", [])) == :closed
  end

  test "close gives up at its deadline and says how much", %{server: server, url: url, queue: queue} do
    {:ok, bus} = Connector.start_link(url: url, node_id: 1, timeout: 60_000)
    Server.pause(server)
    waiting = for _ <- 1..10, do: Task.async(fn -> Bus.append(bus, queue, "s", []) end)
    until_each_waits(for call <- waiting, do: call.pid)
    assert Connector.close(bus, 50) == {:ok, 10}
    assert Enum.uniq(for call <- waiting, do: code(Task.await(call))) -- [:unknown_outcome, :closed] == []
    assert Connector.close(bus, 50) == {:ok, 0}
    assert_raise ArgumentError, fn -> Connector.close(bus, -1) end
  end

  test "close ends while there is no server", %{server: server, url: url} do
    {:ok, bus} = Connector.start_link(url: url)
    Server.kill(server)
    Wait.until(fn -> match?({:ok, %{connected: false}}, Connector.status(bus)) end)
    assert Connector.close(bus, 2_000) == {:ok, 0}
  end

  test "two that close at once both succeed", %{url: url} do
    {:ok, bus} = Connector.start_link(url: url)
    closing = for _ <- 1..10, do: Task.async(fn -> Connector.close(bus, 5_000) end)
    assert Enum.uniq(Task.await_many(closing)) == [{:ok, 0}]
  end

  test "a connector that is killed takes its connection with it", %{server: server, url: url, queue: queue} do
    Process.flag(:trap_exit, true)
    {:ok, bus} = Connector.start_link(url: url, node_id: 1, timeout: 60_000, client_name: "doomed")
    {:ok, plain} = Plain.connect(server.tcp_port)
    assert Plain.command(plain, ["CLIENT", "LIST"]) =~ "name=doomed"
    Server.pause(server)
    waiting = Task.async(fn -> Bus.append(bus, queue, "s", []) end)
    until_each_waits([waiting.pid])
    Process.exit(bus, :kill)
    assert code(Task.await(waiting, :infinity)) in [:unknown_outcome, :closed]
    Server.resume(server)
    Wait.until(fn -> not (Plain.command(plain, ["CLIENT", "LIST"]) =~ "name=doomed") end)
    assert code(Connector.command(bus, ["PING"])) == :closed
  end

  test "a supervisor's stop lets the calls under way finish", %{server: server, url: url, queue: queue} do
    {:ok, supervisor} =
      Supervisor.start_link([{Connector, url: url, node_id: 1, name: __MODULE__}], strategy: :one_for_one)

    Server.pause(server)
    waiting = Task.async(fn -> Bus.append(__MODULE__, queue, "s", k: "v") end)
    until_each_waits([waiting.pid])
    stopping = Task.async(fn -> Supervisor.stop(supervisor) end)
    until_each_waits([Process.whereis(__MODULE__)])
    Server.resume(server)
    assert {:ok, _} = Task.await(waiting)
    assert Task.await(stopping) == :ok
  end

  test "connectors end with the table of connectors, and new ones work", %{url: url} do
    # Only in a VM of its own, since it ends every connector there is.
    script = """
    {:ok, _} = Application.ensure_all_started(:echo_mq)
    Process.flag(:trap_exit, true)
    {:ok, bus} = EchoMQ.Connector.start_link(url: #{inspect(url)})
    Process.exit(Process.whereis(EchoMQ.Connector.Table), :kill)
    receive do {:EXIT, ^bus, :killed} -> :ok end
    {:ok, again} = EchoMQ.Connector.start_link(url: #{inspect(url)})
    {:ok, "PONG"} = EchoMQ.Connector.command(again, ["PING"])
    IO.puts("fine")
    """

    assert {output, 0} = elixir(script)
    assert output =~ "fine"
  end

  test "a VM ends by itself with a connector open and calls under way", %{url: url} do
    script = """
    {:ok, _} = Application.ensure_all_started(:echo_mq)
    {:ok, bus} = EchoMQ.Connector.start_link(url: #{inspect(url)}, node_id: 1)
    for _ <- 1..10, do: spawn(fn -> EchoMQ.Stream.append(bus, "q", "s", []) end)
    """

    assert elixir(script) == {"", 0}
  end

  # Runs a script in a VM of its own.
  defp elixir(script) do
    ebin = Path.join(Mix.Project.app_path(), "ebin")
    System.cmd("elixir", ["-pa", ebin, "-e", script], stderr_to_stdout: true)
  end
end
