defmodule EchoMQ.Events.Shared do
  @moduledoc false
  # Listeners that nobody has started by hand: one a connector and queue, for as long as somebody hears off it.

  use Supervisor

  alias EchoMQ.{Connector, Error, Keyspace}
  alias EchoMQ.Events.{Listener, Options}

  @names Module.concat(__MODULE__, Names)
  @listeners Module.concat(__MODULE__, Listeners)

  @doc false
  def start_link(_), do: Supervisor.start_link(__MODULE__, nil, name: __MODULE__)

  @impl true
  def init(nil) do
    children = [
      {Registry, keys: :unique, name: @names},
      {DynamicSupervisor, strategy: :one_for_one, name: @listeners}
    ]

    Supervisor.init(children, strategy: :one_for_all)
  end

  @doc false
  # Has a process hear off the listener of that queue, which is started where it is missing.
  @spec subscribe(Connector.conn(), String.t(), pid(), map()) :: :ok | {:error, Error.t()}
  def subscribe(conn, queue, process, how) do
    with {:ok, _channel} <- Keyspace.key(queue, "events"),
         {:ok, _client} <- Connector.client(conn) do
      connector = GenServer.whereis(conn)
      what = Options.listener(conn: connector, queue: queue)
      name = name(connector, queue)
      start = {Listener, :start_link, [{:shared, what, self()}, [name: name]]}

      case DynamicSupervisor.start_child(@listeners, %{id: Listener, start: start, restart: :temporary}) do
        {:ok, _listener} -> call(name, conn, queue, process, how)
        {:error, {:already_started, _listener}} -> call(name, conn, queue, process, how)
      end
    end
  end

  # Answers when the server has confirmed it. Where the listener was about to end, another takes its place.
  defp call(name, conn, queue, process, how) do
    GenServer.call(name, {:subscribe, process, how}, :infinity)
  catch
    :exit, {{:shutdown, %Error{} = error}, {GenServer, :call, _}} ->
      {:error, error}

    :exit, {reason, {GenServer, :call, _}} when reason in [:noproc, :normal, :shutdown, :killed] ->
      subscribe(conn, queue, process, how)
  end

  @doc false
  @spec unsubscribe(Connector.conn(), String.t(), pid()) :: :ok
  def unsubscribe(conn, queue, process) do
    case GenServer.whereis(conn) do
      connector when is_pid(connector) ->
        GenServer.call(name(connector, queue), {:unsubscribe, process}, :infinity)

      _none ->
        :ok
    end
  catch
    :exit, {_reason, {GenServer, :call, _}} -> :ok
  end

  defp name(connector, queue), do: {:via, Registry, {@names, {connector, queue}}}
end
