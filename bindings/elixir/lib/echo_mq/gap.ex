defmodule EchoMQ.Gap do
  @moduledoc """
  A place in a tail where records may be missing, since they were trimmed away before they were read.

    * `:from` - the entry id of the last record that the tail had given, or of the position that it was to begin behind
    * `:to` - the entry id of the first record that is there again; of an empty stream, of the last one ever there

  Both ends are themselves not missing.
  """

  @enforce_keys [:from, :to]
  defstruct [:from, :to]

  @type t :: %__MODULE__{from: String.t(), to: String.t()}
end
