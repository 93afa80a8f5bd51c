defmodule EchoMQ.Events.Handler do
  @moduledoc false
  # Folds what is heard into a listener's state.

  alias EchoMQ.{EventGap, Report}

  require Logger

  @type t :: module() | (String.t(), EchoMQ.Events.payload(), term() -> {:ok, term()})

  @doc false
  # What is told of what a handler does, and to whom.
  @spec about(String.t()) :: map()
  def about(queue) do
    [handled, gap] = for event <- [:handled, :gap], do: Report.telemetry([:events, event], %{queue: queue})
    %{queue: queue, handled: handled, gap: gap}
  end

  @doc false
  # The state to begin with.
  @spec begin(t(), term()) :: {:ok, term()} | {:stop, term()}
  def begin(handler, state) do
    if has?(handler, :init, 1), do: handler.init(state), else: {:ok, state}
  end

  @doc false
  # The next state; a handler that fails leaves it as it was.
  @spec fold(tuple(), t(), term(), map()) :: term()
  def fold({:emq_event, name, payload} = event, handler, state, about) do
    begin = about.handled && System.monotonic_time()

    {result, next} =
      result(event, state, fn ->
        if is_function(handler),
          do: handler.(name, payload, state),
          else: handler.handle_event(name, payload, state)
      end)

    if begin do
      about.handled.(%{duration: System.monotonic_time() - begin}, %{event: name, result: result})
    end

    next
  end

  def fold({:emq_gap, %EventGap{} = gap} = event, handler, state, about) do
    if about.gap, do: about.gap.(%{missed: gap.missed}, %{reconnected: gap.reconnected})

    if has?(handler, :handle_gap, 2) do
      {_result, next} = result(event, state, fn -> handler.handle_gap(gap, state) end)
      next
    else
      Logger.warning("events of the queue #{about.queue} may be missing: #{inspect(gap)}")
      state
    end
  end

  defp has?(handler, name, arity), do: is_atom(handler) and function_exported?(handler, name, arity)

  defp result(event, state, call) do
    case call.() do
      {:ok, next} ->
        {:ok, next}

      other ->
        reason = "the handler did not answer {:ok, state}, but: #{inspect(other, limit: 20)}"
        Logger.error("a handler of EchoMQ's events failed on #{shown(event)}: #{reason}")
        {{:error, reason}, state}
    end
  catch
    kind, reason ->
      Report.failed("a handler of EchoMQ's events failed on #{shown(event)}", kind, reason, __STACKTRACE__)
      {{:error, Exception.format_banner(kind, reason, __STACKTRACE__)}, state}
  end

  defp shown(event), do: inspect(event, limit: 20, printable_limit: 400)
end
