defmodule EchoMQ.Notifier do
  @moduledoc false
  # The process that passes on the notices of a consumer or a listener, one after the other, as they come.

  alias EchoMQ.{Native, Notice}

  require Logger

  @typedoc "Who is told: a function, a process, or the log."
  @type target :: (Notice.t() -> term()) | pid() | atom() | nil

  @typedoc """
  Whose notices they are. `what` is its word in the log, `owner` its process, `report` is called with each notice.
  """
  @type told :: %{
          notices: Native.notices(),
          what: String.t(),
          owner: pid(),
          target: target(),
          report: (Notice.t() -> term())
        }

  @doc false
  # The target that the option `:on_notice` names; without it that of a handler which is a module.
  @spec target(term(), term()) :: target()
  def target(nil, module) when is_atom(module) and module != nil do
    if Code.ensure_loaded?(module) and function_exported?(module, :handle_notice, 1),
      do: &module.handle_notice/1
  end

  def target(nil, _handler), do: nil
  def target(target, _handler) when is_function(target, 1) or is_pid(target) or is_atom(target), do: target

  def target(other, _handler) do
    raise ArgumentError,
          "the option :on_notice must be a function of one argument or a process, got: #{inspect(other)}"
  end

  @doc false
  # What is called with each notice, for telemetry's event of that name.
  @spec report([atom()], map()) :: (Notice.t() -> term())
  def report(event, about) do
    case EchoMQ.Report.telemetry(event, about) do
      nil -> fn _notice -> :ok end
      report -> &report.(%{count: 1}, %{notice: &1})
    end
  end

  @doc false
  # Tells one notice, in a process of its own where it is a function that is told.
  @spec tell(Notice.t(), target(), String.t()) :: :ok
  def tell(notice, target, what) do
    told = %{target: target, what: what, owner: self()}
    if is_function(target), do: spawn(fn -> pass_on(notice, told) end), else: pass_on(notice, told)
    :ok
  end

  @doc false
  # Passes notices on until what tells them has ended.
  @spec run(told()) :: :ok
  def run(told) do
    case next(told.notices, :infinity) do
      {:ok, nil} ->
        :ok

      {:ok, notice} ->
        told.report.(notice)
        pass_on(notice, told)
        run(told)
    end
  end

  @doc false
  # The next notice: `[]` where none came in time, `nil` once what tells them has ended.
  @spec next(Native.notices(), timeout()) :: {:ok, Notice.t() | nil | []} | Native.refusal()
  def next(notices, within) do
    Native.take_within(fn -> take(notices) end, &Native.await_notice(&1, notices, &2), within)
  end

  defp take(notices) do
    case Native.take_notice(notices) do
      :none -> {:ok, []}
      notice -> {:ok, notice}
    end
  end

  # What a handler failed with is logged where it failed.
  defp pass_on(%{kind: :failed}, %{target: nil}), do: :ok

  defp pass_on(%{kind: :connected} = notice, %{target: nil} = told),
    do: Logger.debug("EchoMQ #{told.what} #{inspect(told.owner)}: #{notice}")

  defp pass_on(notice, %{target: nil} = told),
    do: Logger.warning("EchoMQ #{told.what} #{inspect(told.owner)}: #{notice}")

  defp pass_on(notice, %{target: target}) when is_function(target) do
    target.(notice)
  catch
    kind, reason ->
      Logger.error("a handler of EchoMQ's notices failed\n" <> Exception.format(kind, reason, __STACKTRACE__))
  end

  defp pass_on(notice, %{target: target, owner: owner}) do
    # A name that nobody has is no fault.
    if process = GenServer.whereis(target), do: send(process, {:echo_mq_notice, owner, notice})
  end
end
