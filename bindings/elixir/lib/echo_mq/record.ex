defmodule EchoMQ.Record do
  @moduledoc """
  One entry of a stream, with all that there is to it.

    * `:id` - the branded id; `nil` for a foreign entry
    * `:entry_id` - the server's id of the entry, `"<ms>-<seq>"`
    * `:fields` - names and values in the order in which they were appended, duplicates kept
    * `:foreign?` - whether the entry was not written by this bus; then `:fields` are all its fields

  Names and values are the bytes as they were given.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, id} = EchoMQ.Stream.append(bus, "q", "records", [{"k", "1"}, {"k", "2"}])
      iex> {:ok, [record]} = EchoMQ.Stream.records(bus, "q", "records")
      iex> {record.id == id, record.fields, record.foreign?}
      {true, [{"k", "1"}, {"k", "2"}], false}
      iex> {:ok, record.entry_id} == EchoMQ.Stream.Id.to_entry(id)
      true
  """

  @enforce_keys [:id, :entry_id, :fields, :foreign?]
  defstruct [:id, :entry_id, :fields, :foreign?]

  @type t :: %__MODULE__{
          id: EchoMQ.Stream.Id.t() | nil,
          entry_id: String.t(),
          fields: [{binary(), binary()}],
          foreign?: boolean()
        }

  @doc false
  # A record as the native library gives it.
  @spec new({String.t() | nil, String.t(), [{binary(), binary()}]}) :: t()
  def new({id, entry_id, fields}) do
    %__MODULE__{id: id, entry_id: entry_id, fields: fields, foreign?: is_nil(id)}
  end
end
