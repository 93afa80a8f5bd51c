defmodule EchoMQ.Events.Feeder do
  @moduledoc false
  # What stands between a listener and one of its subscribers, so that none of them waits for another.
  #
  # The native side sends the subscriber what is heard, as many messages as this process allows it: as many as its mailbox has
  # room for. What comes meanwhile waits in the subscriber's bounded buffer, and what does not fit there is counted by a gap.

  alias EchoMQ.Native

  # The VM tells nobody that a mailbox has become shorter. A full one is looked at again after so many milliseconds, doubling.
  @shortest 1
  @longest 50

  @enforce_keys [:process, :hearing, :room, :subscriber, :listener]
  defstruct @enforce_keys ++ [pause: @shortest]

  @doc false
  # Feeds a process until it, the listener or the subscription has ended. `room` is how long its mailbox may become.
  @spec run(pid(), pid(), Native.hearing(), pos_integer()) :: :ok
  def run(listener, process, hearing, room) do
    feed(%__MODULE__{
      process: process,
      hearing: hearing,
      room: room,
      subscriber: Process.monitor(process),
      listener: Process.monitor(listener)
    })
  end

  defp feed(feeder) do
    case Process.info(feeder.process, :message_queue_len) do
      {_, length} when length < feeder.room -> feed(%{feeder | pause: @shortest}, feeder.room - length)
      {_, _full} -> pause(feeder)
      nil -> Native.unsubscribe(feeder.hearing)
    end
  end

  defp feed(feeder, room) do
    tag = make_ref()
    :pending = Native.feed(tag, feeder.hearing, feeder.process, room)
    wait(feeder, tag)
  end

  defp wait(%{subscriber: subscriber, listener: listener} = feeder, tag) do
    receive do
      {^tag, :spent} ->
        feed(feeder)

      {^tag, :ended} ->
        :ok

      {^tag, :nif_panicked} ->
        exit(:nif_panicked)

      {:DOWN, ^subscriber, :process, _, _} ->
        Native.unsubscribe(feeder.hearing)

      :unsubscribe ->
        Native.unsubscribe(feeder.hearing)

        # What is under way is there when the answer is.
        receive do
          {^tag, _} -> :ok
        end

      {:DOWN, ^listener, :process, _, _} ->
        receive do
          {^tag, :spent} -> feed(feeder, :all)
          {^tag, _ended} -> :ok
        end
    end
  end

  defp pause(%{subscriber: subscriber, listener: listener} = feeder) do
    receive do
      {:DOWN, ^subscriber, :process, _, _} -> Native.unsubscribe(feeder.hearing)
      :unsubscribe -> Native.unsubscribe(feeder.hearing)
      # What the subscriber's buffer holds, and the end, come to the mailbox all the same: they are no more than that.
      {:DOWN, ^listener, :process, _, _} -> feed(feeder, :all)
    after
      feeder.pause -> feed(%{feeder | pause: min(2 * feeder.pause, @longest)})
    end
  end
end
