defmodule EchoMQ.Events.Decided do
  @moduledoc """
  A verdict, and what became of its event.

    * `:verdict` - what the transition answered: `:ok`, or the value beside its `:ok`
    * `:published` - `{:ok, listeners}`, or why the event was not published; the transition has happened all the same
  """

  @enforce_keys [:verdict, :published]
  defstruct [:verdict, :published]

  @type t(verdict) :: %__MODULE__{verdict: verdict, published: EchoMQ.Events.published()}
  @type t :: t(term())
end
