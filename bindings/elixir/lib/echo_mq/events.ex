defmodule EchoMQ.Events do
  @moduledoc """
  The lifecycle events of a queue: fire and forget.

  An event has a name, the job it is about, and further members, all of them text. Delivery is at most once: whoever does not
  listen at that moment does not hear it. What must not be missed belongs into a stream, and `append_and_publish/7` does both
  at once.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> :ok = EchoMQ.Events.subscribe(bus, "codemojex")
      iex> EchoMQ.Events.publish(bus, "codemojex", :completed, "JOB000xY9Wvvcd", score: "7")
      {:ok, 1}
      iex> receive do
      ...>   {:emq_event, name, payload} -> {name, payload}
      ...> end
      {"completed", %{"event" => "completed", "job" => "JOB000xY9Wvvcd", "score" => "7"}}

  ## Hearing

  A process hears as messages, in the order in which the server handed the events out:

    * `{:emq_event, name, payload}` - the payload is a map of all members and their texts; a value that is no JSON string comes
      as its JSON text. What has no text `event` has the name `"unknown"`, and what is no JSON object comes as the raw
      binary
    * `{:emq_gap, %EchoMQ.EventGap{}}` - events are missing in this place, or may be: the process was too slow, or the
      connection was lost and is there again
    * `{:emq_end, error}` - nothing more comes: an `EchoMQ.Error` where the listener cannot go on, or `nil` where it was stopped

  `subscribe/3` takes a connector and a queue: all who hear the same queue through one connector share one subscription on the
  server, which ends with the last of them. Or a listener is started under a supervisor, and processes hear off it:

      children = [
        {EchoMQ.Connector, name: MyApp.Bus, url: "valkey://events.internal"},
        {EchoMQ.Events, conn: MyApp.Bus, queue: "codemojex", name: MyApp.Events}
      ]

      Supervisor.start_link(children, strategy: :rest_for_one)
      :ok = EchoMQ.Events.subscribe(MyApp.Events)

  A subscriber that ends is forgotten. Who hears `:emq_end` and wants to hear on subscribes again. One that is slow holds nobody else up: no more messages are sent while its mailbox has
  `:buffer` of them, as many again wait, and what does not fit is counted and told by a gap. A lost connection is made again for
  as long as it takes.

  ## Handlers

  A module can fold what is heard into a state, which `state/2` reads at any time:

      defmodule MyApp.Completed do
        use EchoMQ.Events, queue: "codemojex", state: 0

        @impl true
        def handle_event("completed", _payload, count), do: {:ok, count + 1}
        def handle_event(_name, _payload, count), do: {:ok, count}
      end

      children = [{MyApp.Completed, conn: MyApp.Bus, name: MyApp.Completed}]

  It implements `c:handle_event/3`, and may implement `c:handle_gap/2`, `c:handle_notice/1` and `c:init/1`. `use` takes the
  options of `start_link/1` and those of a child specification, `:id`, `:restart` and `:shutdown`; those given to the child come
  before them. A handler that raises, throws, exits or answers anything but `{:ok, state}` is reported by the log with the event,
  leaves the state as it was, and goes on with the next event. It runs in the listener's process.

  ## Notices

  A listener tells at once that its connection is gone, and once it has subscribed again, by an `EchoMQ.Notice` of the kind
  `:disconnected` or `:reconnected`: of one loss each is told once, however many attempts it takes. The option `:on_notice` is a
  function of the notice, called in a process of its own, or a process, which gets `{:echo_mq_notice, listener, notice}`. Without
  it a handler's `c:handle_notice/1` is called, or the notice is logged as a warning. For those who hear, the gap is in its place
  among the events.

  ## Telemetry

  Where `:telemetry` is loaded, each call of `c:handle_event/3` is followed by the event `[:echo_mq, :events, :handled]` with
  `%{duration: native_time}` and the metadata `:queue`, `:event` and `:result` (`:ok` or `{:error, reason}`), and each gap that
  a handler meets by `[:echo_mq, :events, :gap]` with `%{missed: count}` and the metadata `:queue` and `:reconnected`. Each notice
  is followed by `[:echo_mq, :events, :notice]` with `%{count: 1}` and the metadata `:queue` and `:notice`.

  ## Errors

  Publishing fails with `:malformed_id` for a job that is no branded id, `:invalid_name` for an empty event, `:reserved_field`
  for a member that the event itself has, `:invalid_option` for a member given twice and for what is no UTF-8, and
  `:too_large`. It fails with `:unknown_outcome` when the connection broke before the answer came: the event is not sent again,
  since it could be heard twice. Every call can fail with `:auth`, which names the channel rule where the user lacks it, with
  `:overloaded`, `:disconnected`, `:timeout`, `:closed` and `:server`.
  """

  alias EchoMQ.{Connector, Error, EventGap, Native, Notice}
  alias EchoMQ.Events.{Announced, Decided, Listener, Options, Shared}

  @typedoc "A listener: its process, or the name it was registered under."
  @type listener :: GenServer.server()

  @typedoc "An event's name: text, or an atom that stands for its text."
  @type event :: String.t() | atom()

  @typedoc "Further members, as the fields of a record are given: values are text, and a list keeps its order."
  @type extra :: EchoMQ.Stream.fields()

  @typedoc "What is heard of an event: its members, or its bytes."
  @type payload :: %{optional(String.t()) => String.t()} | binary()

  @typedoc "How many listened, as the server counts them, or why an event was not published."
  @type published :: {:ok, non_neg_integer()} | {:error, Error.t()}

  @typedoc """
  How a process hears.

    * `:buffer` - how many messages its mailbox may have before events wait, and how many events wait then; 1 024 without it
    * `:raw` - whether every payload comes as its bytes; `false` without it
  """
  @type hearing :: {:buffer, pos_integer()} | {:raw, boolean()}

  @typedoc "An option of `start_link/1`."
  @type option ::
          {:conn, Connector.conn()}
          | {:queue, String.t()}
          | {:name, GenServer.name()}
          | {:handler, module() | (String.t(), payload(), term() -> {:ok, term()})}
          | {:state, term()}
          | {:on_notice, (Notice.t() -> term()) | pid() | atom()}
          | {:connect, :wait | :lazy}
          | hearing()

  @typedoc "How a listener stands. The error says why there is no connection."
  @type status :: %{
          queue: String.t(),
          channel: String.t(),
          connected: boolean(),
          resubscriptions: non_neg_integer(),
          error: Error.t() | nil,
          subscribers: non_neg_integer()
        }

  @doc "The state to begin with, of the option `:state`. It runs once the events are heard, so that none is missed meanwhile."
  @callback init(state :: term()) :: {:ok, state :: term()} | {:stop, reason :: term()}

  @doc "Answers the next state."
  @callback handle_event(name :: String.t(), payload(), state :: term()) :: {:ok, state :: term()}

  @doc "Is told that events are missing, or may be. A handler without it has gaps logged as warnings."
  @callback handle_gap(EventGap.t(), state :: term()) :: {:ok, state :: term()}

  @doc "Is told that the connection is gone, or that the events are heard again, in a process of its own."
  @callback handle_notice(Notice.t()) :: term()

  @optional_callbacks init: 1, handle_gap: 2, handle_notice: 1

  @specification [:id, :restart, :shutdown]

  @doc false
  defmacro __using__(options) do
    quote bind_quoted: [options: options, specification: @specification] do
      @behaviour EchoMQ.Events

      {specification, options} = Keyword.split(options, specification)
      @echo_mq_specification Keyword.put_new(specification, :id, __MODULE__)
      @echo_mq_options Keyword.put_new(options, :handler, __MODULE__)

      @doc false
      def start_link(options), do: EchoMQ.Events.start_link(Keyword.merge(@echo_mq_options, options))

      @doc false
      def child_spec(options) do
        start = Keyword.put_new(options, :connect, Keyword.get(@echo_mq_options, :connect, :lazy))

        %{EchoMQ.Events.child_spec(options) | start: {__MODULE__, :start_link, [start]}}
        |> Supervisor.child_spec(@echo_mq_specification)
      end

      defoverridable child_spec: 1, start_link: 1
    end
  end

  # Publishing.

  @doc """
  Publishes an event, and answers how many listened, as the server counts them.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Events.publish(bus, "shop", "failed", "JOB000xY9Wvvcd", error: "no \\"reason\\"", attempts: "3")
      {:ok, 0}
      iex> {:error, error} = EchoMQ.Events.publish(bus, "shop", "failed", "job-7")
      iex> error.code
      :malformed_id
  """
  @spec publish(Connector.conn(), String.t(), event(), EchoMQ.Stream.Id.t(), extra()) :: published()
  def publish(conn, queue, event, job, extra \\ []) do
    event = {name(event), job, extra}

    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.publish(&1, client, queue, event))
  end

  @doc """
  Writes a job's progress into its row and publishes the event `progress`, in one step of the server's. Answers how many
  listened.

  Fails with `:gone` where the job has no row, and with `:wrong_type`; nothing was changed then and nothing published.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, row} = EchoMQ.Keyspace.key("shop", "job:JOB000xY9Wvvcd")
      iex> {:ok, _} = EchoMQ.Connector.command(bus, ["HSET", row, "state", "active"])
      iex> EchoMQ.Events.update_progress(bus, "shop", "JOB000xY9Wvvcd", "50")
      {:ok, 0}
      iex> EchoMQ.Connector.command(bus, ["HGET", row, "progress"])
      {:ok, "50"}
  """
  @spec update_progress(Connector.conn(), String.t(), EchoMQ.Stream.Id.t(), String.t()) :: published()
  def update_progress(conn, queue, job, progress) do
    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.update_progress(&1, client, queue, job, progress))
  end

  @doc """
  Appends a record to a stream of the queue that has one writer, and then publishes an event with its place: the members `stream` and `id` stand
  before the further ones. Who hears of a gap reads the stream from the last id that it knows.

  `EchoMQ.Stream.append_and_publish/5` is the same for a handle of a stream. Fails as `EchoMQ.Stream.append/4` does, and with
  `:reserved_field` for a further member `stream` or `id`; nothing is
  published then. Once the record is there the call succeeds, and `:published` says what became of the event.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, announced} =
      ...>   EchoMQ.Events.append_and_publish(bus, "shop", "results", [score: "7"], :completed, "JOB000xY9Wvvcd")
      iex> announced.published
      {:ok, 0}
      iex> EchoMQ.Stream.read(bus, "shop", "results")
      {:ok, [{announced.id, %{"score" => "7"}}]}
  """
  @spec append_and_publish(
          Connector.conn(),
          String.t(),
          String.t(),
          EchoMQ.Stream.fields(),
          event(),
          EchoMQ.Stream.Id.t(),
          extra()
        ) :: {:ok, Announced.t()} | {:error, Error.t()}
  def append_and_publish(conn, queue, stream, fields, event, job, extra \\ []) do
    event = {name(event), job, extra}

    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.append_and_publish(&1, client, queue, stream, fields, event))
  end

  @doc """
  The same for a stream of many writers, as `EchoMQ.Stream.append_and_publish/5` does for a handle that says so.
  """
  @spec append_sequenced_and_publish(
          Connector.conn(),
          String.t(),
          String.t(),
          EchoMQ.Stream.fields(),
          event(),
          EchoMQ.Stream.Id.t(),
          extra()
        ) :: {:ok, Announced.t()} | {:error, Error.t()}
  def append_sequenced_and_publish(conn, queue, stream, fields, event, job, extra \\ []) do
    event = {name(event), job, extra}

    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.append_and_publish(&1, client, queue, {stream, :many}, fields, event))
  end

  @doc """
  Runs a transition, and publishes an event when it has decided: when it answers `:ok` or `{:ok, verdict}`.

  The event is checked first; where it cannot be published, the transition does not run. Whatever else the transition answers
  comes back as it is, an exception passes through, and nothing is published.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Events.after_verdict(bus, "shop", :completed, "JOB000xY9Wvvcd", fn -> {:ok, "done"} end)
      {:ok, %EchoMQ.Events.Decided{verdict: "done", published: {:ok, 0}}}
      iex> EchoMQ.Events.after_verdict(bus, "shop", :completed, "JOB000xY9Wvvcd", fn -> :not_mine end)
      :not_mine
  """
  @spec after_verdict(
          Connector.conn(),
          String.t(),
          event(),
          EchoMQ.Stream.Id.t(),
          extra(),
          (() -> :ok | {:ok, verdict} | other)
        ) :: {:ok, Decided.t(:ok | verdict)} | {:error, Error.t()} | other
        when verdict: term(), other: term()
  def after_verdict(conn, queue, event, job, extra \\ [], transition) when is_function(transition, 0) do
    event = {name(event), job, extra}

    with {:ok, client} <- Connector.client(conn),
         {:ok, checked} <- Native.call(&Native.check_event(&1, client, queue, event)) do
      case transition.() do
        :ok -> {:ok, decided(:ok, checked)}
        {:ok, verdict} -> {:ok, decided(verdict, checked)}
        other -> other
      end
    end
  end

  defp decided(verdict, checked) do
    %Decided{verdict: verdict, published: Native.call(&Native.publish_checked(&1, checked))}
  end

  # Hearing.

  @doc """
  Starts a listener. When it answers, the server has confirmed the subscription: what is published from then on is heard.

  `:conn` and `:queue` are needed. With `:handler` it folds what it hears into a state that begins with `:state`. `:buffer` and
  `:raw` say how its handler hears, and its subscribers where they do not say otherwise; see `t:hearing/0`. `:on_notice` says
  who is told how the connection comes and goes; see the section on notices. `:name` registers the process, as with
  `GenServer`, and `GenServer.stop/1` stops it.

  It ends as its connector does, or with an `EchoMQ.Error` when it cannot go on: `:auth` when the user may not listen any
  longer, or `:version_fence`. It fails to start with `:invalid_name`, `:invalid_option`, `:auth`, `:closed`, and with
  `:disconnected` when there was no connection until the connector's `:timeout`. The caller does not end by that, whether it
  traps exits or not.

  With `connect: :lazy`, the default under a supervisor, it waits for nothing: it starts at once and tries until the server
  is there. `status/1` says why it is not connected until then; other calls are answered once it is. Notices tell of a failed
  attempt by `:disconnected`, and by `:connected` that one has succeeded after that.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> count = fn _name, _payload, count -> {:ok, count + 1} end
      iex> {:ok, counter} = EchoMQ.Events.start_link(conn: bus, queue: "counted", handler: count, state: 0)
      iex> :ok = EchoMQ.Events.subscribe(counter)
      iex> EchoMQ.Events.publish(bus, "counted", :added, "JOB000xY9Wvvcd")
      {:ok, 1}
      iex> receive do
      ...>   {:emq_event, "added", %{"job" => job}} -> job
      ...> end
      "JOB000xY9Wvvcd"
      iex> EchoMQ.Events.state(counter) in [0, 1]
      true
      iex> GenServer.stop(counter)
      iex> receive do
      ...>   {:emq_end, error} -> error
      ...> end
      nil
  """
  @spec start_link([option()]) :: GenServer.on_start()
  def start_link(options) do
    what = Options.listener(options)
    Listener.start_link(what, Keyword.take(options, [:name]))
  end

  @doc """
  How a supervisor starts a listener. Its id is the name, where one is given. It starts at once and tries until the server is
  there, unless `:connect` says otherwise. It is restarted where it ended with a fault, not where it was stopped.
  """
  @spec child_spec([option()]) :: Supervisor.child_spec()
  def child_spec(options) do
    id = Keyword.get(options, :name, __MODULE__)
    start = Keyword.put_new(options, :connect, :lazy)
    %{id: id, start: {__MODULE__, :start_link, [start]}, restart: :transient}
  end

  @doc """
  Has the calling process hear off a listener, or the process that `:pid` names; it must be one of this node. A process that
  hears already goes on as it does, and nothing comes twice.

  The options are those of `t:hearing/0`. Given a connector and a queue, it is `subscribe/3` without options.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, listener} = EchoMQ.Events.start_link(conn: bus, queue: "raw")
      iex> EchoMQ.Events.subscribe(listener, raw: true)
      :ok
      iex> EchoMQ.Events.publish(bus, "raw", :stalled, "JOB000xY9Wvvcd")
      {:ok, 1}
      iex> receive do
      ...>   {:emq_event, name, bytes} -> {name, bytes}
      ...> end
      {"stalled", ~S({"event":"stalled","job":"JOB000xY9Wvvcd"})}
  """
  @spec subscribe(listener(), [{:pid, pid()} | hearing()]) :: :ok | {:error, Error.t()}
  @spec subscribe(Connector.conn(), String.t()) :: :ok | {:error, Error.t()}
  def subscribe(listener_or_conn, options_or_queue \\ [])
  def subscribe(conn, queue) when is_binary(queue), do: subscribe(conn, queue, [])

  def subscribe(listener, options) do
    {process, how} = Options.subscriber(options)
    GenServer.call(listener, {:subscribe, process, how}, :infinity)
  end

  @doc """
  Has the calling process, or the process that `:pid` names, hear the events of a queue. When it answers, the server has
  confirmed the subscription. See `subscribe/2`.

  Fails with `:invalid_name`, `:invalid_option`, `:auth`, `:closed`, and with `:disconnected` when there was no connection until
  the connector's `:timeout`.
  """
  @spec subscribe(Connector.conn(), String.t(), [{:pid, pid()} | hearing()]) :: :ok | {:error, Error.t()}
  def subscribe(conn, queue, options) do
    {process, how} = Options.subscriber(options)
    Shared.subscribe(conn, Options.queue(queue), process, how)
  end

  @doc """
  Has the calling process hear no longer off a listener, or off the queue of a connector where a queue is given; or the
  process that `:pid` names. When it answers, nothing more comes; what is in the mailbox already stays there.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> :ok = EchoMQ.Events.subscribe(bus, "left")
      iex> EchoMQ.Events.unsubscribe(bus, "left")
      :ok
      iex> EchoMQ.Events.unsubscribe(bus, "left")
      :ok
  """
  @spec unsubscribe(listener(), pid: pid()) :: :ok
  @spec unsubscribe(Connector.conn(), String.t()) :: :ok
  def unsubscribe(listener_or_conn, options_or_queue \\ [])
  def unsubscribe(conn, queue) when is_binary(queue), do: unsubscribe(conn, queue, [])

  def unsubscribe(listener, options) do
    [pid: process] = Keyword.validate!(options, pid: self())
    GenServer.call(listener, {:unsubscribe, process}, :infinity)
  end

  @doc "See `unsubscribe/2`."
  @spec unsubscribe(Connector.conn(), String.t(), pid: pid()) :: :ok
  def unsubscribe(conn, queue, options) do
    [pid: process] = Keyword.validate!(options, pid: self())
    Shared.unsubscribe(conn, Options.queue(queue), process)
  end

  @doc """
  What a listener's handler has folded, up to the event before the call. Raises an `EchoMQ.Error` with the code `:state` for a
  listener without a handler.

  It is answered between two events: a handler that takes long is waited for, and the caller exits after `timeout`
  milliseconds, as with `GenServer.call/3`.
  """
  @spec state(listener(), timeout()) :: term()
  def state(listener, timeout \\ 5_000) do
    case GenServer.call(listener, :state, timeout) do
      {:ok, state} -> state
      {:error, error} -> raise error
    end
  end

  @doc """
  How a listener stands, as far as it has noticed: whether the server sends it events, how often it has subscribed again,
  why there is no connection, and how many processes hear off it.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, listener} = EchoMQ.Events.start_link(conn: bus, queue: "shop")
      iex> EchoMQ.Events.status(listener)
      %{
        queue: "shop", channel: "emq:{shop}:events", connected: true, resubscriptions: 0, error: nil, subscribers: 0
      }
  """
  @spec status(listener()) :: status()
  def status(listener), do: GenServer.call(listener, :status, :infinity)

  defp name(event) when is_binary(event), do: event
  defp name(event) when is_atom(event) and event not in [nil, true, false], do: Atom.to_string(event)

  defp name(other) do
    raise ArgumentError, "an event's name must be text or an atom, got: #{inspect(other)}"
  end
end
