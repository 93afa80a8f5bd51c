defmodule EchoMQ.Connector do
  @moduledoc """
  A connection to one server, shared by all processes that call through it.

      children = [
        {EchoMQ.Connector, name: MyApp.Bus, url: "valkey://events.internal", node_id: 7}
      ]

  A call does not go through the connector's process: it leaves at once, and calls of many processes share pipelines.
  The connection is made again by itself whenever it breaks. A process that is killed while it waits does no harm;
  what it appended may have been stored.

  ## Options

  `:url` is needed: `redis://`, `rediss://`, `valkey://` or `valkeys://` with
  `[user[:password]@]host[:port][/database]`, or `unix:///path`. Other options may follow as its query. `:name`
  registers the process, as with `GenServer`. The rest are text or whole numbers:

  | option | what | without it |
  |---|---|---|
  | `:username`, `:password` | who asks; also in the URL | nobody |
  | `:database` | a number; also in the URL | 0 |
  | `:client_name` | shown by `CLIENT LIST` | none |
  | `:node_id` | 0 to 1022, this VM's own; needed to append | the variable `ECHOMQ_NODE_ID` |
  | `:timeout` | milliseconds until a call fails | 5 000 |
  | `:connect_timeout` | milliseconds for one attempt to connect | 5 000 |
  | `:reconnect_min`, `:reconnect_max` | milliseconds between attempts, doubling | 50, 2 000 |
  | `:heartbeat` | milliseconds that a connection which listens may be silent before it is asked for a sign of life; silent for as long again, it is given up | 1 000 |
  | `:max_record_bytes` | bytes of names and values in one record | 1 048 576 |
  | `:max_in_flight` | commands that wait for their answers before calls are refused | 65 536 |
  | `:max_clock_ahead` | milliseconds that this host's clock may be ahead of the server's, or `:none` | 60 000 |
  | `:protocol` | `:auto`, `2` or `3` | `:auto` |
  | `:claim_version` | `"echomq:<major>.<minor>.<patch>"` to mark an unmarked deployment with | none |
  | `:tls_ca` | PEM file of the authorities to trust | the system's |
  | `:tls_certificate`, `:tls_key` | PEM files of the client's own certificate | none |
  | `:clock` | Unix milliseconds at which the clock stands still, for tests | the system's clock |

  `ECHOMQ_NODE_ID` is read from the environment in which the VM was started.

  ## Order

  A stream has one writer: one connector of one VM. What one process appends stays in its order. A second connector is a
  second writer; see `EchoMQ.Stream`.
  """

  use GenServer

  alias EchoMQ.Connector.Table
  alias EchoMQ.{Error, Native}

  @typedoc "A connector: its process, or the name it was registered under."
  @type conn :: pid() | atom() | {:global, term()} | {:via, module(), term()}

  @typedoc "An option of `start_link/1`."
  @type option ::
          {:url, String.t()}
          | {:name, GenServer.name()}
          | {:username | :password | :client_name | :claim_version | :tls_ca | :tls_certificate | :tls_key,
             String.t()}
          | {:database
             | :node_id
             | :timeout
             | :connect_timeout
             | :reconnect_min
             | :reconnect_max
             | :heartbeat, non_neg_integer()}
          | {:max_record_bytes | :max_in_flight | :clock, non_neg_integer()}
          | {:max_clock_ahead, non_neg_integer() | :none}
          | {:protocol, :auto | 2 | 3}

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

  Fails with an `EchoMQ.Error`: `:invalid_option`, `:tls`, `:auth`, `:version_fence`, or `:disconnected` when the server
  cannot be reached within `:connect_timeout`. As with every process that fails to start, a caller that does not trap
  exits ends with it; a bad option starts no process.

  The options may also be given as a function of no arguments that answers them, so that secrets are looked up late and
  stand in no supervisor's report.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url(), node_id: 7)
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
    {url, options} = Keyword.pop(options, :url)
    named = for {option, value} <- options, do: {Atom.to_string(option), text(option, value)}

    with {:ok, settings} <- Native.options(text(:url, url), named) do
      GenServer.start_link(__MODULE__, settings, name)
    end
  end

  @doc """
  How a supervisor starts it. Its id is the name, where one is given.

  The options are wrapped, so that a supervisor's report shows no password.
  """
  @spec child_spec([option()] | (() -> [option()])) :: Supervisor.child_spec()
  def child_spec(options) do
    id = if Keyword.keyword?(options), do: Keyword.get(options, :name, __MODULE__), else: __MODULE__
    start = if is_function(options), do: options, else: fn -> options end
    %{id: id, start: {__MODULE__, :start_link, [start]}}
  end

  @doc """
  Sends any command of the server's, for what this library has no call for.

  It shares the connection with every other call, so it must not make the server wait: no `BLPOP`, no `XREAD BLOCK`.
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
  How the connection stands: whether there is one, as far as was noticed, and how often it was made again.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Connector.status(bus)
      {:ok, %{connected: true, reconnects: 0}}
  """
  @spec status(conn()) ::
          {:ok, %{connected: boolean(), reconnects: non_neg_integer()}} | {:error, Error.t()}
  def status(conn) do
    with {:ok, client} <- client(conn) do
      {connected, reconnects} = Native.status(client)
      {:ok, %{connected: connected, reconnects: reconnects}}
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
  def init(settings) do
    case Native.call(&Native.connect(&1, settings)) do
      {:ok, client} ->
        # So that a supervisor's stop lets the calls under way finish.
        Process.flag(:trap_exit, true)
        :ok = Table.put(client)
        {:ok, client}

      {:error, error} ->
        {:stop, error}
    end
  end

  @impl true
  def handle_call({:close, within}, _from, client) do
    {:stop, :normal, {:ok, close_client(client, within)}, client}
  end

  @impl true
  def handle_info({:EXIT, _process, reason}, client) when reason != :normal, do: {:stop, reason, client}
  def handle_info(_message, client), do: {:noreply, client}

  @impl true
  def terminate(_reason, client), do: close_client(client, :infinity)

  defp close_client(client, within), do: Native.call(&Native.close(&1, client, within))
end
