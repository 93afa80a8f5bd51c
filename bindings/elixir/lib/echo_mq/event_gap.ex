defmodule EchoMQ.EventGap do
  @moduledoc """
  A place where events are missing, or may be.

    * `:missed` - how many events did not fit into the subscriber's buffer
    * `:reconnected` - whether the connection was lost and is there again: nobody knows how many events were published
      meanwhile

  What must not be missed belongs into a stream: read it from the last id that you know.
  """

  @enforce_keys [:missed, :reconnected]
  defstruct [:missed, :reconnected]

  @type t :: %__MODULE__{missed: non_neg_integer(), reconnected: boolean()}
end
