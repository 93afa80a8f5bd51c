defmodule EchoMQ.CancelTest do
  use EchoMQ.Test.Case, async: true

  import EchoMQ.Test.Hearing

  alias EchoMQ.{Cancel, Cancelled}

  setup do
    %{bus: connect!()}
  end

  defp mark(queue), do: "emq:{#{queue}}:cancel:#{job()}"

  test "a token trips once, and the first reason stays" do
    token = Cancel.new()
    assert {Cancel.check(token), Cancel.check!(token), Cancel.await(token, 0)} == {:ok, :ok, :ok}
    assert Cancel.cancel(token, "first") == :ok
    assert Cancel.cancel(token, "second") == :ok
    assert Cancel.check(token) == {:cancelled, "first"}
    assert Cancel.await(token) == {:cancelled, "first"}
    error = assert_raise Cancelled, "cancelled: first", fn -> Cancel.check!(token) end
    assert error.reason == "first"
    assert Cancel.check(Cancel.new()) == :ok
    assert Cancel.watch_error(token) == nil
  end

  test "reasons are text, or shown as they are inspected" do
    for {reason, said} <- [
          {"naïve ☕", "naïve ☕"},
          {"", ""},
          {:timeout, ":timeout"},
          {%RuntimeError{message: "no"}, "no"},
          {{:left, 7}, "{:left, 7}"}
        ] do
      token = Cancel.new()
      Cancel.cancel(token, reason)
      assert Cancel.check(token) == {:cancelled, said}
    end
  end

  test "a process that waits in its receive is told, by whoever cancels" do
    token = Cancel.new()
    test = self()
    %{ref: ref} = token

    waiting =
      spawn_link(fn ->
        receive do
          {:emq_cancel, ^ref, reason} -> send(test, {:told, reason, Cancel.check(token)})
        end
      end)

    assert Cancel.cancel(waiting, token, "late") == :ok
    assert_receive {:told, "late", {:cancelled, "late"}}, 60_000
    # Another process is told the reason that counts.
    assert Cancel.cancel(self(), token, "again") == :ok
    assert_received {:emq_cancel, ^ref, "late"}
    assert Cancel.cancel(nil, token, "again") == :ok
    refute_received {:emq_cancel, _, _}
  end

  test "who asked to be told is told once, also of what was before" do
    token = Cancel.new()
    %{ref: ref} = token
    dead = spawn(fn -> :ok end)
    Wait.until(fn -> not Process.alive?(dead) end)
    for process <- [self(), dead], do: assert(Cancel.notify(token, process) == :ok)
    Task.await(Task.async(fn -> Cancel.cancel(token, "late") end))
    assert_receive {:emq_cancel, ^ref, "late"}, 60_000
    assert Cancel.notify(token) == :ok
    assert_receive {:emq_cancel, ^ref, "late"}, 60_000
    assert mailbox() == []
    assert_raise ArgumentError, fn -> Cancel.notify(token, :name) end
  end

  test "processes that await a token are woken by it" do
    token = Cancel.new()
    waiting = for _ <- 1..100, do: Task.async(fn -> Cancel.await(token) end)
    until_each_waits(for task <- waiting, do: task.pid)
    Cancel.cancel(token, "all")
    assert Enum.uniq(Task.await_many(waiting)) == [{:cancelled, "all"}]
    assert_raise ArgumentError, fn -> Cancel.await(token, -1) end
  end

  test "cancelling a job leaves a mark for a day and tells those who listen", context do
    %{bus: bus, plain: plain, queue: queue} = context
    {:ok, ear} = Plain.connect(Server.shared().tcp_port)
    Plain.listen(ear, channel(queue))
    assert Cancel.cancel(bus, queue, job(), "the player left") == {:ok, 1}
    assert Plain.heard(ear) == ~s({"event":"cancel","job":"#{job()}","reason":"the player left"})
    assert Plain.command(plain, ["GET", mark(queue)]) == "the player left"
    assert Plain.command(plain, ["PTTL", mark(queue)]) in 86_000_000..86_400_000
    assert Cancel.cancel(bus, queue, job(), :late, ttl: 60_000) == {:ok, 1}
    assert Plain.command(plain, ["GET", mark(queue)]) == ":late"
    assert Plain.command(plain, ["PTTL", mark(queue)]) in 1..60_000
  end

  test "a watcher learns of it while it watches, and of its own job alone", context do
    %{bus: bus, plain: plain, queue: queue} = context
    {:ok, token} = Cancel.watch(bus, queue, job())
    {:ok, other} = Cancel.watch(bus, queue, "JOB0NgWEfAER90")
    %{ref: ref} = token
    Cancel.notify(token)
    assert Cancel.check(token) == :ok
    payload = ~s({"reason":"by a plain client","job":"#{job()}","event":"cancel"})
    assert Plain.command(plain, ["PUBLISH", channel(queue), payload]) == 1
    assert Cancel.await(token) == {:cancelled, "by a plain client"}
    assert_receive {:emq_cancel, ^ref, "by a plain client"}, 60_000
    assert Cancel.check(other) == :ok
    Cancel.cancel(other, "in this process")
    assert Cancel.check(other) == {:cancelled, "in this process"}
  end

  test "one who was away finds the mark", %{bus: bus, plain: plain, queue: queue} do
    Plain.command(plain, ["SET", mark(queue), "while you were away"])
    {:ok, token} = Cancel.watch(bus, queue, job())
    assert Cancel.check(token) == {:cancelled, "while you were away"}
  end

  test "one who was cut off finds the mark when the connection is back", %{queue: queue} do
    server = Server.start()
    on_exit(fn -> Server.remove(server) end)
    {:ok, bus} = Connector.start_link(url: Server.url(server))
    {:ok, token} = Cancel.watch(bus, queue, job())
    {:ok, plain} = Plain.connect(server.tcp_port)
    # Cut off and marked in one step, so that only a look behind the gap tells of it.
    "OK" = Plain.command(plain, ["MULTI"])
    "QUEUED" = Plain.command(plain, ["CLIENT", "KILL", "TYPE", "pubsub"])
    "QUEUED" = Plain.command(plain, ["SET", mark(queue), "meanwhile"])
    assert Plain.command(plain, ["EXEC"]) == [1, "OK"]
    assert Cancel.await(token, 60_000) == {:cancelled, "meanwhile"}
  end

  test "a token that nobody has watches no longer", %{bus: bus, plain: plain, queue: queue} do
    test = self()

    {process, monitor} =
      spawn_monitor(fn ->
        {:ok, token} = Cancel.watch(bus, queue, job())
        send(test, :watching)

        receive do
          :go -> Cancel.check(token)
        end
      end)

    assert_receive :watching, 60_000
    until_listening(plain, queue, 1)
    send(process, :go)
    assert_receive {:DOWN, ^monitor, :process, _, :normal}, 60_000
    until_listening(plain, queue, 0)
  end

  test "a watch that cannot go on says why", %{queue: queue} do
    bus = connect!()
    {:ok, token} = Cancel.watch(bus, queue, job())
    assert Cancel.watch_error(token) == nil
    assert Cancel.notify(token) == :ok
    waiting = Task.async(fn -> Cancel.await(token) end)
    until_each_waits([waiting.pid])
    assert Connector.close(bus, 5_000) == {:ok, 0}
    assert {:error, %Error{code: :closed}} = Task.await(waiting, 60_000)
    assert %Error{code: :closed} = Cancel.watch_error(token)
    assert {:error, %Error{code: :closed}} = Cancel.await(token)
    assert {:error, %Error{code: :closed}} = Cancel.check(token)
    assert_raise Error, ~r/closed/, fn -> Cancel.check!(token) end
    %{ref: ref} = token
    assert_receive {:emq_cancel_error, ^ref, %Error{code: :closed}}, 60_000
    # This process can still trip it.
    Cancel.cancel(token, "here")
    assert Cancel.await(token) == {:cancelled, "here"}
    assert code(Cancel.watch(bus, queue, job())) == :closed
    assert code(Cancel.cancel(bus, queue, job(), "late")) == :closed
  end

  test "a watch of a connector that was started again says so, and another finds the mark", %{queue: queue} do
    name = __MODULE__.Supervised
    start_supervised!({Connector, url: url(), name: name})
    {:ok, token} = Cancel.watch(name, queue, job())
    first = Process.whereis(name)
    Process.exit(first, :kill)
    # The name is taken first; calls go through once the connector runs.
    Wait.until(fn ->
      Process.whereis(name) not in [nil, first] and match?({:ok, _}, Connector.status(name))
    end)

    {:ok, _} = Cancel.cancel(name, queue, job(), "meanwhile")
    assert {:error, %Error{code: :closed}} = Wait.until(fn -> with :ok <- Cancel.check(token), do: nil end)
    assert {:error, %Error{code: :closed}} = Cancel.await(token)
    {:ok, again} = Cancel.watch(name, queue, job())
    assert Cancel.check(again) == {:cancelled, "meanwhile"}
  end

  test "what cannot be cancelled is refused, and nothing is marked", context do
    %{bus: bus, plain: plain, queue: queue} = context
    assert code(Cancel.cancel(bus, queue, "job-7", "late")) == :malformed_id
    assert code(Cancel.cancel(bus, "a:b", job(), "late")) == :invalid_name
    assert code(Cancel.cancel(bus, queue, job(), <<255>>)) == :invalid_option
    assert code(Cancel.cancel(bus, queue, job(), "late", ttl: 0)) == :invalid_option
    assert code(Cancel.cancel(bus, queue, job(), String.duplicate("x", 1_048_576))) == :too_large
    assert code(Cancel.watch(bus, queue, "job-7")) == :malformed_id
    assert code(Cancel.watch(bus, "a:b", job())) == :invalid_name
    assert_raise ArgumentError, fn -> Cancel.cancel(bus, queue, job(), "late", ttl: "1") end
    assert_raise ArgumentError, fn -> Cancel.cancel(bus, queue, job(), "late", within: 1) end
    assert_raise ArgumentError, fn -> Cancel.cancel(bus, queue, 7, "late") end
    assert Plain.command(plain, ["KEYS", "emq:{#{queue}}:*"]) == []
  end
end
