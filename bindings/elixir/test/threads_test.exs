defmodule EchoMQ.ThreadsTest do
  # A system that gives no more threads, as a container's limit does, is an error of the call, and the next one works.
  use EchoMQ.Test.Case, async: true

  # The VM has all its threads before the limit comes. It is one of another user where this one is root, for whom the limit
  # does not count.
  @user 54_321

  @script ~S"""
  {:ok, _} = Application.ensure_all_started(:echo_mq)
  limit = fn threads -> {_, 0} = System.cmd("prlimit", ["--pid", System.pid(), "--nproc=#{threads}:"]) end
  {before, 0} = System.cmd("prlimit", ["--pid", System.pid(), "--nproc", "--output=SOFT", "--noheadings"])
  start = fn -> EchoMQ.Connector.start_link(url: hd(System.argv()), node_id: 7) end
  limit.("1")
  codes = for _ <- 1..3, do: with({:error, error} <- start.(), do: error.code)
  token = EchoMQ.Cancel.new()
  :ok = EchoMQ.Cancel.notify(token)
  :ok = EchoMQ.Cancel.cancel(token, "told later")
  {:error, _} = EchoMQ.Cancel.await(token, 1)
  IO.puts("refused: #{inspect(codes)}")
  limit.(String.trim(before))
  {:ok, bus} = start.()
  {:ok, "PONG"} = EchoMQ.Connector.command(bus, ["PING"])
  :ok = receive(do: ({:emq_cancel, _, "told later"} -> :ok))
  IO.puts("works")
  limit.("1")
  large = String.duplicate("x", 500_000)
  {:ok, id} = EchoMQ.Stream.append(bus, "threads", "s", large: large)
  {:ok, [{^id, %{"large" => ^large}}]} = EchoMQ.Stream.read(bus, "threads", "s")
  {:ok, ids} = EchoMQ.Stream.append_batch(bus, "threads", "many", for(n <- 1..5_000, do: [n: to_string(n)]))
  {:ok, records} = EchoMQ.Stream.read(bus, "threads", "many")
  {:ok, 0} = EchoMQ.Events.publish(bus, "threads", "done", "JOB000xY9Wvvcd", large: large)
  IO.puts("large: #{length(ids)} #{length(records)}")
  """

  setup do
    folder = Path.join(System.tmp_dir!(), "echomq-threads-#{System.unique_integer([:positive])}")
    ebin = Path.join(folder, "echo_mq")
    File.mkdir_p!(ebin)
    # Where another user can read it.
    File.cp_r!(Mix.Project.app_path(), ebin, fn _, _ -> true end)
    priv = Path.join(ebin, "priv")
    File.rm_rf!(priv)
    File.cp_r!(Path.expand("../priv", __DIR__), priv)
    {_, 0} = System.cmd("chmod", ["-R", "a+rX", folder])
    on_exit(fn -> File.rm_rf!(folder) end)
    %{ebin: Path.join(ebin, "ebin")}
  end

  test "the VM goes on without them", %{ebin: ebin} do
    command = ["elixir", "-pa", ebin, "-e", @script, url()]
    root? = System.cmd("id", ["-u"]) == {"0\n", 0}
    command = if root?, do: ["setpriv", "--reuid=#{@user}", "--clear-groups" | command], else: command
    [program | arguments] = command
    {output, status} = System.cmd(program, arguments, stderr_to_stdout: true, env: [{"HOME", "/tmp"}])
    assert {status, output =~ "refused: [:state, :state, :state]\n"} == {0, true}, output
    assert output =~ "works\n"
    assert output =~ "large: 5000 5000\n"
  end
end
