# Broadway is no dependency: this is compiled where an application has it.
if match?({:module, _}, Code.ensure_compiled(Broadway)) do
  defmodule EchoMQ.BroadwayProducer do
    @moduledoc """
    A producer for Broadway: a consumer group of a stream feeds a pipeline.

        Broadway.start_link(MyApp.Pipeline,
          name: MyApp.Pipeline,
          producer: [
            module:
              {EchoMQ.BroadwayProducer,
               conn: MyApp.Bus, queue: "shop", stream: "orders", group: "mailer", group_start: :new},
            concurrency: 1
          ],
          processors: [default: [concurrency: 10]]
        )

    The options are `:conn`, `:queue` and `:stream`, and those of `EchoMQ.PullConsumer.start/4`. Each producer is a consumer of
    its own, so that `:consumer` is left out where there is more than one.

    A message's data is the entry's `payload`, and its metadata has `:id`, `:attempts`, `:group`, `:entry_id` and `:fields`, as in
    `EchoMQ.Message`. A message that succeeds is acknowledged. One that fails comes back after `:min_idle`, or sooner where
    `:retry` says so, or becomes a dead letter.

    The pipeline starts whether the server is there or not; the producer tries until it is.

    Messages are asked for as the pipeline demands them. When it drains, no more are asked for, and what was not handed out is
    given back to the group.
    """

    use GenStage

    alias Broadway.{Acknowledger, Producer}
    alias EchoMQ.{Connector, Error, Keyspace, Message, Native, PullConsumer, Starting}

    require Logger

    @behaviour Producer
    @behaviour Acknowledger

    @impl GenStage
    def init(options) do
      # So that what was not handed out is given back at the end.
      Process.flag(:trap_exit, true)
      {what, reading} = options |> Keyword.delete(:broadway) |> Keyword.split([:conn, :queue, :stream])

      with {:ok, _key} <- Keyspace.stream_key(what[:queue], what[:stream]),
           {:ok, _settings} <- PullConsumer.settings(reading),
           {:ok, _client} <- Connector.client(what[:conn]) do
        send(self(), :start)
        {:producer, %{start: {what, reading}, pause: nil, told: nil, consumer: nil, demand: 0, tag: nil}}
      else
        {:error, error} -> {:stop, error}
      end
    end

    @impl GenStage
    def handle_demand(demand, state) do
      {:noreply, [], ask(%{state | demand: state.demand + demand})}
    end

    # Its pipeline starts without the server, which is waited for here.
    @impl GenStage
    def handle_info(:start, %{start: {what, reading}} = state) do
      case PullConsumer.start(what[:conn], what[:queue], what[:stream], reading) do
        {:ok, consumer} ->
          {:noreply, [], ask(%{state | consumer: consumer})}

        {:error, error} ->
          if Starting.final?(error) do
            {:stop, error, state}
          else
            if error.code != state.told do
              Logger.warning("EchoMQ producer #{inspect(self())}: #{Exception.message(error)}")
            end

            {:noreply, [], %{state | pause: Starting.again(:start, state.pause), told: error.code}}
          end
      end
    end

    def handle_info({tag, :ready}, %{tag: tag} = state) do
      case PullConsumer.take(state.consumer, state.demand, 0) do
        {:ok, messages} ->
          state = %{state | demand: state.demand - length(messages), tag: nil}
          {:noreply, Enum.map(messages, &message/1), ask(state)}

        :stopped ->
          error = %Error{code: :closed, message: "the consumer has ended", subject: state.consumer.group}
          {:stop, error, state}

        {:error, error} ->
          {:stop, error, state}
      end
    end

    def handle_info({tag, :nif_panicked}, %{tag: tag} = state), do: {:stop, :nif_panicked, state}
    def handle_info(_message, state), do: {:noreply, [], state}

    @impl Producer
    def prepare_for_draining(state) do
      if state.consumer, do: PullConsumer.suspend(state.consumer)
      {:noreply, [], state}
    end

    @impl GenStage
    def terminate(_reason, state) do
      if state.consumer, do: PullConsumer.stop(state.consumer, 0)
    end

    @impl Acknowledger
    def ack(hand, successful, failed) do
      Native.ack(hand, for(%{acknowledger: {_, _, delivery}} <- successful, do: delivery))

      for %{acknowledger: {_, _, delivery}, status: status} <- failed do
        Native.fail(hand, [delivery], reason(status), nil)
      end

      :ok
    end

    # One question at a time is under way.
    defp ask(%{consumer: consumer, tag: nil, demand: demand} = state) when consumer != nil and demand > 0 do
      %{state | tag: PullConsumer.ask(state.consumer)}
    end

    defp ask(state), do: state

    defp message(%Message{handle: {hand, delivery}} = message) do
      %Broadway.Message{
        data: message.payload,
        metadata: Map.take(message, [:id, :attempts, :group, :entry_id, :fields]),
        acknowledger: {__MODULE__, hand, delivery}
      }
    end

    defp reason({:failed, reason}), do: PullConsumer.reason(reason)
    defp reason({kind, reason, stacktrace}), do: Exception.format_banner(kind, reason, stacktrace)
  end
end
