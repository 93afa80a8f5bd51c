defmodule EchoMQ.Group do
  @moduledoc """
  The consumer groups of a stream: looking at them, making, moving and removing them.

  A group, as the server had it at one instant:

    * `:name` - its name
    * `:pending` - how many entries were delivered and are not acknowledged
    * `:lag` - how many records were not delivered to it yet; `nil` where that is not known
    * `:last_delivered` - the entry id of the last entry delivered: the next one stands behind it
    * `:consumers` - the consumers that the server knows, as `EchoMQ.Group.Consumer`

  A lag is not known where records were removed one by one ahead of the group, where the group began in the middle of the
  stream, and where more than 1 000 are ahead of the group in a stream that was trimmed behind it.

  Names of groups and consumers are 1 to 128 bytes of `A-Z a-z 0-9 . _ -` and not `STREAMS` in any case; a call with
  another name fails with `:invalid_name`. Every call can also fail as those of `EchoMQ.Stream` do.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, _} = EchoMQ.Stream.append_batch(bus, "shop", "grouped", [[n: "1"], [n: "2"], [n: "3"]])
      iex> EchoMQ.Group.create(bus, "shop", "grouped", "mailer", :head)
      {:ok, true}
      iex> {:ok, group} = EchoMQ.Group.get(bus, "shop", "grouped", "mailer")
      iex> {group.pending, group.lag, group.consumers}
      {0, 3, []}
      iex> EchoMQ.Group.seek(bus, "shop", "grouped", "mailer", :new)
      :ok
      iex> EchoMQ.Group.remove(bus, "shop", "grouped", "mailer")
      {:ok, true}
  """

  alias EchoMQ.{Connector, Error, Native, Start}

  @enforce_keys [:name, :pending, :lag, :last_delivered, :consumers]
  defstruct [:name, :pending, :lag, :last_delivered, :consumers]

  @type t :: %__MODULE__{
          name: String.t(),
          pending: non_neg_integer(),
          lag: non_neg_integer() | nil,
          last_delivered: String.t(),
          consumers: [EchoMQ.Group.Consumer.t()]
        }

  @doc "All groups of a stream, in the server's order. A stream that is not there has none."
  @spec list(Connector.conn(), String.t(), String.t()) :: {:ok, [t()]} | {:error, Error.t()}
  def list(conn, queue, name) do
    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.groups(&1, client, queue, name))
  end

  @doc "One group. Fails with `:no_group` when the group or the stream is not there."
  @spec get(Connector.conn(), String.t(), String.t(), String.t()) :: {:ok, t()} | {:error, Error.t()}
  def get(conn, queue, name, group) do
    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.group_info(&1, client, queue, name, group))
  end

  @doc """
  Makes a group, and the stream where it is missing; answers whether this call made it.

  A group that is there stays as it is, wherever it stands; `seek/5` moves it. Fails with `:unknown_outcome` when the
  answer was lost; making it again does no harm.
  """
  @spec create(Connector.conn(), String.t(), String.t(), String.t(), Start.t()) ::
          {:ok, boolean()} | {:error, Error.t()}
  def create(conn, queue, name, group, start) do
    start = Start.text(start)

    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.create_group(&1, client, queue, name, group, start))
  end

  @doc """
  Moves a group: what is delivered next is the first record of `start`.

  What is pending stays pending. Records that the group moves back over are delivered again, those it moves on over are
  not delivered to it. With `:new` no record that is appended after the call is passed over. Fails with `:no_group`, and
  with `:unknown_outcome` when no answer came in time; moving it again does no harm.
  """
  @spec seek(Connector.conn(), String.t(), String.t(), String.t(), Start.t()) :: :ok | {:error, Error.t()}
  def seek(conn, queue, name, group, start) do
    start = Start.text(start)

    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.seek(&1, client, queue, name, group, start))
  end

  @doc """
  Removes a consumer for which nothing is pending; looking and removing are one step of the server's.

  A consumer that reads on is made again by the server, and has lost nothing. Fails with `:state`, naming how many, when
  entries are pending for it, with `:gone` when the group has no such consumer, with `:no_group`, and with
  `:unknown_outcome` when the answer was lost; asking again does no harm.
  """
  @spec remove_consumer(Connector.conn(), String.t(), String.t(), String.t(), String.t()) ::
          :ok | {:error, Error.t()}
  def remove_consumer(conn, queue, name, group, consumer) do
    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.remove_consumer(&1, client, queue, name, group, consumer))
  end

  @doc """
  Removes all consumers of a group for which nothing is pending and that last asked longer than `idle` milliseconds ago,
  and answers their names. Looking and removing are one step of the server's.

  Servers before 7.2 do not count an attempt that found nothing, so that a consumer may go that asks in vain; the server
  makes it again with the next record that it receives. Fails with `:no_group`, and with `:unknown_outcome` when the
  answer was lost; asking again does no harm.
  """
  @spec sweep_consumers(Connector.conn(), String.t(), String.t(), String.t(), non_neg_integer()) ::
          {:ok, [String.t()]} | {:error, Error.t()}
  def sweep_consumers(conn, queue, name, group, idle) do
    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.sweep_consumers(&1, client, queue, name, group, idle))
  end

  @doc """
  Removes a group with all that is pending in it; answers whether it was there. The records stay.

  Fails with `:unknown_outcome` when the answer was lost: the group may have been removed by this call or by another's.
  """
  @spec remove(Connector.conn(), String.t(), String.t(), String.t()) :: {:ok, boolean()} | {:error, Error.t()}
  def remove(conn, queue, name, group) do
    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.remove_group(&1, client, queue, name, group))
  end
end

defmodule EchoMQ.Group.Consumer do
  @moduledoc """
  A consumer of a group, as the server had it at one instant.

    * `:name` - its name
    * `:pending` - how many entries were delivered to it and are not acknowledged
    * `:idle` - how many milliseconds ago it last asked for entries, by the server's clock; servers before 7.2 do not count
      an attempt that found nothing
  """

  @enforce_keys [:name, :pending, :idle]
  defstruct [:name, :pending, :idle]

  @type t :: %__MODULE__{name: String.t(), pending: non_neg_integer(), idle: non_neg_integer()}
end
