defmodule EchoMQ.PullConsumer do
  @moduledoc """
  A consumer of a group whose messages are taken by hand and get their verdicts by hand.

  `EchoMQ.StreamConsumer` calls a handler and is what most programs want. This is what it stands on, for those who decide
  themselves when to take a message and when it is done.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, consumer} = EchoMQ.PullConsumer.start(bus, "shop", "pulled", group: "mailer", group_start: :head)
      iex> {:ok, id} = EchoMQ.Stream.append(bus, "shop", "pulled", to: "ada")
      iex> {:ok, [message]} = EchoMQ.PullConsumer.take(consumer, 10)
      iex> {message.id == id, message.payload, message.attempts}
      {true, %{"to" => "ada"}, 1}
      iex> EchoMQ.PullConsumer.ack(message)
      :ok
      iex> {:error, error} = EchoMQ.PullConsumer.ack(message)
      iex> error.code
      :state
      iex> EchoMQ.PullConsumer.stop(consumer, 5_000)
      {:ok, 0}

  A consumer belongs to the process that started it, which alone takes from it; any process may give the verdicts. When that
  process ends, the consumer stops at once: what it had in hand stays pending, and comes to another consumer after
  `:min_idle`.

  The options are those of `EchoMQ.StreamConsumer` from `:group` to `:on_foreign`. `:concurrency`, `:order_by`, `:max_n` and
  `:max_wait` are for handlers.
  """

  alias EchoMQ.{Connector, Error, Message, Native, Notice, Notifier, Start}

  @enforce_keys [:native, :hand, :group, :name]
  defstruct [:native, :hand, :group, :name]

  @typedoc "A consumer. `:group` is the group's name, `:name` the consumer's own."
  @type t :: %__MODULE__{native: reference(), hand: reference(), group: String.t(), name: String.t()}

  @typedoc "An option of a consumer; `EchoMQ.StreamConsumer` says what each does."
  @type option ::
          {:group | :consumer, String.t()}
          | {:group_start, Start.t()}
          | {:count | :page_bytes | :beat | :min_idle | :concurrency | :max_n | :max_wait, non_neg_integer()}
          | {:max_attempts, pos_integer() | :none}
          | {:retry, non_neg_integer() | Range.t() | :none}
          | {:order_by, binary()}
          | {:on_foreign, :deliver | :skip | :fail}

  @doc """
  Starts a consumer for the calling process. When it answers, the group exists and its place is pinned: what is appended
  from then on is seen.

  Fails with `:invalid_option` for an option that is missing, not known or does not fit the others, `:invalid_name`,
  `:malformed_id`, `:kind`, `:wrong_type`, `:out_of_memory`, `:closed`, and as connecting does.
  """
  @spec start(Connector.conn(), String.t(), String.t(), [option()]) :: {:ok, t()} | {:error, Error.t()}
  def start(conn, queue, stream, options) do
    with {:ok, settings} <- settings(options),
         {:ok, client} <- Connector.client(conn),
         {:ok, native} <- Native.call(&Native.consumer(&1, client, queue, stream, settings)),
         {:ok, hand} <- Native.hand(native, :owner) do
      {group, name, _workers} = Native.consumer_info(native)
      {:ok, %__MODULE__{native: native, hand: hand, group: group, name: name}}
    end
  end

  @doc """
  The next messages, up to `max`, waiting for the first as long as `within` says, in milliseconds: none where none came in
  time.

  Fails once with the reason when the consumer cannot go on: `:wrong_type`, `:version_fence` or `:closed`. After that, and
  after a stop, it answers `:stopped`. Everything else is overcome, and told by a notice.

  A wait that is over has taken nothing, and neither has a process that ends while it waits: no attempt is counted, and what
  comes later is given to the next call.
  """
  @spec take(t(), pos_integer(), timeout()) :: {:ok, [Message.t()]} | :stopped | {:error, Error.t()}
  def take(%__MODULE__{hand: hand}, max, within \\ :infinity) do
    with {:ok, nil} <- Native.take_messages(hand, max, within), do: :stopped
  end

  @doc """
  Has the calling process told once there is something to take, by the message `{tag, :ready}` with the tag that is answered
  here. For a process that waits for other messages too.

  Nothing is taken by that: call `take/3` with a time of 0 then, and ask again where it answers none. The end of the consumer is
  told in the same way. The next question takes the place of this one.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, consumer} = EchoMQ.PullConsumer.start(bus, "shop", "asked", group: "mailer", group_start: :new)
      iex> tag = EchoMQ.PullConsumer.ask(consumer)
      iex> {:ok, _} = EchoMQ.Stream.append(bus, "shop", "asked", to: "ada")
      iex> receive do
      ...>   {^tag, :ready} -> :ok
      ...> end
      iex> {:ok, [message]} = EchoMQ.PullConsumer.take(consumer, 10, 0)
      iex> {message.payload, EchoMQ.PullConsumer.ack(message)}
      {%{"to" => "ada"}, :ok}
  """
  @spec ask(t()) :: reference()
  def ask(%__MODULE__{hand: hand}), do: Native.ask(&Native.ask_entry(&1, hand))

  @doc "Takes a question back: no message with its tag comes any more, nor is left in the mailbox."
  @spec cancel_ask(t(), reference()) :: :ok
  def cancel_ask(%__MODULE__{hand: hand}, tag) do
    Native.take_back(tag, fn -> Native.take_back_entry(hand) end)
  end

  @doc """
  Messages were handled: the group forgets them. Acknowledgements travel in batches; `flush/1` waits for them.

  Fails with `:state` where a message has had its verdict.
  """
  @spec ack(Message.t() | [Message.t()]) :: :ok | {:error, Error.t()}
  def ack(messages), do: settle(messages, &Native.ack/2)

  @doc """
  Messages were not handled, for that reason: they come back, or become dead letters.

  With `delay:`, in milliseconds, they come back after that time, `:min_idle` at most, whatever `:retry` says. A reason that
  is no text is shown as by `inspect/1`. Fails with `:state` where a message has had its verdict.
  """
  @spec fail(Message.t() | [Message.t()], term(), delay: non_neg_integer()) :: :ok | {:error, Error.t()}
  def fail(messages, reason, options \\ []) do
    options = Keyword.validate!(options, delay: nil)
    settle(messages, &Native.fail(&1, &2, reason(reason), options[:delay]))
  end

  @doc "Gives messages back as if they had not been taken. Fails with `:state` where one has had its verdict."
  @spec give_back(Message.t() | [Message.t()]) :: :ok | {:error, Error.t()}
  def give_back(messages), do: settle(messages, &Native.give_back/2)

  @doc """
  Shows a sign of life for a message now.

  A consumer does so by itself, at a third of `:min_idle`. Fails with `:state` where the message has had its verdict.
  """
  @spec extend(Message.t()) :: :ok | {:error, Error.t()}
  def extend(%Message{handle: {hand, delivery}}), do: Native.extend(hand, delivery)

  @doc """
  Waits until every verdict given so far is on the server. Fails with the reason where one could not be brought there yet;
  it is tried again.
  """
  @spec flush(t()) :: :ok | {:error, Error.t()}
  def flush(%__MODULE__{native: native}), do: Native.call(&Native.flush(&1, native))

  @doc "Fetches and hands out nothing more until `resume/1`. What is in hand stays there."
  @spec suspend(t()) :: :ok
  def suspend(%__MODULE__{native: native}), do: Native.pause(native)

  @doc "Goes on after `suspend/1`."
  @spec resume(t()) :: :ok
  def resume(%__MODULE__{native: native}), do: Native.resume(native)

  @doc """
  Waits for the next notice, which is taken once, by whoever asks first; `nil` when the consumer has stopped. The last 1 024
  wait to be taken. With `within`, in milliseconds, it answers `:timeout` where none came in time.
  """
  @spec notice(t(), timeout()) :: Notice.t() | nil | :timeout | {:error, Error.t()}
  def notice(%__MODULE__{native: native}, within \\ :infinity) do
    case Notifier.next(Native.consumer_notices(native), within) do
      {:ok, []} -> :timeout
      {:ok, notice} -> notice
      refusal -> refusal
    end
  end

  @doc """
  Hands out nothing more, waits `within` that many milliseconds for what is in hand, and brings the last verdicts to the
  server.

  What was fetched and not taken is given back to the group: another consumer takes it with its next beat. Answers how many
  messages are left without a verdict on the server; they stay pending, and none is lost. Stopping again answers the same.
  """
  @spec stop(t(), timeout()) :: {:ok, non_neg_integer()} | {:error, Error.t()}
  def stop(%__MODULE__{native: native}, within) do
    with left when is_integer(left) <- Native.call(&Native.stop(&1, native, within)), do: {:ok, left}
  end

  @doc false
  # The options as the core takes them.
  @spec settings([option()]) :: {:ok, reference()} | {:error, Error.t()}
  def settings(options) do
    unless Keyword.keyword?(options) do
      raise ArgumentError, "the options of a consumer must be a keyword list, got: #{inspect(options)}"
    end

    Native.consumer_options(Enum.map(options, &named/1))
  end

  @doc false
  @spec reason(term()) :: binary()
  def reason(reason) when is_binary(reason), do: reason
  def reason(reason) when is_exception(reason), do: Exception.message(reason)
  def reason(reason), do: inspect(reason)

  defp named({:group_start, start}), do: {"start", Start.text(start)}
  defp named({:start, _}), do: raise(ArgumentError, "where the group begins is said by :group_start")
  defp named({:retry, first..longest}), do: {"retry", "#{first}..#{longest}"}
  defp named({name, value}) when is_integer(value), do: {Atom.to_string(name), Integer.to_string(value)}
  defp named({name, value}) when is_binary(value), do: {Atom.to_string(name), value}

  defp named({name, value}) when is_atom(value) and value not in [nil, true, false] do
    {Atom.to_string(name), Atom.to_string(value)}
  end

  defp named({name, value}) do
    raise ArgumentError,
          "the option #{inspect(name)} must be text or a whole number, got: #{inspect(value)}"
  end

  defp settle(%Message{handle: {hand, delivery}}, verdict), do: verdict.(hand, [delivery])

  # Messages of several consumers are told apart.
  defp settle(messages, verdict) when is_list(messages) do
    messages
    |> Enum.group_by(fn %Message{handle: {hand, _}} -> hand end, fn %{handle: {_, delivery}} -> delivery end)
    |> Enum.map(fn {hand, deliveries} -> verdict.(hand, deliveries) end)
    |> Enum.find(:ok, &(&1 != :ok))
  end
end
