defmodule EchoMQ.Driver.Listeners do
  # Listeners and tokens that orders have opened, by their names. A listener stands with a process that hears off it and keeps
  # what it hears in its mailbox until an order asks for it.

  alias EchoMQ.{Cancel, Error, Events}
  alias EchoMQ.Driver.Waits

  def open(listeners, "listen", name, bus, [queue]) do
    listeners = close(listeners, name)

    with {:ok, listener} <- Events.start_link(conn: bus, queue: queue, raw: true) do
      ear = spawn_link(&hear/0)
      :ok = Events.subscribe(listener, pid: ear)
      {:ok, Map.put(listeners, name, {listener, ear})}
    end
  end

  def open(listeners, "watch", name, bus, [queue, job]) do
    listeners = close(listeners, name)
    with {:ok, token} <- Cancel.watch(bus, queue, job), do: {:ok, Map.put(listeners, name, token)}
  end

  def obey(listeners, "event", name, [wait]) do
    {_listener, ear} = named(listeners, name)
    send(ear, {:next, self(), String.to_integer(wait)})
    heard(ear)
  end

  def obey(listeners, "next_cancelled", name, [micros]) do
    {_listener, ear} = named(listeners, name)
    send(ear, {:next_cancelled, self(), String.to_integer(micros)})
    heard(ear)
  end

  def obey(listeners, "cancelled", name, [wait]) do
    case Cancel.await(named(listeners, name), String.to_integer(wait)) do
      {:cancelled, reason} -> [reason]
      :ok -> []
      error -> error
    end
  end

  def close(listeners, name) do
    case Map.pop(listeners, name) do
      {{listener, ear}, listeners} ->
        stop(listener)
        Process.unlink(ear)
        Process.exit(ear, :kill)
        listeners

      {_token_or_nothing, listeners} ->
        listeners
    end
  end

  defp heard(ear) do
    receive do
      {^ear, {:emq_event, event, payload}} -> [event, payload]
      {^ear, {:emq_gap, _gap}} -> ["gap"]
      {^ear, {:emq_end, error}} when error != nil -> {:error, error}
      {^ear, :cancelled} -> ["cancelled"]
      {^ear, _nothing} -> []
    end
  end

  # It may have ended with its connection, or be about to.
  defp stop(listener) do
    GenServer.stop(listener)
  catch
    :exit, _reason -> :ok
  end

  defp hear do
    receive do
      {:next, driver, wait} ->
        heard =
          receive do
            {kind, _} = last when kind in [:emq_gap, :emq_end] -> last
            {:emq_event, _, _} = event -> event
          after
            wait -> nil
          end

        send(driver, {self(), heard})

      {:next_cancelled, driver, micros} ->
        give_up = Waits.give_up_after(micros)

        heard =
          receive do
            {kind, _} = last when kind in [:emq_gap, :emq_end] -> last
            {:emq_event, _, _} = event -> event
            {:give_up, ^give_up} -> :cancelled
          end

        if heard != :cancelled, do: Waits.forget(give_up)
        send(driver, {self(), heard})
    end

    hear()
  end

  defp named(listeners, name) do
    Map.get(listeners, name) || raise Error, code: :closed, message: "no listener is named #{name}"
  end
end
