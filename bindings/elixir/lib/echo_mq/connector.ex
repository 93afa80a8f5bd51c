defmodule EchoMQ.Connector do
  @moduledoc """
  A connection to one server, shared by all processes that call through it.

      children = [
        {EchoMQ.Connector, name: MyApp.Bus, url: "valkey://events.internal"}
      ]

  A call does not go through the connector's process: it leaves at once, and calls of many processes share pipelines.
  The connection is made again by itself whenever it breaks. A process that is killed while it waits does no harm;
  what it appended may have been stored.

  ## Options

  `:url` is needed: `redis://`, `rediss://`, `valkey://` or `valkeys://` with
  `[user[:password]@]host[:port][/database]`, or `unix:///path`. Other options may follow as its query. `:name`
  registers the process, as with `GenServer`, and `:on_notice` says who is told how the connection stands; see below. The
  rest are text, whole numbers or words:

  | option | what | without it |
  |---|---|---|
  | `:username`, `:password` | who asks; also in the URL | nobody |
  | `:database` | a number; also in the URL | 0 |
  | `:client_name` | shown by `CLIENT LIST` | none |
  | `:node_id` | 0 to 1022, this VM's own, in place of a leased one | the variable `ECHOMQ_NODE_ID`, else a leased one |
  | `:node_lease` | milliseconds that a node stays this connector's after its VM was killed, at least 1 000 | 30 000 |
  | `:on_node_conflict` | where another process has the `:node_id` given: `:warn`, `:wait` for it, or `:refuse` | `:warn` |
  | `:timeout` | milliseconds until a call fails | 5 000 |
  | `:connect` | the first connection: `:wait` for a server that is not there yet, for `:connect_timeout` at most; `:lazy`: wait for nothing, calls wait until their deadlines; `:once`: one attempt | `:lazy` under a supervisor, else `:wait` |
  | `:connect_timeout` | milliseconds for one attempt to connect | 5 000 |
  | `:reconnect_min`, `:reconnect_max` | milliseconds between attempts, doubling | 50, 2 000 |
  | `:heartbeat` | milliseconds that a connection which listens may be silent before it is asked for a sign of life; silent for as long again, it is given up | 1 000 |
  | `:max_record_bytes` | bytes of names and values in one record | 1 048 576 |
  | `:max_in_flight` | commands that wait for their answers before calls are refused | 65 536 |
  | `:max_in_flight_bytes` | bytes of records and commands that wait for their answers before calls are refused | 67 108 864 |
  | `:max_clock_ahead` | milliseconds that this host's clock may be ahead of the server's, or `:none` | 60 000 |
  | `:protocol` | `:auto`, `2` or `3` | `:auto` |
  | `:claim_version` | `"echomq:<major>.<minor>.<patch>"` to mark an unmarked deployment with | none |
  | `:tls_ca` | PEM file of the authorities to trust | the system's |
  | `:tls_certificate`, `:tls_key` | PEM files of the client's own certificate | none |
  | `:clock` | Unix milliseconds at which the clock stands still, for tests | the system's clock |

  `ECHOMQ_NODE_ID` is read from the environment in which the VM was started. `:password` may also be a function of no
  arguments, which is asked each time a connection is opened, for passwords that change; it runs in a process of its own,
  within `:connect_timeout`, and where it fails the reason is `:auth`.

  ## Outages

  An outage ends no connector. Under a supervisor it starts at once, whether the server is there or not, and connects by
  itself: an application starts without its server, and its calls wait for it until their `:timeout`. What stands in the
  way, a wrong password for example, is what they fail with, what `status/1` says, and what is told by notices.

  `:on_notice` is a function of an `EchoMQ.Notice`, called in a process of its own, or a process, which gets
  `{:echo_mq_notice, connector, notice}`; without it notices are logged as warnings, `:connected` for debugging. Where
  `:telemetry` is loaded, each is followed by the event `[:echo_mq, :connector, :notice]` with `%{count: 1}` and the
  metadata `:connector` and `:notice`.

  ## Order

  What one process appends stays in its order. Where more than one connector appends to a stream, it has many writers: see
  `EchoMQ.Stream`.

  ## Nodes

  Ids are made by a node, and no two processes that live make them by the same. A connector leases one from the server as
  it appends first, renews it, and gives it back at its end, so that nobody numbers processes; one that only reads needs
  none. `nodes/1` says who has which.
  """

  use GenServer

  alias EchoMQ.Connector.{Password, Table}
  alias EchoMQ.{Error, Native, Notice, Notifier, Starting}

  @typedoc "A connector: its process, or the name it was registered under."
  @type conn :: pid() | atom() | {:global, term()} | {:via, module(), term()}

  @typedoc "An option of `start_link/1`."
  @type option ::
          {:url, String.t()}
          | {:name, GenServer.name()}
          | {:on_notice, (Notice.t() -> term()) | pid() | atom()}
          | {:connect, :wait | :lazy | :once}
          | {:username | :password | :client_name | :claim_version | :tls_ca | :tls_certificate | :tls_key,
             String.t()}
          | {:password, (() -> String.t())}
          | {:on_node_conflict, :warn | :wait | :refuse}
          | {:database
             | :node_id
             | :node_lease
             | :timeout
             | :connect_timeout
             | :reconnect_min
             | :reconnect_max
             | :heartbeat, non_neg_integer()}
          | {:max_record_bytes | :max_in_flight | :max_in_flight_bytes | :clock, non_neg_integer()}
          | {:max_clock_ahead, non_neg_integer() | :none}
          | {:protocol, :auto | 2 | 3}

  @typedoc "Who holds a node."
  @type node_lease :: %{
          node: 0..1022,
          owner: String.t(),
          left: non_neg_integer(),
          host: String.t(),
          process: String.t(),
          client_name: String.t()
        }

  @typedoc "A command of the server's: its name and arguments. Whole numbers stand for their decimal text."
  @type command :: [iodata() | integer()]

  @typedoc """
  What the server answered.

  Text is a binary and a map is a list of pairs in the server's order. Erlang's floats are finite: other numbers are
  `:infinity`, `:negative_infinity` and `:nan`.
  """
  @type reply ::
          nil
          | boolean()
          | integer()
          | float()
          | :infinity
          | :negative_infinity
          | :nan
          | binary()
          | [reply()]
          | [{reply(), reply()}]

  @doc """
  Connects, and starts the process that holds the connection.

  Fails with an `EchoMQ.Error`: `:invalid_option`, `:tls`, `:auth`, `:version_fence`, `:unsupported_server`,
  `:disconnected` when the server cannot be reached within `:connect_timeout`, and `:unavailable` when it does not serve.
  With `connect: :lazy`, the default under a supervisor, only with `:invalid_option` and `:tls`. The caller does not end by
  that, whether it traps exits or not.

  The options may also be given as a function of no arguments that answers them, so that secrets are looked up late and
  stand in no supervisor's report.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Connector.command(bus, ["PING"])
      {:ok, "PONG"}
      iex> {:error, error} = EchoMQ.Connector.start_link(url: url(), timeuot: 7)
      iex> Exception.message(error)
      "invalid_option: there is no option of that name (timeuot)"
  """
  @spec start_link([option()] | (() -> [option()])) :: GenServer.on_start()
  def start_link(options) when is_function(options, 0), do: start_link(options.())

  def start_link(options) do
    unless Keyword.keyword?(options) do
      raise ArgumentError, "the options of a connector must be a keyword list or a function that answers one"
    end

    {name, options} = Keyword.split(options, [:name])
    {told, options} = Keyword.pop(options, :on_notice)
    {url, options} = Keyword.pop(options, :url)
    {password, options} = asked(options)
    named = for {option, value} <- options, do: {Atom.to_string(option), text(option, value)}
    target = Notifier.target(told, nil)

    with {:ok, settings} <- Native.options(text(:url, url), named) do
      Starting.start_link(__MODULE__, {settings, password, target}, name)
    end
  end

  # A password that is a function, apart from the other options.
  defp asked(options) do
    if is_function(options[:password], 0), do: Keyword.pop(options, :password), else: {nil, options}
  end

  @doc """
  How a supervisor starts it. Its id is the name, where one is given.

  It starts at once and connects by itself, unless `:connect` says otherwise. The options are wrapped, so that a
  supervisor's report shows no password.
  """
  @spec child_spec([option()] | (() -> [option()])) :: Supervisor.child_spec()
  def child_spec(options) do
    id = if Keyword.keyword?(options), do: Keyword.get(options, :name, __MODULE__), else: __MODULE__
    %{id: id, start: {__MODULE__, :start_link, [fn -> supervised(options) end]}}
  end

  @doc false
  # The options of a connector that waits for nothing, unless they say otherwise.
  @spec supervised([option()] | (() -> [option()])) :: [option()]
  def supervised(options) when is_function(options, 0), do: supervised(options.())

  def supervised(options) do
    said? = not Keyword.keyword?(options) or "#{options[:url]}" =~ ~r/[?&]connect=/
    if said?, do: options, else: Keyword.put_new(options, :connect, :lazy)
  end

  @doc """
  Sends any command of the server's, for what this library has no call for.

  It shares the connection with every other call. What would make the server wait (`BLPOP`, `XREAD BLOCK`), change the connection
  (`SELECT`, `MULTI`, `HELLO`) or the number of answers (`SUBSCRIBE`, `MONITOR`) is refused with `:invalid_option`.
  Fails with `:unknown_outcome` when the connection broke before the answer came, and with the code of what the server
  answered.

  Every call ends by the connector's `:timeout`. With a third argument, in milliseconds, the caller waits no longer than
  that and exits, as with `GenServer.call/3`; the command may still be carried out, and its answer reaches nobody.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Connector.command(bus, ["SET", "greeting", "hello"])
      {:ok, "OK"}
      iex> EchoMQ.Connector.command(bus, ["STRLEN", "greeting"])
      {:ok, 5}
      iex> {:error, error} = EchoMQ.Connector.command(bus, ["XLEN", "greeting"])
      iex> error.code
      :wrong_type
  """
  @spec command(conn(), command(), timeout()) :: {:ok, reply()} | {:error, Error.t()}
  def command(conn, parts, timeout \\ :infinity) do
    with {:ok, client} <- client(conn), do: Native.call(&Native.command(&1, client, parts), timeout, :command)
  end

  @doc """
  Sends many commands in one pipeline; one result for each. See `command/3`.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Connector.pipeline(bus, [["SET", "visits", 0], ["INCRBY", "visits", 5]])
      {:ok, [{:ok, "OK"}, {:ok, 5}]}
  """
  @spec pipeline(conn(), [command()], timeout()) ::
          {:ok, [{:ok, reply()} | {:error, Error.t()}]} | {:error, Error.t()}
  def pipeline(conn, commands, timeout \\ :infinity) do
    with {:ok, client} <- client(conn),
         do: Native.call(&Native.pipeline(&1, client, commands), timeout, :pipeline)
  end

  @doc """
  Makes one id of a stream record, for `EchoMQ.Stream.append_id/5`.

  It is there at once while the connector has its node; the first one leases a node, which takes the server.

  Fails with `:clock_ahead` while this host's clock is too far ahead of the server's, with `:node_lease_lost` where no node
  is free, with `:node_conflict` where another process has the one given and `:on_node_conflict` says so, and with
  `:mint_exhausted`.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, id} = EchoMQ.Connector.mint(bus)
      iex> {:ok, %EchoMQ.Stream.Id{namespace: "EVT"}} = EchoMQ.Stream.Id.decode(id)
  """
  @spec mint(conn(), timeout()) :: {:ok, EchoMQ.Stream.Id.t()} | {:error, Error.t()}
  def mint(conn, timeout \\ :infinity) do
    with {:ok, client} <- client(conn), do: Native.call(&Native.mint(&1, client), timeout, :mint)
  end

  @doc """
  Who holds which node: `:owner` is the token of the lease, `:left` for how many milliseconds more it holds unless it is
  renewed, and `:host`, `:process` and `:client_name` say who that is.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url(), client_name: "nodes-example")
      iex> {:ok, "EVT" <> _} = EchoMQ.Connector.mint(bus)
      iex> {:ok, nodes} = EchoMQ.Connector.nodes(bus)
      iex> [lease] = Enum.filter(nodes, &(&1.client_name == "nodes-example"))
      iex> lease.process == System.pid() and lease.left <= 30_000
      true
  """
  @spec nodes(conn()) :: {:ok, [node_lease()]} | {:error, Error.t()}
  def nodes(conn) do
    with {:ok, client} <- client(conn), do: Native.call(&Native.nodes(&1, client))
  end

  @doc """
  How the connection stands: whether there is one, as far as was noticed, how often it was made again, and why there is none.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Connector.status(bus)
      {:ok, %{connected: true, reconnects: 0, error: nil}}
  """
  @spec status(conn()) ::
          {:ok, %{connected: boolean(), reconnects: non_neg_integer(), error: Error.t() | nil}}
          | {:error, Error.t()}
  def status(conn) do
    with {:ok, client} <- client(conn) do
      {connected, reconnects, error} = Native.status(client)
      {:ok, %{connected: connected, reconnects: reconnects, error: error}}
    end
  end

  @doc """
  Takes no more calls, waits for those under way, closes the connection and ends the process.

  What is not done `within` that many milliseconds is given up; answers how many calls that were. With `:infinity` each
  call has until its own `:timeout`. Consumers, tails and listeners end too: consumers have the same time for the
  messages in hand, and with `:infinity` none, since one who waits here may have one in hand. Closing again answers 0. A
  supervisor that stops the process waits for the calls under way as well, as long as its own shutdown time allows.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Connector.close(bus, 5_000)
      {:ok, 0}
      iex> EchoMQ.Connector.close(bus, 5_000)
      {:ok, 0}
  """
  @spec close(conn(), timeout()) :: {:ok, non_neg_integer()}
  def close(conn, within) when within == :infinity or (is_integer(within) and within >= 0) do
    case whereis(conn) do
      nil -> {:ok, 0}
      process -> GenServer.call(process, {:close, within}, :infinity)
    end
  catch
    :exit, {reason, {GenServer, :call, _}} when reason in [:noproc, :normal, :shutdown] -> {:ok, 0}
  end

  def close(_conn, within) do
    raise ArgumentError, "the time to close within must be milliseconds or :infinity, got: #{inspect(within)}"
  end

  @doc false
  # The client of a connector, which any process may use. It asks no process.
  @spec client(conn()) :: {:ok, Native.client()} | {:error, Error.t()}
  def client(conn) do
    with process when is_pid(process) <- whereis(conn),
         client when client != nil <- Table.get(process) do
      {:ok, client}
    else
      _ -> {:error, %Error{code: :closed, message: "no connector runs here", subject: inspect(conn)}}
    end
  end

  defp whereis(process) when is_pid(process), do: process
  defp whereis(name) when is_atom(name), do: Process.whereis(name)
  defp whereis({:global, _} = name), do: GenServer.whereis(name)
  defp whereis({:via, _, _} = name), do: GenServer.whereis(name)

  defp whereis(other) do
    raise ArgumentError, "a connector must be a pid or a name, got: #{inspect(other)}"
  end

  # The value is not shown: it may be a secret.
  defp text(_option, value) when is_binary(value), do: value
  defp text(_option, value) when is_integer(value), do: Integer.to_string(value)
  defp text(_option, value) when is_atom(value) and value not in [nil, true, false], do: Atom.to_string(value)

  defp text(option, _value) do
    raise ArgumentError, "the option #{inspect(option)} must be text or a whole number"
  end

  @impl true
  def init({starter, {settings, password, target}}) do
    password = password && :proc_lib.spawn_link(Password, :run, [password])
    settings = if password, do: Native.ask_password(settings, password), else: settings

    case Native.call(&Native.connect(&1, settings)) do
      {:ok, client} ->
        # So that a supervisor's stop lets the calls under way finish.
        Process.flag(:trap_exit, true)
        :ok = Table.put(client)
        {:ok, start_notifier(%{client: client, target: target, notifier: nil, password: password})}

      {:error, error} ->
        if password do
          Process.unlink(password)
          Process.exit(password, :shutdown)
        end

        Starting.fail(starter, error)
    end
  end

  defp start_notifier(state) do
    told = %{
      notices: Native.client_notices(state.client),
      what: "connector",
      owner: self(),
      target: state.target,
      report: Notifier.report([:connector, :notice], %{connector: self()})
    }

    %{state | notifier: :proc_lib.spawn_link(Notifier, :run, [told])}
  end

  @impl true
  def handle_call({:close, within}, _from, state) do
    {:stop, :normal, {:ok, close_client(state, within)}, state}
  end

  @impl true
  def handle_info({:EXIT, process, reason}, %{notifier: process} = state) do
    if reason == :normal, do: {:noreply, state}, else: {:noreply, start_notifier(state)}
  end

  def handle_info({:EXIT, _process, reason}, state) when reason != :normal, do: {:stop, reason, state}
  def handle_info(_message, state), do: {:noreply, state}

  @impl true
  def terminate(_reason, state) do
    close_client(state, :infinity)
    # What they wait for, nobody may ever tell.
    for process <- [state.notifier, state.password], process, do: Process.exit(process, :shutdown)
  end

  defp close_client(state, within), do: Native.call(&Native.close(&1, state.client, within))
end
