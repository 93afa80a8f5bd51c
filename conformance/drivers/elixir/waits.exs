defmodule EchoMQ.Driver.Waits do
  # Giving a wait up: another message comes so many microseconds after the wait began.

  @doc "Has the calling process sent `{:give_up, reference}`, and answers the reference."
  def give_up_after(micros) do
    waiting = self()
    reference = make_ref()
    until = now() + micros
    spawn_link(fn -> tell(waiting, reference, until) end)
    reference
  end

  @doc "Forgets the message of a wait that was not given up."
  def forget(reference) do
    receive do
      {:give_up, ^reference} -> :ok
    end
  end

  # A receive counts milliseconds, so that the rest is waited for by looking at the clock.
  defp tell(waiting, reference, until) do
    left = until - now()

    cond do
      left > 3_000 -> Process.sleep(div(left, 1_000) - 2)
      left > 0 -> :erlang.yield()
      true -> send(waiting, {:give_up, reference})
    end

    if left > 0, do: tell(waiting, reference, until)
  end

  defp now, do: System.monotonic_time(:microsecond)
end
