defmodule EchoMQ.Report do
  @moduledoc false
  # How it is reported what handlers do.

  require Logger

  @doc false
  # Logs that a handler failed, with its kind, reason and stacktrace as they were caught.
  @spec failed(String.t(), Exception.kind(), term(), Exception.stacktrace()) :: :ok
  def failed(what, kind, reason, stacktrace) do
    Logger.error(what <> "\n" <> Exception.format(kind, reason, stacktrace),
      crash_reason: crash_reason(kind, reason, stacktrace)
    )
  end

  defp crash_reason(:throw, reason, stacktrace), do: {{:nocatch, reason}, stacktrace}

  defp crash_reason(:error, reason, stacktrace),
    do: {Exception.normalize(:error, reason, stacktrace), stacktrace}

  defp crash_reason(:exit, reason, stacktrace), do: {reason, stacktrace}

  @doc false
  # What sends an event of telemetry's; nil where the application has no telemetry, which is no dependency.
  @spec telemetry([atom()], map()) :: (map(), map() -> :ok) | nil
  def telemetry(event, about) do
    if Code.ensure_loaded?(:telemetry) do
      fn measurements, metadata ->
        apply(:telemetry, :execute, [[:echo_mq | event], measurements, Map.merge(about, metadata)])
      end
    end
  end
end
