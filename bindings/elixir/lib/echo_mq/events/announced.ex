defmodule EchoMQ.Events.Announced do
  @moduledoc """
  A record that was appended, and what became of its event.

    * `:id` - the record's branded id; it is in the stream, whatever became of the event
    * `:published` - `{:ok, listeners}`, or why the event was not published
  """

  @enforce_keys [:id, :published]
  defstruct [:id, :published]

  @type t :: %__MODULE__{id: EchoMQ.Stream.Id.t(), published: EchoMQ.Events.published()}
end
