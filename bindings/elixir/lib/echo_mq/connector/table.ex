defmodule EchoMQ.Connector.Table do
  @moduledoc false
  # From a connector's process to its client, so that a call asks no process.
  #
  # The table is linked with every connector: an entry goes with its connector, and connectors end with the table.

  use GenServer

  @doc false
  def start_link(_), do: GenServer.start_link(__MODULE__, nil, name: __MODULE__)

  @doc false
  # Enters the client of the calling process.
  @spec put(EchoMQ.Native.client()) :: :ok
  def put(client), do: GenServer.call(__MODULE__, {:put, client}, :infinity)

  @doc false
  @spec get(pid()) :: EchoMQ.Native.client() | nil
  def get(process) do
    case :ets.lookup(__MODULE__, process) do
      [{_, client}] -> client
      [] -> nil
    end
  end

  @impl true
  def init(nil) do
    Process.flag(:trap_exit, true)
    {:ok, :ets.new(__MODULE__, [:named_table, read_concurrency: true])}
  end

  @impl true
  def handle_call({:put, client}, {process, _}, table) do
    Process.link(process)
    :ets.insert(table, {process, client})
    {:reply, :ok, table}
  end

  @impl true
  def handle_info({:EXIT, process, _reason}, table) do
    :ets.delete(table, process)
    {:noreply, table}
  end
end
