defmodule EchoMQ.Driver.Readers do
  # Tails and consumers that orders have opened, by their names. A consumer stands with what it has in hand.

  alias EchoMQ.{Error, Gap, PullConsumer, Tail}
  alias EchoMQ.Driver.Waits

  # How long a reader may take to end whose name is given to another, in milliseconds.
  @closing 10_000

  def open(readers, "tail", name, bus, [queue, stream, start]) do
    readers = close(readers, name, @closing)
    with {:ok, tail} <- Tail.open(bus, queue, stream, start(start)), do: {:ok, Map.put(readers, name, tail)}
  end

  def open(readers, "consumer", name, bus, [queue, stream, group, consumer, start | options]) do
    readers = close(readers, name, @closing)
    named = [group: group, consumer: consumer, group_start: start(start)]
    options = Enum.map(options, fn option -> option |> String.split("=", parts: 2) |> named() end)

    with {:ok, consumer} <- PullConsumer.start(bus, queue, stream, named ++ options) do
      {:ok, Map.put(readers, name, {consumer, %{}})}
    end
  end

  def obey(readers, "next", name, [wait]) do
    case reader(readers, name) do
      {consumer, in_hand} ->
        taken(PullConsumer.take(consumer, 1, String.to_integer(wait)), readers, name, {consumer, in_hand})

      tail ->
        {record(tail, now() + String.to_integer(wait)), readers}
    end
  end

  # Asks to be told when there is something, and has another message come after so many microseconds.
  def obey(readers, "next_cancelled", name, [micros]) do
    reader = reader(readers, name)
    {module, waited} = if is_tuple(reader), do: {PullConsumer, elem(reader, 0)}, else: {Tail, reader}
    tag = module.ask(waited)
    give_up = Waits.give_up_after(String.to_integer(micros))

    receive do
      {^tag, _ready} ->
        Waits.forget(give_up)
        obey(readers, "next", name, ["0"])

      {:give_up, ^give_up} ->
        :ok = module.cancel_ask(waited, tag)
        {["cancelled"], readers}
    end
  end

  def obey(readers, op, name, [entry_id | reason]) when op in ["ack", "fail"] do
    {consumer, in_hand} = reader(readers, name)
    {message, in_hand} = Map.pop(in_hand, entry_id)
    unless message, do: raise(Error, code: :state, message: "#{entry_id} is not in hand")
    :ok = if op == "ack", do: PullConsumer.ack(message), else: PullConsumer.fail(message, hd(reason))
    flushed = with :ok <- PullConsumer.flush(consumer), do: []
    {flushed, Map.put(readers, name, {consumer, in_hand})}
  end

  def obey(readers, "stop", name, [within]) do
    _ = reader(readers, name)
    {[], close(readers, name, String.to_integer(within))}
  end

  defp taken({:ok, [message]}, readers, name, {consumer, in_hand}) do
    in_hand = Map.put(in_hand, message.entry_id, message)
    {told(message, [message.attempts]), Map.put(readers, name, {consumer, in_hand})}
  end

  defp taken({:error, error}, readers, _name, _consumer), do: {{:error, error}, readers}
  defp taken(_none, readers, _name, _consumer), do: {[], readers}

  # The op answers records alone.
  defp record(tail, until) do
    case Tail.take(tail, 1, max(until - now(), 0)) do
      {:ok, [%Gap{}]} -> record(tail, until)
      {:ok, [record]} -> told(record, [])
      {:error, error} -> {:error, error}
      _none -> []
    end
  end

  defp told(record, attempts) do
    [record.id || "", record.entry_id] ++ attempts ++ Enum.flat_map(record.fields, &Tuple.to_list/1)
  end

  defp close(readers, name, within) do
    case Map.pop(readers, name) do
      {nil, readers} ->
        readers

      {{consumer, in_hand}, readers} ->
        # Nobody can give a verdict any longer on what is in hand.
        {:ok, _} = PullConsumer.stop(consumer, if(in_hand == %{}, do: within, else: 0))
        readers

      {tail, readers} ->
        :ok = Tail.close(tail)
        readers
    end
  end

  defp reader(readers, name) do
    Map.get(readers, name) || raise Error, code: :closed, message: "no reader is named #{name}"
  end

  defp named([option, value]), do: {String.to_atom(option), value}
  defp named([option]), do: raise(Error, code: :invalid_option, message: "the option #{option} has no value")

  defp start("new"), do: :new
  defp start("head"), do: :head
  defp start("@" <> ms), do: DateTime.from_unix!(String.to_integer(ms), :millisecond)
  defp start(id), do: id

  defp now, do: System.monotonic_time(:millisecond)
end
