defmodule EchoMQ.Message do
  @moduledoc """
  An entry in the hands of a consumer group's handler.

    * `:id` - the branded id, by which a handler tells an entry that comes twice; `nil` for an entry that this bus did not
      write
    * `:payload` - its fields as a map; where a name is there more than once, the last value is kept
    * `:attempts` - how often the entry was delivered, this delivery included
    * `:group` - the group that it was delivered to
    * `:entry_id` - the server's id of the entry, `"<ms>-<seq>"`
    * `:fields` - names and values in the order in which they were appended, duplicates kept

  It gets one verdict. A handler of `EchoMQ.StreamConsumer` gives it by its answer; what was pulled by hand gets it from
  `EchoMQ.PullConsumer`.
  """

  @enforce_keys [:id, :payload, :attempts, :group, :entry_id, :fields, :handle]
  @derive {Inspect, except: [:handle]}
  defstruct [:id, :payload, :attempts, :group, :entry_id, :fields, :handle]

  @type t :: %__MODULE__{
          id: EchoMQ.Stream.Id.t() | nil,
          payload: %{optional(binary()) => binary()},
          attempts: pos_integer(),
          group: String.t(),
          entry_id: String.t(),
          fields: [{binary(), binary()}],
          handle: term()
        }
end
