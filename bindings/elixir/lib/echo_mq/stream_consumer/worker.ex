defmodule EchoMQ.StreamConsumer.Worker do
  @moduledoc false
  # One of the processes of a consumer that call its handler.
  #
  # Messages come when it asks for them, a slice at a time. Each gets its verdict as soon as its handler is done. What may
  # not be begun any more is given back.

  alias EchoMQ.{Message, Native, PullConsumer, Report}

  require Logger

  # How many messages it asks for at once.
  @slice 100

  @enforce_keys [:consumer, :hand, :kind, :handler, :report]
  defstruct @enforce_keys

  @typedoc "`report` is called with the number of messages, the duration in native units and the verdict."
  @type t :: %__MODULE__{
          consumer: Native.consumer(),
          hand: Native.hand(),
          kind: :each | :batch,
          handler: (Message.t() | [Message.t()] -> term()),
          report: (pos_integer(), integer(), :ok | {:error, binary()} -> term()) | nil
        }

  @doc false
  # Works until the consumer ends.
  @spec run(t()) :: :ok
  def run(%__MODULE__{hand: hand} = worker) do
    case Native.take_messages(hand, @slice, :infinity) do
      {:ok, nil} -> :ok
      {:ok, messages} -> handle(messages, worker)
      {:error, error} -> exit({:shutdown, error})
    end
  end

  defp handle([], worker), do: run(worker)

  defp handle(messages, %{kind: :batch} = worker) do
    if begin?(List.last(messages)), do: conclude(messages, messages, worker), else: put_down(worker)
    run(worker)
  end

  defp handle([message | rest], %{kind: :each} = worker) do
    if begin?(message) do
      conclude(message, [message], worker)
      handle(rest, worker)
    else
      put_down(worker)
      run(worker)
    end
  end

  defp begin?(%{handle: {hand, delivery}}), do: Native.begin(hand, delivery)

  defp put_down(worker), do: Native.give_back_unbegun(worker.hand)

  defp conclude(argument, messages, worker) do
    begin = worker.report && System.monotonic_time()
    verdict = verdict(worker.handler, argument)

    # A handler that gave the verdict by hand has had the last word.
    case verdict do
      :ok -> Native.ack(worker.hand, deliveries(messages))
      {:error, reason, delay} -> Native.fail(worker.hand, deliveries(messages), reason, delay)
    end

    if begin do
      told = with {:error, reason, _delay} <- verdict, do: {:error, reason}
      worker.report.(length(messages), System.monotonic_time() - begin, told)
    end
  end

  defp deliveries(messages), do: for(%{handle: {_, delivery}} <- messages, do: delivery)

  defp verdict(handler, argument) do
    case handler.(argument) do
      :ok ->
        :ok

      {:error, reason} ->
        {:error, PullConsumer.reason(reason), nil}

      {:error, reason, delay: delay} when is_integer(delay) and delay >= 0 ->
        {:error, PullConsumer.reason(reason), delay}

      other ->
        reason = "the handler answered neither :ok nor an error, but: #{inspect(other, limit: 20)}"
        Logger.error(reason)
        {:error, reason, nil}
    end
  catch
    kind, reason ->
      Report.failed("a handler of EchoMQ failed", kind, reason, __STACKTRACE__)
      {:error, Exception.format_banner(kind, reason, __STACKTRACE__), nil}
  end
end
