defmodule EchoMQ.Tail do
  @moduledoc """
  Following a stream step by step: what `EchoMQ.Stream.tail/5` is as an enumerable, for those who cannot wait for ever.

  A tail belongs to the process that opened it, which alone takes from it, and ends with that process. It reads ahead on a
  connection of its own, a bounded number of records, and opens it again whenever it breaks.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
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
  time. A gap stands in its place among them. There may be fewer than there are: of large records no more than 128 KB come at
  once, one at least.

  A wait that is over has taken nothing: what comes later is given to the next call.

  Fails once with the reason when the tail cannot go on: `:wrong_type`, `:version_fence`, or `:closed` when its connector
  was closed. After that, and after `close/1`, it answers `:closed`. What was not taken by then is not lost: the stream has
  it.
  """
  @spec take(t(), pos_integer(), timeout()) :: {:ok, [Record.t() | Gap.t()]} | :closed | {:error, Error.t()}
  def take(%__MODULE__{native: native}, max, within \\ :infinity) do
    take = fn -> Native.take_tail(native, max) end

    case Native.take_within(take, &Native.await_tail(&1, native, &2), within) do
      {:ok, nil} -> :closed
      {:ok, entries} -> {:ok, Enum.map(entries, &entry/1)}
      error -> error
    end
  end

  @doc """
  Has the calling process told once there is something to take, by the message `{tag, :ready}` with the tag that is answered
  here. For a process that waits for other messages too.

  Nothing is taken by that: call `take/3` with a time of 0 then, and ask again where it answers none. The next question takes
  the place of this one.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, tail} = EchoMQ.Tail.open(bus, "shop", "asked-of-a-tail", :new)
      iex> tag = EchoMQ.Tail.ask(tail)
      iex> {:ok, _} = EchoMQ.Stream.append(bus, "shop", "asked-of-a-tail", kind: "placed")
      iex> receive do
      ...>   {^tag, :ready} -> :ok
      ...> end
      iex> {:ok, [record]} = EchoMQ.Tail.take(tail, 10, 0)
      iex> record.fields
      [{"kind", "placed"}]
  """
  @spec ask(t()) :: reference()
  def ask(%__MODULE__{native: native}), do: Native.ask(&Native.ask_tail(&1, native))

  @doc "Takes a question back: no message with its tag comes any more, nor is left in the mailbox."
  @spec cancel_ask(t(), reference()) :: :ok
  def cancel_ask(%__MODULE__{native: native}, tag) do
    Native.take_back(tag, fn -> Native.take_back_tail(native) end)
  end

  @doc "Ends the tail and closes its connection."
  @spec close(t()) :: :ok
  def close(%__MODULE__{native: native}), do: Native.close_tail(native)

  defp entry({:gap, from, to}), do: %Gap{from: from, to: to}
  defp entry(record), do: Record.new(record)
end
