defmodule EchoMQ.Start do
  @moduledoc """
  Where a consumer group or a tail begins.

    * `:new` - with what is appended from now on
    * `:head` - with the oldest record there is
    * an id - with the record behind that one
    * a `DateTime` - with what was appended at or after that instant

  There is no default: whether history is read is for its reader to say.
  """

  @typedoc "Where to begin."
  @type t :: :new | :head | EchoMQ.Stream.Id.t() | DateTime.t()

  @doc false
  # As the core takes it.
  @spec text(t()) :: String.t()
  def text(start) when start in [:new, :head], do: Atom.to_string(start)
  def text(%DateTime{} = instant), do: "@#{DateTime.to_unix(instant, :millisecond)}"
  def text(id) when is_binary(id), do: id

  def text(other) do
    raise ArgumentError, "a start must be :new, :head, an id or a DateTime, got: #{inspect(other)}"
  end
end
