# As much of GenStage and Broadway as a producer is compiled and driven with: the behaviours, the struct, and a stage
# that asks a producer when a test says so.

defmodule GenStage do
  @moduledoc false
  @callback init(term()) :: {:producer, term()} | {:stop, term()}
  @callback handle_demand(pos_integer(), term()) :: {:noreply, [term()], term()}
  @callback handle_info(term(), term()) :: {:noreply, [term()], term()} | {:stop, term(), term()}
  @callback terminate(term(), term()) :: term()

  defmacro __using__(_options) do
    quote do: @behaviour(GenStage)
  end
end

defmodule Broadway do
  @moduledoc false
end

defmodule Broadway.Producer do
  @moduledoc false
  @callback prepare_for_draining(term()) :: {:noreply, [term()], term()}
end

defmodule Broadway.Acknowledger do
  @moduledoc false
  @callback ack(term(), [term()], [term()]) :: :ok
end

defmodule Broadway.Message do
  @moduledoc false
  @enforce_keys [:data, :acknowledger]
  defstruct [:data, :acknowledger, metadata: %{}, status: :ok]
end

defmodule EchoMQ.Test.Stage do
  @moduledoc "Runs a producer as a stage does, and sends its events to the process that started it as `{:events, events}`."

  use GenServer

  def start_link(module, options), do: GenServer.start_link(__MODULE__, {module, options, self()})
  def demand(stage, count), do: GenServer.cast(stage, {:demand, count})
  def drain(stage), do: GenServer.call(stage, :drain)

  @impl true
  def init({module, options, test}) do
    case module.init([broadway: [name: :pipeline]] ++ options) do
      {:producer, state} -> {:ok, %{module: module, test: test, state: state}}
      {:stop, reason} -> {:stop, reason}
    end
  end

  @impl true
  def handle_cast({:demand, count}, stage), do: went(stage.module.handle_demand(count, stage.state), stage)

  @impl true
  def handle_call(:drain, _from, stage) do
    {:noreply, [], state} = stage.module.prepare_for_draining(stage.state)
    {:reply, :ok, %{stage | state: state}}
  end

  @impl true
  def handle_info(message, stage), do: went(stage.module.handle_info(message, stage.state), stage)

  @impl true
  def terminate(reason, stage), do: stage.module.terminate(reason, stage.state)

  defp went({:noreply, events, state}, stage) do
    if events != [], do: send(stage.test, {:events, events})
    {:noreply, %{stage | state: state}}
  end

  defp went({:stop, reason, state}, stage), do: {:stop, reason, %{stage | state: state}}
end
