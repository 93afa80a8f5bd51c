defmodule :telemetry do
  @moduledoc false
  # As much of telemetry as events are sent with: they go to the process that asked for those of a queue.

  def execute(event, measurements, %{queue: queue} = metadata) do
    if process = :persistent_term.get({__MODULE__, queue}, nil) do
      send(process, {:telemetry, event, measurements, metadata})
    end

    :ok
  end

  # A connector has no queue.
  def execute(_event, _measurements, %{connector: connector}) when is_pid(connector), do: :ok

  def tell(process, queue), do: :persistent_term.put({__MODULE__, queue}, process)
end
