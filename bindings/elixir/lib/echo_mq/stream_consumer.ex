defmodule EchoMQ.StreamConsumer do
  @moduledoc """
  A consumer of a group: it calls a handler with each entry of a stream, at least once.

      children = [
        {EchoMQ.Connector, name: MyApp.Bus, url: "valkey://events.internal"},
        {EchoMQ.StreamConsumer,
         conn: MyApp.Bus,
         queue: "shop",
         stream: "orders",
         group: "mailer",
         group_start: :new,
         handler: &MyApp.Mailer.handle/1}
      ]

      Supervisor.start_link(children, strategy: :rest_for_one)

  With `:rest_for_one` the consumer starts again when its connector does.

  ## Handlers

  A handler is a function of one `EchoMQ.Message`, or of a list of them with `:batch_handler`, and answers

    * `:ok` - it was handled: the group forgets it
    * `{:error, reason}` - it was not: it comes back after `:min_idle`, or sooner where `:retry` says so, or becomes a dead
      letter
    * `{:error, reason, delay: milliseconds}` - it comes back after that time, `:min_idle` at most

  A raise, a throw, an exit, the end of the handler's process and any other answer are failures too, and are logged; the
  consumer goes on. The verdict of a batch handler is on all of the batch.

  Handlers must be idempotent: the `:id` of a message tells one that comes twice. They run in processes of their own, as
  many as `:concurrency` says, never in the consumer's. A long handler keeps its message from other consumers as long as it
  runs. It may call `EchoMQ.PullConsumer.ack/1` and its kin on its message, which settles it before the answer does.

  A module can be the handler:

      defmodule MyApp.Mailer do
        use EchoMQ.StreamConsumer, queue: "shop", stream: "orders", group: "mailer", group_start: :new

        @impl true
        def handle_message(message) do
          MyApp.Mail.send(message.payload)
        end
      end

      children = [{MyApp.Mailer, conn: MyApp.Bus}]

  It implements `c:handle_message/1` or `c:handle_batch/1`, and may implement `c:handle_notice/1`. `use` takes the options of
  `start_link/1` and those of a child specification, `:id`, `:restart` and `:shutdown`; those given to the child come before
  them.

  ## Options

    * `:queue`, `:stream` - what to read; needed
    * `:handler` or `:batch_handler` - a function of one argument; `:handler` may also be a module; needed
    * `:conn` - a running `EchoMQ.Connector`; or `:connector` - the same, or the options to start one of its own, which ends
      with the consumer
    * `:on_notice` - a function of an `EchoMQ.Notice`, called in a process of its own, or a process, which gets
      `{:echo_mq_notice, consumer, notice}`; without it notices are logged as warnings, but for failed handlers
    * `:connect` - `:wait` has the start wait for the server, so that when it answers, the group exists and its place is pinned.
      `:lazy`, the default under a supervisor, waits for nothing: the consumer starts at once and tries until the server is
      there. It is `:connecting` until then, as `info/1` says, and notices tell why: `:disconnected` when an attempt has failed,
      `:connected` when one has succeeded after that
    * `:name` - registers the process, as with `GenServer`

  The rest says how the group is read; text, whole numbers or as shown:

  | option | what | without it |
  |---|---|---|
  | `:group` | the group's name | needed |
  | `:group_start` | where the group begins if it has to be made: `:new`, `:head`, an id (what follows it), a `DateTime` | needed |
  | `:consumer` | this consumer's name, which one process at a time uses | a new one each time |
  | `:count` | how many entries are fetched at once, and held ahead of the handler at most | 100 |
  | `:page_bytes` | about how many bytes are fetched at once, and held ahead of the handler at most | 4 194 304 |
  | `:beat` | how often to look for entries of dead peers, in milliseconds | 1 000 |
  | `:min_idle` | after how many milliseconds without a sign of life an entry is taken from its consumer | 30 000 |
  | `:max_attempts` | after how many failed deliveries an entry becomes a dead letter; `:none` tries for ever | `:none` |
  | `:retry` | how soon a failed entry comes back: `:none` (after `:min_idle`), milliseconds, or a range `100..5_000`, which doubles from the first to the last, with jitter | `:none` |
  | `:concurrency` | how many handlers run at the same time | 1 |
  | `:order_by` | a field; entries with the same value in it are handled in their order, one at a time | none |
  | `:on_foreign` | what to do with entries that this bus did not write: `:deliver`, `:skip` (acknowledge) or `:fail` | `:deliver` |
  | `:max_n` | how many messages a batch has at most | 100, or `:count` |
  | `:max_wait` | how many milliseconds a batch waits for more messages | 0 |

  ## Telemetry

  Where `:telemetry` is loaded, each call of a handler is followed by the event `[:echo_mq, :consumer, :handled]` with
  `%{duration: native_time, messages: count}` and each notice by `[:echo_mq, :consumer, :notice]` with `%{count: 1}`. Both have
  the metadata `:queue`, `:stream`, `:group` and `:consumer`, and `:verdict` (`:ok` or `{:error, reason}`) or `:notice`.
  """

  alias EchoMQ.{Connector, Error, Keyspace, Message, Notice, PullConsumer, Starting}
  alias EchoMQ.StreamConsumer.{Options, Server}

  @typedoc "A running consumer: its process, or the name it was registered under."
  @type consumer :: GenServer.server()

  @typedoc "What a handler answers."
  @type verdict :: :ok | {:error, term()} | {:error, term(), [delay: non_neg_integer()]}

  @typedoc "An option of `start_link/1`."
  @type option ::
          {:queue | :stream, String.t()}
          | {:handler, (Message.t() -> verdict()) | module()}
          | {:batch_handler, ([Message.t()] -> verdict())}
          | {:conn, Connector.conn()}
          | {:connector, Connector.conn() | [Connector.option()] | (() -> [Connector.option()])}
          | {:on_notice, (Notice.t() -> term()) | pid() | atom()}
          | {:connect, :wait | :lazy}
          | {:name, GenServer.name()}
          | PullConsumer.option()

  @typedoc """
  What `info/1` answers. While it is `:connecting`, the error says why it was not yet, where an attempt has failed, and a
  consumer that was given no name has none.
  """
  @type info :: %{
          queue: String.t(),
          stream: String.t(),
          group: String.t(),
          consumer: String.t() | nil,
          state: :connecting | :running | :suspended | :stopping,
          error: Error.t() | nil
        }

  @doc "Handles one message."
  @callback handle_message(Message.t()) :: verdict()

  @doc "Handles between 1 and `:max_n` messages at once."
  @callback handle_batch([Message.t()]) :: verdict()

  @doc "Is told what the consumer tells beside its messages, in a process of its own."
  @callback handle_notice(Notice.t()) :: term()

  @optional_callbacks handle_message: 1, handle_batch: 1, handle_notice: 1

  @specification [:id, :restart, :shutdown]

  @doc false
  defmacro __using__(options) do
    quote bind_quoted: [options: options, specification: @specification] do
      @behaviour EchoMQ.StreamConsumer

      {specification, options} = Keyword.split(options, specification)
      @echo_mq_specification Keyword.put_new(specification, :id, __MODULE__)
      @echo_mq_options Keyword.put_new(options, :handler, __MODULE__)

      @doc false
      def start_link(options) do
        EchoMQ.StreamConsumer.start_link(EchoMQ.StreamConsumer.merge(@echo_mq_options, options))
      end

      @doc false
      def child_spec(options) do
        start = EchoMQ.StreamConsumer.supervised(options, @echo_mq_options)

        %{EchoMQ.StreamConsumer.child_spec(options) | start: {__MODULE__, :start_link, [start]}}
        |> Supervisor.child_spec(@echo_mq_specification)
      end

      defoverridable child_spec: 1, start_link: 1
    end
  end

  @doc false
  @spec merge([option()], [option()] | (() -> [option()])) :: [option()]
  def merge(defaults, options) when is_function(options, 0), do: merge(defaults, options.())
  def merge(defaults, options), do: Keyword.merge(defaults, options)

  @doc """
  Starts a consumer. When it answers, the group exists and its place is pinned: what is appended from then on is seen. With
  `connect: :lazy` that is so once the consumer is `:running`.

  Fails with an `EchoMQ.Error` as `EchoMQ.PullConsumer.start/4` does; with `connect: :lazy` only with what needs no server. The
  caller does not end by that, whether it traps exits or not. The options may also be given as a function of no
  arguments that answers them, so that secrets are looked up late.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> test = self()
      iex> handler = fn message ->
      ...>   send(test, {message.id, message.payload, message.attempts, message.group})
      ...>   :ok
      ...> end
      iex> {:ok, consumer} =
      ...>   EchoMQ.StreamConsumer.start_link(
      ...>     conn: bus, queue: "shop", stream: "handled", group: "mailer", group_start: :new, handler: handler)
      iex> {:ok, id} = EchoMQ.Stream.append(bus, "shop", "handled", to: "ada")
      iex> receive do
      ...>   {^id, payload, attempts, group} -> {payload, attempts, group}
      ...> end
      {%{"to" => "ada"}, 1, "mailer"}
      iex> EchoMQ.StreamConsumer.stop(consumer, 5_000)
      {:ok, 0}
  """
  @spec start_link([option()] | (() -> [option()])) :: GenServer.on_start()
  def start_link(options) when is_function(options, 0), do: start_link(options.())

  def start_link(options) do
    unless Keyword.keyword?(options) do
      raise ArgumentError, "the options of a consumer must be a keyword list or a function that answers one"
    end

    {what, source, reading} = Options.split(options)

    with {:ok, _key} <- Keyspace.stream_key(what.queue, what.stream),
         {:ok, settings} <- PullConsumer.settings(reading) do
      Starting.start_link(Server, {what, source, settings}, Keyword.take(options, [:name]))
    end
  end

  @doc """
  How a supervisor starts it. Its id is the name, where one is given.

  It starts at once and tries until the server is there, unless `:connect` says otherwise. It is restarted where it ended with a
  fault, not where it was stopped. A supervisor that stops it waits for the messages in
  hand, as long as the shutdown time allows. The options are wrapped, so that a supervisor's report shows no password.
  """
  @spec child_spec([option()] | (() -> [option()])) :: Supervisor.child_spec()
  def child_spec(options) do
    id = if Keyword.keyword?(options), do: Keyword.get(options, :name, __MODULE__), else: __MODULE__
    %{id: id, start: {__MODULE__, :start_link, [supervised(options, [])]}, restart: :transient}
  end

  @doc false
  # The options of a consumer that waits for nothing, unless they or the defaults say otherwise.
  @spec supervised([option()] | (() -> [option()]), [option()]) :: (() -> [option()])
  def supervised(options, defaults) do
    fn ->
      options = if is_function(options, 0), do: options.(), else: options

      if Keyword.keyword?(options),
        do: Keyword.put_new(options, :connect, defaults[:connect] || :lazy),
        else: options
    end
  end

  @doc """
  Hands out nothing more, waits `within` that many milliseconds for the messages in hand, brings the last verdicts to the
  server, and ends the process.

  What was fetched and not begun is given back to the group: another consumer takes it with its next beat. A handler that
  still runs then is ended. Answers how many messages are left without a verdict on the server; they stay pending, and none
  is lost. Stopping again answers 0. A handler that stops its own consumer is answered `:state`: it cannot wait for itself.
  """
  @spec stop(consumer(), timeout()) :: {:ok, non_neg_integer()} | {:error, Error.t()}
  def stop(consumer, within) when within == :infinity or (is_integer(within) and within >= 0) do
    case GenServer.whereis(consumer) do
      nil -> {:ok, 0}
      process -> stop_process(process, within)
    end
  end

  def stop(_consumer, within) do
    raise ArgumentError, "the time to stop within must be milliseconds or :infinity, got: #{inspect(within)}"
  end

  defp stop_process(process, within) do
    monitor = Process.monitor(process)

    with {:ok, left} <- GenServer.call(process, {:stop, within}, :infinity) do
      receive do
        {:DOWN, ^monitor, :process, _, _} -> {:ok, left}
      end
    end
  catch
    :exit, {reason, {GenServer, :call, _}} when reason in [:noproc, :normal, :shutdown] -> {:ok, 0}
  end

  @doc "Has no more messages begun until `resume/1`. What is in hand is finished."
  @spec suspend(consumer()) :: :ok
  def suspend(consumer), do: GenServer.call(consumer, :suspend, :infinity)

  @doc "Goes on after `suspend/1`."
  @spec resume(consumer()) :: :ok
  def resume(consumer), do: GenServer.call(consumer, :resume, :infinity)

  @doc "What it reads, under which names, and how it stands."
  @spec info(consumer()) :: info()
  def info(consumer), do: GenServer.call(consumer, :info, :infinity)
end
