defmodule EchoMQ.Events.Listener do
  @moduledoc false
  # The process of a listener: it knows who hears off it, and folds what it hears into a state where it has a handler.
  #
  # What is heard does not go through it: see `EchoMQ.Events.Feeder`. The native listener ends with this process.

  use GenServer

  alias EchoMQ.{Connector, Error, Keyspace, Native, Notice, Notifier, Starting}
  alias EchoMQ.Events.{Feeder, Handler, Options}

  # How many events a handler is given at once.
  @slice 100

  @doc false
  # A shared one listens once it is started, and waits for who had it started to subscribe; it ends with its last subscriber.
  @spec start_link(Options.what() | {:shared, Options.what(), pid()}, keyword()) :: GenServer.on_start()
  def start_link(what, options), do: Starting.start_link(__MODULE__, what, options)

  @impl true
  def init({_starter, {:shared, what, starter}}), do: {:ok, what, {:continue, {:listen, starter}}}

  def init({starter, what}) do
    case if(what.lazy?, do: attempt_first(what), else: listen(what)) do
      {:ok, state} -> {:ok, state}
      {_stop_or_error, reason} -> Starting.fail(starter, reason)
    end
  end

  # One that waits for nothing: it has no native listener yet, and keeps calls until it has.
  defp attempt_first(what) do
    with {:ok, _client} <- Connector.client(what.conn),
         {:ok, channel} <- Keyspace.key(what.queue, "events") do
      waiting = %{
        native: nil,
        channel: channel,
        connector: Process.monitor(GenServer.whereis(what.conn)),
        starting: nil,
        error: nil,
        pause: nil,
        calls: []
      }

      {:ok, attempt(Map.merge(what, waiting))}
    end
  end

  # Listens, and is told how that came out.
  defp attempt(state) do
    tag = make_ref()

    case listen(tag, state) do
      :pending -> :ok
      refusal -> send(self(), {tag, refusal})
    end

    %{state | starting: tag}
  end

  defp listen(tag, what) do
    with {:ok, client} <- Connector.client(what.conn), do: Native.listen(tag, client, what.queue)
  end

  @impl true
  def handle_continue({:listen, starter}, what) do
    case listen(what) do
      {:ok, state} ->
        monitor = Process.monitor(starter)
        {:noreply, put_in(%{state | shared?: true, starter: {starter, monitor}}.monitors[monitor], :starter)}

      {:error, error} ->
        {:stop, {:shutdown, error}, what}
    end
  end

  defp listen(what) do
    with {:ok, _client} <- Connector.client(what.conn),
         connector = Process.monitor(GenServer.whereis(what.conn)),
         {:ok, native} <- Native.call(&listen(&1, what)) do
      hear(what, connector, native)
    end
  end

  defp hear(what, connector, native) do
    with {:ok, {hearing, _room}} <- Native.subscribe(native, what.named, what.raw) do
      end_tag = make_ref()
      :pending = Native.until_listener_ends(end_tag, native)

      state =
        Map.merge(what, %{
          native: native,
          connector: connector,
          end_tag: end_tag,
          # What watches over the process that passes notices on.
          notifier: nil,
          # Why the process is to end, once the handler has had what was heard.
          end: nil,
          shared?: false,
          starter: nil,
          # The feeder of each subscriber.
          feeders: %{},
          # What each monitor is for: a subscriber, who waits for the end of its subscription, or the starter.
          monitors: %{},
          about: Handler.about(what.queue),
          # What the handler was not given yet.
          hearing: nil,
          asked: nil,
          heard: []
        })

      begin(start_notifier(state), hearing)
    end
  end

  # It ends when the native listener does, and is not linked: a function of the user's runs in it.
  defp start_notifier(state) do
    told = %{
      notices: Native.listener_notices(state.native),
      what: "listener",
      owner: self(),
      target: state.on_notice,
      report: Notifier.report([:events, :notice], %{queue: state.queue})
    }

    %{state | notifier: Process.monitor(:proc_lib.spawn(Notifier, :run, [told]))}
  end

  # Its own options were looked at, and nobody hears by them.
  defp begin(%{handler: nil} = state, hearing) do
    Native.unsubscribe(hearing)
    {:ok, state}
  end

  defp begin(state, hearing) do
    with {:ok, folded} <- Handler.begin(state.handler, state.state) do
      {:ok, ask(%{state | hearing: hearing, state: folded})}
    end
  end

  # Asks for what the handler is given next.
  defp ask(state) do
    tag = make_ref()
    :pending = Native.take_events(tag, state.hearing, @slice)
    %{state | asked: tag}
  end

  @impl true
  def handle_call(:status, _from, %{native: nil} = state) do
    status = %{
      queue: state.queue,
      channel: state.channel,
      connected: false,
      resubscriptions: 0,
      error: state.error,
      subscribers: 0
    }

    {:reply, status, state}
  end

  # Answered once it listens, in their order.
  def handle_call(request, from, %{native: nil} = state) do
    {:noreply, %{state | calls: [{request, from} | state.calls]}}
  end

  def handle_call({:subscribe, process, how}, {caller, _}, state) do
    {answer, state} =
      case add(state, process, how) do
        {:ok, state} -> {:ok, state}
        error -> {error, state}
      end

    state = subscribed(state, caller)
    if unused?(state), do: {:stop, :normal, answer, state}, else: {:reply, answer, state}
  end

  def handle_call({:unsubscribe, process}, from, state) do
    case pop_in(state.feeders[process]) do
      {nil, state} ->
        {:reply, :ok, state}

      {{feeder, monitor}, state} ->
        send(feeder, :unsubscribe)
        {:noreply, put_in(state.monitors[monitor], {:answer, from})}
    end
  end

  def handle_call(:status, _from, state) do
    {channel, connected, resubscriptions, error} = Native.listener_status(state.native)

    status = %{
      queue: state.queue,
      channel: channel,
      connected: connected,
      resubscriptions: resubscriptions,
      error: error,
      subscribers: map_size(state.feeders)
    }

    {:reply, status, state}
  end

  def handle_call(:state, _from, %{handler: nil} = state) do
    error = %Error{code: :state, message: "this listener has no handler", subject: state.queue}
    {:reply, {:error, error}, state}
  end

  def handle_call(:state, _from, state), do: {:reply, {:ok, state.state}, state}

  # Has a process hear, if it does not already.
  defp add(state, process, _how) when is_map_key(state.feeders, process), do: {:ok, state}

  defp add(state, process, how) do
    raw = if how.raw == nil, do: state.raw, else: how.raw

    with {:ok, {hearing, room}} <- Native.subscribe(state.native, state.named ++ how.named, raw) do
      feeder = :proc_lib.spawn(Feeder, :run, [self(), process, hearing, room])
      monitor = Process.monitor(feeder)
      state = put_in(state.feeders[process], {feeder, monitor})
      {:ok, put_in(state.monitors[monitor], {:subscriber, process})}
    end
  end

  @impl true
  def handle_info({tag, {:ok, native}}, %{native: nil, starting: tag} = waiting) do
    if waiting.error do
      Notifier.tell(%Notice{kind: :connected, message: "the listener hears"}, waiting.on_notice, "listener")
    end

    what = Map.drop(waiting, [:native, :channel, :starting, :error, :pause, :calls])

    case hear(what, waiting.connector, native) do
      {:ok, state} -> {:noreply, Enum.reduce(Enum.reverse(waiting.calls), state, &answer/2)}
      {_stop_or_error, reason} -> {:stop, reason, waiting}
    end
  end

  def handle_info({tag, {:error, error}}, %{native: nil, starting: tag} = state) do
    if Starting.final?(error) do
      {:stop, error, state}
    else
      if state.error == nil or state.error.code != error.code do
        notice = %Notice{kind: :disconnected, message: Exception.message(error), code: error.code}
        Notifier.tell(notice, state.on_notice, "listener")
      end

      {:noreply, %{state | starting: nil, error: error, pause: Starting.again(:start, state.pause)}}
    end
  end

  def handle_info({tag, :nif_panicked}, %{native: nil, starting: tag} = state) do
    {:stop, :nif_panicked, state}
  end

  def handle_info(:start, %{native: nil} = state), do: {:noreply, attempt(state)}

  def handle_info({:DOWN, monitor, :process, _, reason}, %{native: nil, connector: monitor} = state) do
    {:stop, reason, state}
  end

  def handle_info(_message, %{native: nil} = state), do: {:noreply, state}

  def handle_info({tag, {:ok, messages}}, %{asked: tag} = state) when is_list(messages) do
    {:noreply, next(%{state | heard: messages, asked: nil})}
  end

  # The end of what the handler hears; why is told with the end of the listener.
  def handle_info({tag, end_or_error}, %{asked: tag} = state) when is_tuple(end_or_error) do
    conclude(%{state | asked: nil, hearing: nil})
  end

  def handle_info({tag, :nif_panicked}, state) when tag in [state.asked, state.end_tag] do
    {:stop, :nif_panicked, state}
  end

  # One at a time, so that calls are answered between two events.
  def handle_info({__MODULE__, :next}, %{heard: [message | rest]} = state) do
    folded = Handler.fold(message, state.handler, state.state, state.about)
    {:noreply, next(%{state | state: folded, heard: rest})}
  end

  # It ends as its connector does, whose end comes then.
  def handle_info({tag, {:error, %Error{code: :closed}}}, %{end_tag: tag} = state), do: {:noreply, state}

  def handle_info({tag, {:error, error}}, %{end_tag: tag} = state) do
    conclude(%{state | end: {:stop, error}})
  end

  def handle_info({:DOWN, monitor, :process, _, reason}, %{connector: monitor} = state) do
    conclude(%{state | end: {:stop, reason}})
  end

  def handle_info({:DOWN, monitor, :process, _, reason}, %{notifier: monitor} = state) do
    if reason == :normal, do: {:noreply, state}, else: {:noreply, start_notifier(state)}
  end

  def handle_info({:DOWN, monitor, :process, _, reason}, state) when is_map_key(state.monitors, monitor) do
    {whose, state} = pop_in(state.monitors[monitor])
    state = gone(whose, state)

    cond do
      whose != :starter and reason != :normal -> {:stop, reason, state}
      unused?(state) -> {:stop, :normal, state}
      true -> {:noreply, state}
    end
  end

  def handle_info(_message, state), do: {:noreply, state}

  defp answer({request, from}, state) do
    case handle_call(request, from, state) do
      {:reply, answer, state} ->
        GenServer.reply(from, answer)
        state

      {:noreply, state} ->
        state
    end
  end

  defp next(%{heard: []} = state), do: ask(state)

  defp next(state) do
    send(self(), {__MODULE__, :next})
    state
  end

  defp gone({:subscriber, process}, state), do: %{state | feeders: Map.delete(state.feeders, process)}
  defp gone(:starter, state), do: %{state | starter: nil}

  defp gone({:answer, from}, state) do
    GenServer.reply(from, :ok)
    state
  end

  # The starter has what it came for.
  defp subscribed(%{starter: {caller, monitor}} = state, caller) do
    Process.demonitor(monitor, [:flush])
    %{state | starter: nil, monitors: Map.delete(state.monitors, monitor)}
  end

  defp subscribed(state, _caller), do: state

  defp unused?(state), do: state.shared? and state.monitors == %{}

  # Ends for a reason, once the handler has had what was heard before.
  defp conclude(%{end: {:stop, reason}, hearing: nil} = state), do: {:stop, reason, state}
  defp conclude(state), do: {:noreply, state}
end
