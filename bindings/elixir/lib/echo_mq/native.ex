defmodule EchoMQ.Native do
  @moduledoc false
  # The native library, and the one way of waiting for it.
  #
  # A function that takes a tag either returns its answer or `:pending`; then the answer comes as the message
  # `{tag, answer}`, exactly once.

  @on_load :load

  @type client :: reference()
  @type consumer :: reference()
  @type hand :: reference()
  @type notices :: reference()
  @type tag :: reference()
  @type refusal :: {:error, EchoMQ.Error.t()}
  @type count :: non_neg_integer() | :all
  @type page :: {count(), count()}

  @doc false
  def load do
    library = :filename.join(:code.priv_dir(:echo_mq), 'native/libechomq_nif')

    case :erlang.load_nif(library, 0) do
      :ok ->
        :ok

      {:error, {reason, text}} ->
        platform = :erlang.system_info(:system_architecture)
        {:error, {reason, 'the native library of EchoMQ does not load on ' ++ platform ++ ': ' ++ text}}
    end
  end

  @doc false
  # Calls a function with a fresh tag and waits for its answer.
  #
  # The tag is made here, where the answer is waited for, so that the VM looks only at messages that came after it.
  @spec call((tag() -> answer | :pending)) :: answer when answer: term()
  def call(function) do
    tag = make_ref()

    case function.(tag) do
      :pending ->
        receive do
          {^tag, :nif_panicked} -> :erlang.error(:nif_panicked)
          {^tag, answer} -> answer
        end

      answer ->
        answer
    end
  end

  @doc false
  # As `call/1`, but exits as `GenServer.call/3` does when there is no answer in time.
  #
  # Another process waits in the caller's place and answers to an alias, so that a late answer reaches nobody.
  @spec call((tag() -> answer | :pending), timeout(), atom()) :: answer when answer: term()
  def call(function, :infinity, _name), do: call(function)

  def call(function, timeout, name) when is_integer(timeout) and timeout >= 0 do
    {waiter, monitor} = :erlang.spawn_opt(fn -> wait(function) end, monitor: [alias: :reply_demonitor])
    send(waiter, {:answer_to, monitor})

    receive do
      {^monitor, {:answer, answer}} -> answer
      {^monitor, {:raise, kind, reason, stacktrace}} -> :erlang.raise(kind, reason, stacktrace)
      {:DOWN, ^monitor, :process, _, reason} -> exit({reason, {EchoMQ.Connector, name, [timeout]}})
    after
      timeout ->
        Process.demonitor(monitor, [:flush])
        exit({:timeout, {EchoMQ.Connector, name, [timeout]}})
    end
  end

  def call(_function, timeout, _name) do
    raise ArgumentError, "a timeout must be milliseconds or :infinity, got: #{inspect(timeout)}"
  end

  @doc false
  # What `take` finds, which answers `{:ok, []}` where there is nothing; then `await` waits for it, as long as `within` says.
  #
  # The wait is only told that there is something, and this process takes it: one that ends while it waits has taken nothing.
  @spec take_within((() -> answer), (tag(), timeout() -> :pending | refusal()), timeout()) :: answer
        when answer: term()
  def take_within(take, await, within), do: look(take, await, deadline(within))

  defp look(take, await, deadline) do
    with {:ok, []} <- take.(),
         left when left != 0 <- left(deadline),
         :ready <- call(&await.(&1, left)) do
      look(take, await, deadline)
    else
      nothing when nothing in [0, :timeout] -> {:ok, []}
      taken_or_refused -> taken_or_refused
    end
  end

  defp deadline(:infinity), do: :infinity
  defp deadline(within) when is_integer(within) and within >= 0, do: now() + within

  defp deadline(within) do
    raise ArgumentError, "the time to wait must be milliseconds from 0 or :infinity, got: #{inspect(within)}"
  end

  defp left(:infinity), do: :infinity
  defp left(deadline), do: max(deadline - now(), 0)

  defp now, do: System.monotonic_time(:millisecond)

  @doc false
  # Messages off a hand, up to `max`, as `take_within/3` has it.
  @spec take_messages(hand(), pos_integer(), timeout()) :: {:ok, [EchoMQ.Message.t()] | nil} | refusal()
  def take_messages(hand, max, within) do
    take_within(fn -> take_all(take(hand, max), hand, []) end, &await_entry(&1, hand, &2), within)
  end

  # The native side makes a slice of them at a time, so that much of it keeps no scheduler for long.
  defp take_all({:ok, messages, false}, _hand, []), do: {:ok, messages}

  defp take_all({:ok, messages, false}, _hand, before),
    do: {:ok, Enum.concat(Enum.reverse([messages | before]))}

  defp take_all({:ok, messages, true}, hand, before), do: take_all(take_more(hand), hand, [messages | before])
  defp take_all(refusal, _hand, _before), do: refusal

  @doc false
  # Has `{tag, :ready}` sent to the calling process by that question, and answers the tag.
  @spec ask((tag() -> :pending | refusal())) :: tag()
  def ask(question) do
    tag = make_ref()

    case question.(tag) do
      :pending -> tag
      {:error, error} -> raise error
    end
  end

  @doc false
  # Takes a question of `ask/1` back by that function, with an answer that is in the mailbox or on its way.
  @spec take_back(tag(), (() -> boolean())) :: :ok
  def take_back(tag, function) do
    unless function.(), do: call(&behind_all/1)

    receive do
      {^tag, _} -> :ok
    after
      0 -> :ok
    end
  end

  @spec behind_all(tag()) :: :ok | refusal() | :pending
  def behind_all(_tag), do: unloaded()

  defp wait(function) do
    receive do
      {:answer_to, alias} -> send(alias, {alias, outcome(function)})
    end
  end

  defp outcome(function) do
    {:answer, call(function)}
  catch
    kind, reason -> {:raise, kind, reason, __STACKTRACE__}
  end

  @spec codes() :: [String.t()]
  def codes, do: unloaded()
  @spec core_version() :: String.t()
  def core_version, do: unloaded()
  @spec option_names() :: [String.t()]
  def option_names, do: unloaded()

  @spec options(String.t(), [{String.t(), String.t()}]) :: {:ok, reference()} | refusal()
  def options(_url, _named), do: unloaded()
  @spec ask_password(reference(), pid()) :: reference()
  def ask_password(_options, _process), do: unloaded()
  @spec answer_password(reference(), String.t() | nil) :: :ok
  def answer_password(_question, _password), do: unloaded()
  @spec connect(tag(), reference()) :: {:ok, client()} | refusal() | :pending
  def connect(_tag, _options), do: unloaded()
  @spec close(tag(), client(), timeout()) :: non_neg_integer() | refusal() | :pending
  def close(_tag, _client, _within), do: unloaded()
  @spec nodes(tag(), client()) :: {:ok, [map()]} | refusal() | :pending
  def nodes(_tag, _client), do: unloaded()
  @spec client_notices(client()) :: notices()
  def client_notices(_client), do: unloaded()
  @spec status(client()) :: {boolean(), non_neg_integer(), EchoMQ.Error.t() | nil}
  def status(_client), do: unloaded()
  @spec mint(tag(), client()) :: {:ok, binary()} | refusal() | :pending
  def mint(_tag, _client), do: unloaded()
  @spec command(tag(), client(), list()) :: {:ok, term()} | refusal() | :pending
  def command(_tag, _client, _parts), do: unloaded()
  @spec pipeline(tag(), client(), [list()]) :: {:ok, list()} | refusal() | :pending
  def pipeline(_tag, _client, _commands), do: unloaded()

  # A stream is its name, or the name and who writes it.
  @type stream :: binary() | {binary(), :one | :many}

  @spec append(tag(), client(), binary(), stream(), term()) :: {:ok, binary()} | refusal() | :pending
  def append(_tag, _client, _queue, _name, _record), do: unloaded()

  @spec append_id(tag(), client(), binary(), binary(), binary(), term()) ::
          {:ok, binary()} | refusal() | :pending
  def append_id(_tag, _client, _queue, _name, _id, _record), do: unloaded()
  @spec batch(non_neg_integer()) :: reference()
  def batch(_records), do: unloaded()
  @spec batch_add(reference(), list()) :: list()
  def batch_add(_batch, _records), do: unloaded()
  @spec append_batch(tag(), client(), binary(), stream(), reference()) :: {:ok, list()} | refusal() | :pending
  def append_batch(_tag, _client, _queue, _name, _batch), do: unloaded()

  @spec append_batch_atomic(tag(), client(), binary(), stream(), reference()) ::
          {:ok, list()} | refusal() | :pending
  def append_batch_atomic(_tag, _client, _queue, _name, _batch), do: unloaded()

  @spec append_sequenced(tag(), client(), binary(), binary(), term()) ::
          {:ok, binary()} | refusal() | :pending
  def append_sequenced(_tag, _client, _queue, _name, _record), do: unloaded()

  @spec append_batch_sequenced(tag(), client(), binary(), binary(), reference()) ::
          {:ok, list()} | refusal() | :pending
  def append_batch_sequenced(_tag, _client, _queue, _name, _batch), do: unloaded()

  @spec trim_max_len(tag(), client(), binary(), binary(), non_neg_integer(), boolean()) ::
          {:ok, non_neg_integer()} | refusal() | :pending
  def trim_max_len(_tag, _client, _queue, _name, _records, _exact), do: unloaded()

  @spec trim_min_id(tag(), client(), binary(), binary(), integer(), boolean()) ::
          {:ok, non_neg_integer()} | refusal() | :pending
  def trim_min_id(_tag, _client, _queue, _name, _micros, _exact), do: unloaded()

  @spec read(client(), binary(), binary(), {binary(), binary()}, count(), page()) ::
          {:ok, reference()} | refusal()
  def read(_client, _queue, _name, _range, _count, _page), do: unloaded()

  @spec read_window(client(), binary(), binary(), {integer(), integer()}, count(), page()) ::
          {:ok, reference()} | refusal()
  def read_window(_client, _queue, _name, _window, _count, _page), do: unloaded()

  @spec read_since(client(), binary(), binary(), integer(), count(), page()) ::
          {:ok, reference()} | refusal()
  def read_since(_client, _queue, _name, _first, _count, _page), do: unloaded()
  @spec read_last(client(), binary(), binary(), non_neg_integer(), page()) :: {:ok, reference()} | refusal()
  def read_last(_client, _queue, _name, _records, _page), do: unloaded()
  @spec next_page(tag(), reference()) :: {:ok, list() | nil} | refusal() | :pending
  def next_page(_tag, _reader), do: unloaded()

  @spec read_dead_letters(client(), binary(), binary(), {binary(), binary()}, count(), page()) ::
          {:ok, reference()} | refusal()
  def read_dead_letters(_client, _queue, _name, _range, _count, _page), do: unloaded()
  @spec put_back(tag(), client(), binary(), binary(), binary()) :: {:ok, binary()} | refusal() | :pending
  def put_back(_tag, _client, _queue, _name, _id), do: unloaded()

  @spec tail(tag(), client(), binary(), binary(), binary(), count()) ::
          {:ok, reference()} | refusal() | :pending
  def tail(_tag, _client, _queue, _name, _start, _page_bytes), do: unloaded()
  # Who waits is woken by `:ready`, or told of the `:timeout`, and takes for itself then.
  @spec await_tail(tag(), reference(), timeout()) :: refusal() | :pending
  def await_tail(_tag, _tail, _within), do: unloaded()
  @spec ask_tail(tag(), reference()) :: refusal() | :pending
  def ask_tail(_tag, _tail), do: unloaded()
  @spec take_back_tail(reference()) :: boolean()
  def take_back_tail(_tail), do: unloaded()
  @spec take_tail(reference(), pos_integer()) :: {:ok, list() | nil} | refusal()
  def take_tail(_tail, _max), do: unloaded()
  @spec close_tail(reference()) :: :ok
  def close_tail(_tail), do: unloaded()

  @spec consumer_options([{String.t(), String.t()}]) :: {:ok, reference()} | refusal()
  def consumer_options(_named), do: unloaded()
  @spec consumer_option_names() :: [String.t()]
  def consumer_option_names, do: unloaded()
  @spec notice_kinds() :: [String.t()]
  def notice_kinds, do: unloaded()

  @spec consumer(tag(), client(), binary(), binary(), reference()) ::
          {:ok, consumer()} | refusal() | :pending
  def consumer(_tag, _client, _queue, _name, _options), do: unloaded()
  @spec consumer_info(consumer()) :: {String.t(), String.t(), pos_integer()}
  def consumer_info(_consumer), do: unloaded()
  @spec running?(consumer()) :: boolean()
  def running?(_consumer), do: unloaded()
  @spec pause(consumer()) :: :ok
  def pause(_consumer), do: unloaded()
  @spec resume(consumer()) :: :ok
  def resume(_consumer), do: unloaded()
  @spec flush(tag(), consumer()) :: :ok | refusal() | :pending
  def flush(_tag, _consumer), do: unloaded()
  @spec stop(tag(), consumer(), timeout()) :: non_neg_integer() | refusal() | :pending
  def stop(_tag, _consumer, _within), do: unloaded()
  @spec consumer_notices(consumer()) :: notices()
  def consumer_notices(_consumer), do: unloaded()
  @spec await_notice(tag(), notices(), timeout()) :: refusal() | :pending
  def await_notice(_tag, _notices, _within), do: unloaded()
  @spec take_notice(notices()) :: EchoMQ.Notice.t() | nil | :none
  def take_notice(_notices), do: unloaded()

  # A hand holds what was taken until its verdict; a delivery is a number in a hand.
  @spec hand(consumer(), :owner | {:each | :batch, non_neg_integer()}) :: {:ok, hand()} | refusal()
  def hand(_consumer, _taker), do: unloaded()

  @spec await_entry(tag(), hand(), timeout()) :: refusal() | :pending
  def await_entry(_tag, _hand, _within), do: unloaded()
  @spec ask_entry(tag(), hand()) :: refusal() | :pending
  def ask_entry(_tag, _hand), do: unloaded()
  @spec take_back_entry(hand()) :: boolean()
  def take_back_entry(_hand), do: unloaded()
  @spec take(hand(), pos_integer()) :: {:ok, [EchoMQ.Message.t()] | nil, boolean()} | refusal()
  def take(_hand, _max), do: unloaded()
  @spec take_more(hand()) :: {:ok, [EchoMQ.Message.t()], boolean()}
  def take_more(_hand), do: unloaded()
  @spec ack(hand(), [pos_integer()]) :: :ok | refusal()
  def ack(_hand, _deliveries), do: unloaded()
  @spec fail(hand(), [pos_integer()], binary(), non_neg_integer() | nil) :: :ok | refusal()
  def fail(_hand, _deliveries, _reason, _delay), do: unloaded()
  @spec give_back(hand(), [pos_integer()]) :: :ok | refusal()
  def give_back(_hand, _deliveries), do: unloaded()
  @spec extend(hand(), pos_integer()) :: :ok | refusal()
  def extend(_hand, _delivery), do: unloaded()
  @spec begin(hand(), pos_integer()) :: boolean()
  def begin(_hand, _delivery), do: unloaded()
  @spec give_back_unbegun(hand()) :: :ok
  def give_back_unbegun(_hand), do: unloaded()
  @spec leave(hand(), binary()) :: :ok
  def leave(_hand, _reason), do: unloaded()

  # An event is its name, its job and its further members.
  @type event :: {binary(), binary(), term()}
  @type listener :: reference()
  @type hearing :: reference()
  @type cancel_token :: reference()

  @spec publish(tag(), client(), binary(), event()) :: {:ok, non_neg_integer()} | refusal() | :pending
  def publish(_tag, _client, _queue, _event), do: unloaded()

  @spec update_progress(tag(), client(), binary(), binary(), binary()) ::
          {:ok, non_neg_integer()} | refusal() | :pending
  def update_progress(_tag, _client, _queue, _job, _progress), do: unloaded()

  @spec append_and_publish(tag(), client(), binary(), stream(), term(), event()) ::
          {:ok, EchoMQ.Events.Announced.t()} | refusal() | :pending
  def append_and_publish(_tag, _client, _queue, _name, _record, _event), do: unloaded()

  @spec check_event(tag(), client(), binary(), event()) :: {:ok, reference()} | refusal() | :pending
  def check_event(_tag, _client, _queue, _event), do: unloaded()
  @spec publish_checked(tag(), reference()) :: {:ok, non_neg_integer()} | refusal() | :pending
  def publish_checked(_tag, _checked), do: unloaded()

  @spec listen(tag(), client(), binary()) :: {:ok, listener()} | refusal() | :pending
  def listen(_tag, _client, _queue), do: unloaded()
  @spec listener_status(listener()) :: {String.t(), boolean(), non_neg_integer(), EchoMQ.Error.t() | nil}
  def listener_status(_listener), do: unloaded()
  @spec listener_notices(listener()) :: notices()
  def listener_notices(_listener), do: unloaded()
  @spec until_listener_ends(tag(), listener()) :: :ok | refusal() | :pending
  def until_listener_ends(_tag, _listener), do: unloaded()

  @spec subscribe(listener(), [{String.t(), String.t()}], boolean()) ::
          {:ok, {hearing(), pos_integer()}} | refusal()
  def subscribe(_listener, _named, _raw), do: unloaded()
  @spec subscriber_option_names() :: [String.t()]
  def subscriber_option_names, do: unloaded()
  @spec unsubscribe(hearing()) :: :ok
  def unsubscribe(_hearing), do: unloaded()
  @spec take_events(tag(), hearing(), pos_integer()) :: {:ok, list() | nil} | refusal() | :pending
  def take_events(_tag, _hearing, _max), do: unloaded()
  @spec feed(tag(), hearing(), pid(), pos_integer() | :all) :: :spent | :ended | :pending
  def feed(_tag, _hearing, _process, _room), do: unloaded()

  @spec cancel_token() :: cancel_token()
  def cancel_token, do: unloaded()
  @spec trip(cancel_token(), binary()) :: String.t()
  def trip(_token, _reason), do: unloaded()
  @spec cancel_reason(cancel_token()) :: String.t() | nil
  def cancel_reason(_token), do: unloaded()
  @spec await_cancel(tag(), cancel_token(), timeout()) :: {:ok, String.t() | nil} | refusal() | :pending
  def await_cancel(_tag, _token, _within), do: unloaded()
  @spec notify_cancel(cancel_token(), pid(), reference()) :: :ok
  def notify_cancel(_token, _process, _reference), do: unloaded()
  @spec watch_error(cancel_token()) :: EchoMQ.Error.t() | nil
  def watch_error(_token), do: unloaded()

  @spec cancel_job(tag(), client(), binary(), binary(), binary(), non_neg_integer() | nil) ::
          {:ok, non_neg_integer()} | refusal() | :pending
  def cancel_job(_tag, _client, _queue, _job, _reason, _time_to_live), do: unloaded()
  @spec watch(tag(), client(), binary(), binary()) :: {:ok, cancel_token()} | refusal() | :pending
  def watch(_tag, _client, _queue, _job), do: unloaded()

  @spec groups(tag(), client(), binary(), binary()) :: {:ok, [EchoMQ.Group.t()]} | refusal() | :pending
  def groups(_tag, _client, _queue, _name), do: unloaded()

  @spec group_info(tag(), client(), binary(), binary(), binary()) ::
          {:ok, EchoMQ.Group.t()} | refusal() | :pending
  def group_info(_tag, _client, _queue, _name, _group), do: unloaded()

  @spec create_group(tag(), client(), binary(), binary(), binary(), binary()) ::
          {:ok, boolean()} | refusal() | :pending
  def create_group(_tag, _client, _queue, _name, _group, _start), do: unloaded()

  @spec seek(tag(), client(), binary(), binary(), binary(), binary()) :: :ok | refusal() | :pending
  def seek(_tag, _client, _queue, _name, _group, _start), do: unloaded()

  @spec remove_consumer(tag(), client(), binary(), binary(), binary(), binary()) ::
          :ok | refusal() | :pending
  def remove_consumer(_tag, _client, _queue, _name, _group, _consumer), do: unloaded()

  @spec sweep_consumers(tag(), client(), binary(), binary(), binary(), non_neg_integer()) ::
          {:ok, [String.t()]} | refusal() | :pending
  def sweep_consumers(_tag, _client, _queue, _name, _group, _idle), do: unloaded()

  @spec remove_group(tag(), client(), binary(), binary(), binary()) ::
          {:ok, boolean()} | refusal() | :pending
  def remove_group(_tag, _client, _queue, _name, _group), do: unloaded()

  @spec id_parse(binary()) :: {:ok, binary()} | refusal()
  def id_parse(_id), do: unloaded()
  @spec id_decode(binary()) :: {:ok, tuple()} | refusal()
  def id_decode(_id), do: unloaded()
  @spec id_encode(binary(), non_neg_integer()) :: {:ok, binary()} | refusal()
  def id_encode(_namespace, _snowflake), do: unloaded()
  @spec id_from_entry(binary()) :: {:ok, binary()} | refusal()
  def id_from_entry(_entry_id), do: unloaded()
  @spec id_to_entry(binary()) :: {:ok, binary()} | refusal()
  def id_to_entry(_id), do: unloaded()

  @spec key(binary(), binary()) :: {:ok, binary()} | refusal()
  def key(_queue, _type), do: unloaded()
  @spec stream_key(binary(), binary()) :: {:ok, binary()} | refusal()
  def stream_key(_queue, _name), do: unloaded()
  @spec slot(binary()) :: 0..16_383
  def slot(_key), do: unloaded()
  @spec version_key() :: binary()
  def version_key, do: unloaded()

  # Panics on demand, for the tests alone.
  @spec panic_in_call(term()) :: no_return()
  def panic_in_call(_argument), do: unloaded()
  @spec panic_in_decode(term()) :: no_return()
  def panic_in_decode(_argument), do: unloaded()
  @spec panic_in_encode() :: no_return()
  def panic_in_encode, do: unloaded()
  @spec panic_in_drop() :: reference()
  def panic_in_drop, do: unloaded()
  @spec panic_in_task(tag()) :: :pending
  def panic_in_task(_tag), do: unloaded()
  @spec panic_in_message(tag()) :: :pending
  def panic_in_message(_tag), do: unloaded()

  defp unloaded, do: :erlang.nif_error(:nif_not_loaded)
end
