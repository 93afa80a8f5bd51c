defmodule EchoMQ.Stream.Id do
  @moduledoc """
  Branded ids, and what they say.

  An id is 14 bytes of text: a namespace of three letters and a *snowflake*, a number that holds the instant of its
  making in milliseconds, the node that made it and a sequence. The namespace of stream records is `EVT`. Ids of one
  namespace sort as text in the order in which they were made.

  The server knows a record by its *entry id*, `"<ms>-<seq>"`: another spelling of the same snowflake.
  """

  alias EchoMQ.{Error, Native}

  @enforce_keys [:namespace, :snowflake, :unix_ms, :node, :sequence, :entry_id]
  defstruct [:namespace, :snowflake, :unix_ms, :node, :sequence, :entry_id]

  @typedoc "A branded id, always as text."
  @type t :: String.t()

  @typedoc "The parts of an id; the entry id is `nil` for an id that is not of a stream record."
  @type parts :: %__MODULE__{
          namespace: String.t(),
          snowflake: non_neg_integer(),
          unix_ms: non_neg_integer(),
          node: 0..1023,
          sequence: 0..4095,
          entry_id: String.t() | nil
        }

  @doc """
  Checks that a text is the id of a stream record.

  Fails with `:malformed_id`, and with `:kind` for an id of another namespace.

      iex> EchoMQ.Stream.Id.parse("EVT0NgWEfAER90")
      {:ok, "EVT0NgWEfAER90"}
      iex> {:error, error} = EchoMQ.Stream.Id.parse("JOB0NgWEfAER90")
      iex> error.code
      :kind
  """
  @spec parse(binary()) :: {:ok, t()} | {:error, Error.t()}
  def parse(id), do: Native.id_parse(id)

  @doc """
  Takes an id of any namespace apart. Fails with `:malformed_id`.

      iex> EchoMQ.Stream.Id.decode("EVT0NgWEfAER90")
      {:ok,
       %EchoMQ.Stream.Id{
         namespace: "EVT",
         snowflake: 320636799581974570,
         unix_ms: 1780512970164,
         node: 7,
         sequence: 42,
         entry_id: "1780512970164-28714"
       }}
  """
  @spec decode(binary()) :: {:ok, parts()} | {:error, Error.t()}
  def decode(id) do
    with {:ok, {namespace, snowflake, unix_ms, node, sequence, entry_id}} <- Native.id_decode(id) do
      {:ok,
       %__MODULE__{
         namespace: namespace,
         snowflake: snowflake,
         unix_ms: unix_ms,
         node: node,
         sequence: sequence,
         entry_id: entry_id
       }}
    end
  end

  @doc """
  The id of a snowflake in a namespace.

  Fails with `:malformed_id` unless the namespace is three letters `A` to `Z` and the number below 2^63.

      iex> EchoMQ.Stream.Id.encode("USR", 274557032793636864)
      {:ok, "USR0KHTOWnGLuC"}
  """
  @spec encode(String.t(), non_neg_integer()) :: {:ok, t()} | {:error, Error.t()}
  def encode(namespace, snowflake), do: Native.id_encode(namespace, snowflake)

  @doc """
  The id of the record with that entry id. Fails with `:malformed_id` where no id has it.

      iex> EchoMQ.Stream.Id.from_entry("1780512970164-28714")
      {:ok, "EVT0NgWEfAER90"}
  """
  @spec from_entry(binary()) :: {:ok, t()} | {:error, Error.t()}
  def from_entry(entry_id), do: Native.id_from_entry(entry_id)

  @doc """
  The entry id of a record's id. Fails as `parse/1` does.

      iex> EchoMQ.Stream.Id.to_entry("EVT0NgWEfAER90")
      {:ok, "1780512970164-28714"}
  """
  @spec to_entry(binary()) :: {:ok, String.t()} | {:error, Error.t()}
  def to_entry(id), do: Native.id_to_entry(id)

  @doc """
  The instant at which an id of any namespace was made, in milliseconds since 1970. Fails with `:malformed_id`.

      iex> EchoMQ.Stream.Id.unix_ms("EVT0NgWEfAER90")
      {:ok, 1780512970164}
  """
  @spec unix_ms(binary()) :: {:ok, non_neg_integer()} | {:error, Error.t()}
  def unix_ms(id) do
    with {:ok, parts} <- decode(id), do: {:ok, parts.unix_ms}
  end

  @doc """
  The instant at which an id of any namespace was made. Fails with `:malformed_id`.

      iex> EchoMQ.Stream.Id.to_datetime("EVT0NgWEfAER90")
      {:ok, ~U[2026-06-03 18:56:10.164Z]}
  """
  @spec to_datetime(binary()) :: {:ok, DateTime.t()} | {:error, Error.t()}
  def to_datetime(id) do
    with {:ok, ms} <- unix_ms(id), do: {:ok, DateTime.from_unix!(ms, :millisecond)}
  end
end
