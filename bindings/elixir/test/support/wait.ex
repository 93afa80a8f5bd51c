defmodule EchoMQ.Test.Wait do
  @moduledoc "Waiting for a condition itself, never for a time in the hope that it holds then."

  @deadline 60_000

  @doc "Waits until the function answers something, and answers that."
  def until(condition, deadline \\ System.monotonic_time(:millisecond) + @deadline) do
    cond do
      value = condition.() ->
        value

      System.monotonic_time(:millisecond) > deadline ->
        raise "what the test waits for did not happen within #{@deadline} ms"

      true ->
        Process.sleep(5)
        until(condition, deadline)
    end
  end
end
