defmodule EchoMQ.Notice do
  @moduledoc """
  Something that a connector tells, a consumer beside its messages, or a listener beside its events.

    * `:kind` - what it is about; see `t:kind/0`
    * `:message` - a sentence for people
    * `:entry_id` - the entry concerned, or `nil`
    * `:id` - the branded id that belongs to the entry's place, or `nil`
    * `:attempts` - how often the entry was delivered, or `nil`
    * `:code` - the cause of a trouble, a `t:EchoMQ.Error.code/0`, or `nil`
    * `:times` - how many it stands for: the same trouble is told of at most once a second
  """

  @kinds ~w(
    connected clock_ahead node_conflict node_lease_lost eviction_policy group_recreated lost foreign failed dead_letter trouble
    disconnected reconnected missed
  )a

  @typedoc """
  What a notice is about.

    * `:connected` - the connector's connection is open
    * `:clock_ahead` - this host's clock is ahead of the server's by more than the bound: nothing is minted
    * `:node_conflict` - another process mints with the connector's node id
    * `:node_lease_lost` - the connector's node lease has run out: nothing is minted until it has one again
    * `:eviction_policy` - the server evicts keys when it is full, streams and leases among them
    * `:group_recreated` - the group had vanished, with what was pending in it, and was made again
    * `:lost` - the data of a pending entry was trimmed away; it was acknowledged and reaches no handler
    * `:foreign` - an entry that this bus did not write was skipped or failed, as `:on_foreign` says
    * `:failed` - the handler of an entry failed; it comes back
    * `:dead_letter` - an entry failed its last attempt and is a dead letter now
    * `:trouble` - the group could not be told or asked; it is tried again
    * `:disconnected` - the connection that reads or listens is gone; it is opened again
    * `:reconnected` - the connection that reads is open again; the one that listens has subscribed again
    * `:missed` - so many notices were not taken in time and are gone
  """
  @type kind :: unquote(Enum.reduce(Enum.reverse(@kinds), &{:|, [], [&1, &2]}))

  @enforce_keys [:kind, :message]
  defstruct [:kind, :message, :entry_id, :id, :attempts, :code, times: 1]

  @type t :: %__MODULE__{
          kind: kind(),
          message: String.t(),
          entry_id: String.t() | nil,
          id: EchoMQ.Stream.Id.t() | nil,
          attempts: pos_integer() | nil,
          code: EchoMQ.Error.code() | nil,
          times: pos_integer()
        }

  @doc """
  Every kind, in the core's order.

      iex> :group_recreated in EchoMQ.Notice.kinds()
      true
  """
  @spec kinds() :: [kind()]
  def kinds, do: @kinds
end

defimpl String.Chars, for: EchoMQ.Notice do
  def to_string(%{entry_id: nil} = notice), do: "#{notice.kind}: #{notice.message}"
  def to_string(notice), do: "#{notice.kind}: #{notice.message} (#{notice.entry_id})"
end
