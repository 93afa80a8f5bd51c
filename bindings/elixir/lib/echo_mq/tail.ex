defmodule EchoMQ.Tail do
  @moduledoc """
  Following a stream step by step: what `EchoMQ.Stream.tail/5` is as an enumerable, for those who cannot wait for ever.

  A tail belongs to the process that opened it, which alone takes from it, and ends with that process. It reads ahead on a
  connection of its own, a bounded number of records, and opens it again whenever it breaks.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url(), node_id: 7)
      iex> {:ok, tail} = EchoMQ.Tail.open(bus, "shop", "followed", :new)
      iex> EchoMQ.Tail.take(tail, 10, 0)
      {:ok, []}
      iex> {:ok, id} = EchoMQ.Stream.append(bus, "shop", "followed", kind: "placed")
      iex> {:ok, [record]} = EchoMQ.Tail.take(tail, 10)
      iex> record.id == id
      true
      iex> EchoMQ.Tail.close(tail)
      iex> EchoMQ.Tail.take(tail, 10)
      :closed
  """

  alias EchoMQ.{Connector, Error, Gap, Native, Record, Start}

  @enforce_keys [:native]
  defstruct [:native]

  @opaque t :: %__MODULE__{native: reference()}

  @doc """
  Opens a tail. When it answers, its place is pinned: what is appended from then on is seen.

  The option `:page_bytes` is about how many bytes it reads at once and holds ahead of whoever takes them, 4 194 304 unless it
  is said.

  Fails with `:invalid_name`, `:invalid_option`, `:malformed_id`, `:kind`, `:wrong_type`, `:closed` and as connecting does.
  """
  @spec open(Connector.conn(), String.t(), String.t(), Start.t(), page_bytes: pos_integer()) ::
          {:ok, t()} | {:error, Error.t()}
  def open(conn, queue, name, start, options \\ []) do
    start = Start.text(start)
    options = Keyword.validate!(options, page_bytes: :all)

    with {:ok, client} <- Connector.client(conn),
         {:ok, native} <- Native.call(&Native.tail(&1, client, queue, name, start, options[:page_bytes])) do
      {:ok, %__MODULE__{native: native}}
    end
  end

  @doc """
  The next records, up to `max`, waiting for the first as long as `within` says, in milliseconds: none where none came in
  time. A gap stands in its place among them.

  Fails once with the reason when the tail cannot go on: `:wrong_type`, `:version_fence`, or `:closed` when its connector
  was closed. After that, and after `close/1`, it answers `:closed`. What was not taken by then is not lost: the stream has
  it.
  """
  @spec take(t(), pos_integer(), timeout()) :: {:ok, [Record.t() | Gap.t()]} | :closed | {:error, Error.t()}
  def take(%__MODULE__{native: native}, max, within \\ :infinity) do
    case Native.call(&Native.take_tail(&1, native, max, within)) do
      {:ok, nil} -> :closed
      {:ok, entries} -> {:ok, Enum.map(entries, &entry/1)}
      error -> error
    end
  end

  @doc "Ends the tail and closes its connection."
  @spec close(t()) :: :ok
  def close(%__MODULE__{native: native}), do: Native.close_tail(native)

  defp entry({:gap, from, to}), do: %Gap{from: from, to: to}
  defp entry(record), do: Record.new(record)
end
