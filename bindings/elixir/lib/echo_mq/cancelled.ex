defmodule EchoMQ.Cancelled do
  @moduledoc "What `EchoMQ.Cancel.check!/1` raises where a token has tripped: `:reason` says why."

  @enforce_keys [:reason]
  defexception [:reason]

  @type t :: %__MODULE__{reason: String.t()}

  @impl true
  def message(%__MODULE__{reason: reason}), do: "cancelled: #{reason}"
end
