defmodule EchoMQ.StreamConsumer.Notifier do
  @moduledoc false
  # The process of a consumer that passes its notices on, one after the other, as they come.

  alias EchoMQ.{Native, Notice}

  require Logger

  @type target :: (Notice.t() -> term()) | pid() | atom() | nil

  @doc false
  # Passes notices on until the consumer has ended.
  @spec run(Native.consumer(), pid(), target(), (Notice.t() -> term())) :: :ok
  def run(consumer, owner, target, report) do
    case Native.call(&Native.next_notice(&1, consumer)) do
      %Notice{} = notice ->
        report.(notice)
        pass_on(notice, owner, target)
        run(consumer, owner, target, report)

      nil ->
        :ok
    end
  end

  # What a handler failed with is logged where it failed.
  defp pass_on(%{kind: :failed}, _owner, nil), do: :ok
  defp pass_on(notice, owner, nil), do: Logger.warning("EchoMQ consumer #{inspect(owner)}: #{notice}")

  defp pass_on(notice, _owner, target) when is_function(target) do
    target.(notice)
  catch
    kind, reason ->
      Logger.error("a handler of EchoMQ's notices failed\n" <> Exception.format(kind, reason, __STACKTRACE__))
  end

  defp pass_on(notice, owner, target) do
    # A name that nobody has is no fault.
    if process = GenServer.whereis(target), do: send(process, {:echo_mq_notice, owner, notice})
  end
end
