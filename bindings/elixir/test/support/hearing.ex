defmodule EchoMQ.Test.Hearing do
  @moduledoc "Processes that hear events, and what the plain client sees of those who listen."

  alias EchoMQ.Test.{Plain, Wait}

  @job "JOB000xY9Wvvcd"

  def job, do: @job

  def channel(queue), do: "emq:{#{queue}}:events"

  @doc "How many connections the server sends a queue's events to."
  def listening(plain, queue) do
    [_channel, count] = Plain.command(plain, ["PUBSUB", "NUMSUB", channel(queue)])
    count
  end

  def until_listening(plain, queue, count), do: Wait.until(fn -> listening(plain, queue) == count end)

  @doc "Publishes the events `flood` with members `n`, from 1 to count, all in one step of the server's."
  def flood(plain, queue, count) do
    script = """
    for n = 1, tonumber(ARGV[1]) do
      redis.call('PUBLISH', KEYS[1], '{"event":"flood","n":"' .. n .. '"}')
    end
    """

    Plain.command(plain, ["EVAL", script, 1, channel(queue), count])
  end

  @doc "Has a new process subscribe by the function, which keeps what comes in its mailbox until it is told to `collect/2`."
  def ear!(subscribe) do
    test = self()

    ear =
      spawn_link(fn ->
        receive do
          {:collect, count} -> send(test, {:collected, self(), collect_own(count, [])})
        end
      end)

    :ok = subscribe.(ear)
    ear
  end

  @doc "Has an ear take what it hears, until it has met so many events and missed ones."
  def collect(ear, count), do: send(ear, {:collect, count})

  @doc "What an ear has collected: numbers of a flood, and gaps."
  def collected(ear) do
    receive do
      {:collected, ^ear, heard} -> heard
    after
      60_000 -> raise "the process did not hear everything"
    end
  end

  defp collect_own(left, heard) when left <= 0, do: Enum.reverse(heard)

  defp collect_own(left, heard) do
    receive do
      {:emq_event, "flood", %{"n" => n}} -> collect_own(left - 1, [String.to_integer(n) | heard])
      {:emq_gap, gap} -> collect_own(left - gap.missed, [gap | heard])
    end
  end

  @doc "How many events of a flood were missed: each was heard in its place, or a gap stands there for so many."
  def missed(heard, count) do
    {^count, missed} =
      Enum.reduce(heard, {0, 0}, fn
        %{missed: missed, reconnected: false}, {last, all} when missed > 0 -> {last + missed, all + missed}
        number, {last, all} when number == last + 1 -> {number, all}
      end)

    missed
  end

  @doc "The next message about events to the calling process."
  def heard do
    receive do
      {:emq_event, _, _} = event -> event
      {kind, _} = other when kind in [:emq_gap, :emq_end] -> other
    after
      60_000 -> raise "nothing was heard"
    end
  end

  @doc "Whether nothing more than this was heard: an event of the test's own comes next."
  def nothing_more?(plain, queue) do
    own = "own#{System.unique_integer([:positive])}"
    Plain.command(plain, ["PUBLISH", channel(queue), ~s({"event":"#{own}"})])
    match?({:emq_event, ^own, _}, heard())
  end
end
