defmodule EchoMQ.StreamConsumer.Server do
  @moduledoc false
  # The process of a consumer: it starts the native consumer and the processes that call the handler, and watches over them.

  use GenServer

  alias EchoMQ.{Connector, Error, Native, Notice, Notifier, Report, Starting}
  alias EchoMQ.StreamConsumer.Worker

  require Logger

  @impl true
  def init({starter, {what, source, settings}}) do
    # So that a supervisor's stop lets the messages in hand finish, and a handler's end is seen.
    Process.flag(:trap_exit, true)

    with {:ok, connector} <- connector(source, what),
         state = waiting(what, source, settings, connector),
         {:ok, state} <- if(what.lazy?, do: {:ok, attempt(state)}, else: start(state)) do
      {:ok, state}
    else
      {:error, error} -> Starting.fail(starter, error)
    end
  end

  defp connector({:own, options}, what) do
    Connector.start_link(if what.lazy?, do: Connector.supervised(options), else: options)
  end

  defp connector({:running, conn}, _what) do
    with {:ok, _client} <- Connector.client(conn), do: {:ok, GenServer.whereis(conn)}
  end

  defp waiting(what, source, settings, connector) do
    Map.merge(what, %{
      settings: settings,
      connector: connector,
      own?: match?({:own, _}, source),
      monitor: Process.monitor(connector),
      native: nil,
      # The attempt to start that is under way, how the last one failed, and the pause before the next.
      starting: nil,
      error: nil,
      pause: nil,
      suspended?: false,
      # Processes that call the handler, each with its number and hand.
      workers: %{},
      notifier: nil,
      # Who waits for the stop, and how it came out.
      stops: %{},
      stop_by: :infinity,
      left: nil
    })
  end

  # Starts it now, and waits for that.
  defp start(state) do
    case Native.call(&start_native(&1, state)) do
      {:ok, native} ->
        {:ok, begin(native, state)}

      {:error, error} ->
        close_own(state, 0)
        {:error, error}
    end
  end

  defp start_native(tag, state) do
    with {:ok, client} <- Connector.client(state.connector),
         do: Native.consumer(tag, client, state.queue, state.stream, state.settings)
  end

  # Starts it, and is told how that came out.
  defp attempt(state) do
    tag = make_ref()

    case start_native(tag, state) do
      :pending -> :ok
      refusal -> send(self(), {tag, refusal})
    end

    %{state | starting: tag}
  end

  defp begin(native, state) do
    {group, name, workers} = Native.consumer_info(native)
    if state.suspended?, do: Native.pause(native)
    state = %{state | native: native, group: group, consumer: name, starting: nil, error: nil}
    Enum.reduce(0..(workers - 1), start_notifier(state), &start_worker/2)
  end

  defp start_worker(number, state) do
    {:ok, hand} = Native.hand(state.native, {state.kind, number})
    report = Report.telemetry([:consumer, :handled], about(state))

    report =
      report &&
        fn messages, duration, verdict ->
          report.(%{duration: duration, messages: messages}, %{verdict: verdict})
        end

    worker = %Worker{
      consumer: state.native,
      hand: hand,
      kind: state.kind,
      handler: state.handler,
      report: report
    }

    process = :proc_lib.spawn_link(Worker, :run, [worker])
    put_in(state.workers[process], {number, hand})
  end

  defp start_notifier(state) do
    told = %{
      notices: Native.consumer_notices(state.native),
      what: "consumer",
      owner: self(),
      target: state.on_notice,
      report: Notifier.report([:consumer, :notice], about(state))
    }

    %{state | notifier: :proc_lib.spawn_link(Notifier, :run, [told])}
  end

  defp about(state), do: Map.take(state, [:queue, :stream, :group, :consumer])

  # Not started yet, it has nothing to stop.
  @impl true
  def handle_call({:stop, _within}, _from, %{native: nil} = state) do
    close_own(state, 0)
    {:stop, :normal, {:ok, 0}, %{state | left: 0}}
  end

  def handle_call(paused, _from, %{native: nil} = state) when paused in [:suspend, :resume] do
    {:reply, :ok, %{state | suspended?: paused == :suspend}}
  end

  def handle_call({:stop, _within}, {caller, _}, state) when is_map_key(state.workers, caller) do
    message = "a handler cannot wait for the stop of its own consumer"
    {:reply, {:error, %Error{code: :state, message: message, subject: state.consumer}}, state}
  end

  def handle_call({:stop, within}, from, state) do
    tag = make_ref()
    :pending = Native.stop(tag, state.native, within)
    # Others get what was not begun now, however long the handlers still take.
    for {_, {_, hand}} <- state.workers, do: Native.give_back_unbegun(hand)
    # An atom is greater than every number.
    by = if within == :infinity, do: :infinity, else: now() + within
    {:noreply, put_in(%{state | stop_by: min(state.stop_by, by)}.stops[tag], from)}
  end

  def handle_call(:suspend, _from, state) do
    {:reply, Native.pause(state.native), %{state | suspended?: true}}
  end

  def handle_call(:resume, _from, state) do
    {:reply, Native.resume(state.native), %{state | suspended?: false}}
  end

  def handle_call(:info, _from, state) do
    stands =
      cond do
        state.native == nil -> :connecting
        # Its connector may be closing, too.
        state.stops != %{} or not Native.running?(state.native) -> :stopping
        state.suspended? -> :suspended
        true -> :running
      end

    {:reply, state |> Map.take([:queue, :stream, :group, :consumer, :error]) |> Map.put(:state, stands),
     state}
  end

  @impl true
  def handle_info({tag, {:ok, native}}, %{starting: tag} = state) do
    if state.error do
      Notifier.tell(%Notice{kind: :connected, message: "the consumer reads"}, state.on_notice, "consumer")
    end

    {:noreply, begin(native, state)}
  end

  def handle_info({tag, {:error, error}}, %{starting: tag} = state) do
    if Starting.final?(error) do
      {:stop, error, state}
    else
      if state.error == nil or state.error.code != error.code do
        notice = %Notice{kind: :disconnected, message: Exception.message(error), code: error.code}
        Notifier.tell(notice, state.on_notice, "consumer")
      end

      {:noreply, %{state | starting: nil, error: error, pause: Starting.again(:start, state.pause)}}
    end
  end

  def handle_info({tag, :nif_panicked}, %{starting: tag} = state), do: {:stop, :nif_panicked, state}
  def handle_info(:start, %{native: nil} = state), do: {:noreply, attempt(state)}

  # The consumer has ended. Its workers end too, but for a handler that gave its verdict by hand and still runs.
  def handle_info({tag, left}, state) when is_map_key(state.stops, tag) and is_integer(left) do
    cond do
      left > 0 -> end_workers(state)
      state.stop_by != :infinity -> Process.send_after(self(), :end_workers, max(state.stop_by - now(), 0))
      true -> :ok
    end

    stopped(%{state | left: left})
  end

  def handle_info(:end_workers, state) do
    end_workers(state)
    {:noreply, state}
  end

  def handle_info({:EXIT, process, reason}, state) when is_map_key(state.workers, process) do
    {{number, hand}, state} = pop_in(state.workers[process])

    case reason do
      :normal ->
        stopped(state)

      {:shutdown, %Error{} = error} when state.stops == %{} ->
        {:stop, error, state}

      # What this process ended at the deadline gets no verdict.
      :killed when state.left != nil ->
        stopped(state)

      reason ->
        text = "the process of the handler ended: " <> Exception.format_exit(reason)
        Native.leave(hand, text)

        if state.stops == %{} do
          Logger.error("a handler of EchoMQ failed: " <> text)
          {:noreply, start_worker(number, state)}
        else
          stopped(state)
        end
    end
  end

  def handle_info({:EXIT, process, reason}, %{notifier: process} = state) do
    if reason == :normal, do: {:noreply, state}, else: {:noreply, start_notifier(state)}
  end

  # It ends as its connector does.
  def handle_info({:DOWN, monitor, :process, _, reason}, %{monitor: monitor, stops: stops} = state) do
    if stops == %{}, do: {:stop, reason, state}, else: {:noreply, state}
  end

  def handle_info({:EXIT, process, _reason}, %{connector: process} = state), do: {:noreply, state}
  def handle_info({:EXIT, _process, reason}, state) when reason != :normal, do: {:stop, reason, state}
  def handle_info(_message, state), do: {:noreply, state}

  # Answers those who wait, once the consumer and all its workers have ended.
  defp stopped(%{left: left, workers: workers} = state) when left != nil and workers == %{} do
    close_own(state)
    for {_tag, from} <- state.stops, do: GenServer.reply(from, {:ok, left})
    {:stop, :normal, state}
  end

  defp stopped(state), do: {:noreply, state}

  @impl true
  def terminate(_reason, %{native: nil} = state), do: close_own(state, 0)

  def terminate(_reason, %{left: nil} = state) do
    within = if Process.alive?(state.connector), do: :infinity, else: 0

    Native.call(fn tag ->
      stopping = Native.stop(tag, state.native, within)
      for {_, {_, hand}} <- state.workers, do: Native.give_back_unbegun(hand)
      stopping
    end)

    end_workers(state)
    close_own(state)
  end

  def terminate(_reason, _state), do: :ok

  defp end_workers(state), do: for({process, _} <- state.workers, do: Process.exit(process, :kill))

  defp now, do: System.monotonic_time(:millisecond)

  defp close_own(state, within \\ :infinity)
  defp close_own(%{own?: true} = state, within), do: Connector.close(state.connector, within)
  defp close_own(_state, _within), do: :ok
end
