defmodule EchoMQ.Test.Reports do
  @moduledoc "Everything that the VM logs, supervisors' reports included, which Logger leaves out."

  @doc "Runs the function and answers the text of what was logged until `expected` was seen in it."
  def capture(expected, function) do
    handler = :"#{__MODULE__}#{System.unique_integer([:positive])}"
    :ok = :logger.add_handler(handler, __MODULE__, %{config: self()})

    try do
      function.()
      collect(expected, "")
    after
      :logger.remove_handler(handler)
    end
  end

  defp collect(expected, text) do
    if text =~ expected do
      text
    else
      receive do
        {__MODULE__, more} -> collect(expected, text <> more)
      after
        60_000 -> raise "#{inspect(expected)} was not logged, but: #{text}"
      end
    end
  end

  @doc false
  def log(event, %{config: process}) do
    send(process, {__MODULE__, inspect(event, limit: :infinity, printable_limit: :infinity)})
  end
end
