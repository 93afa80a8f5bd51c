defmodule EchoMQ.Test.Consumers do
  @moduledoc "Consumers that tell the test what they handle, and what the plain client sees of their group."

  alias EchoMQ.Test.{Plain, Wait}
  alias EchoMQ.StreamConsumer

  @doc "Options of a consumer of group `g` on stream `s`, whose handler sends each message to the test and handles it."
  def options(bus, queue, more \\ []) do
    Keyword.merge(
      [conn: bus, queue: queue, stream: "s", group: "g", group_start: :head, handler: telling(self())],
      more
    )
  end

  @doc "Starts a consumer with `options/3`."
  def start!(bus, queue, more \\ []) do
    {:ok, consumer} = StreamConsumer.start_link(options(bus, queue, more))
    consumer
  end

  @doc "A handler that sends each message to a process as `{:handled, message}`."
  def telling(process) do
    fn message ->
      send(process, {:handled, message})
      :ok
    end
  end

  @doc "Appends records `n: 1` to `n: count` and answers their ids."
  def append!(bus, queue, count) do
    {:ok, ids} =
      EchoMQ.Stream.append_batch(bus, queue, "s", for(n <- 1..count, do: [n: "#{n}"]), atomic: true)

    ids
  end

  @doc "The next messages that a telling handler was called with."
  def handled(0), do: []

  def handled(count) do
    receive do
      {:handled, message} -> [message | handled(count - 1)]
    after
      60_000 -> raise "#{count} more messages were not handled"
    end
  end

  @doc "What is pending in group `g`, as `{entry id, consumer, times delivered}`."
  def pending(plain, queue) do
    key = "emq:{#{queue}}:stream:s"

    for [entry_id, consumer, _idle, times] <- Plain.command(plain, ["XPENDING", key, "g", "-", "+", 10_000]) do
      {entry_id, consumer, times}
    end
  end

  @doc "Waits until group `g` has had all there is, and nothing is pending in it."
  def until_acknowledged(plain, queue) do
    key = "emq:{#{queue}}:stream:s"

    Wait.until(fn ->
      [[last, _]] = Plain.command(plain, ["XREVRANGE", key, "+", "-", "COUNT", 1])
      [group] = for group <- Plain.command(plain, ["XINFO", "GROUPS", key]), "g" in group, do: group
      last in group and pending(plain, queue) == []
    end)
  end
end
