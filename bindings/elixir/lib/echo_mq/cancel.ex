defmodule EchoMQ.Cancel do
  @moduledoc """
  Cancelling cooperatively: a token that a handler looks at, at points where it can stop safely.

      iex> token = EchoMQ.Cancel.new()
      iex> EchoMQ.Cancel.check(token)
      :ok
      iex> EchoMQ.Cancel.cancel(token, "the player left")
      :ok
      iex> EchoMQ.Cancel.check(token)
      {:cancelled, "the player left"}
      iex> EchoMQ.Cancel.check!(token)
      ** (EchoMQ.Cancelled) cancelled: the player left

  A token trips once, and the first reason stays. Any process of this VM may look at it and trip it. A process that waits in a
  `receive` is told by the message `{:emq_cancel, ref, reason}`, whose `ref` is the token's:

      iex> token = EchoMQ.Cancel.new()
      iex> EchoMQ.Cancel.cancel(self(), token, "too late")
      iex> %{ref: ref} = token
      iex> receive do
      ...>   {:emq_cancel, ^ref, reason} -> reason
      ...> end
      "too late"

  ## Other processes of the system

  `cancel/4` cancels a job in whatever process it runs, of whatever language, and `watch/3` gives the token that trips then. A
  worker that was away learns of it too: cancelling leaves a mark with a time to live, which a watcher reads when it begins and
  after every lost connection.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, token} = EchoMQ.Cancel.watch(bus, "codemojex", "JOB000xY9Wvvcd")
      iex> EchoMQ.Cancel.cancel(bus, "codemojex", "JOB000xY9Wvvcd", "the player left")
      {:ok, 1}
      iex> EchoMQ.Cancel.await(token)
      {:cancelled, "the player left"}
      iex> {:ok, later} = EchoMQ.Cancel.watch(bus, "codemojex", "JOB000xY9Wvvcd")
      iex> EchoMQ.Cancel.check(later)
      {:cancelled, "the player left"}

  A reason that is no text is shown as by `inspect/1`, and an exception by its message.
  """

  alias EchoMQ.{Cancelled, Connector, Error, Native, PullConsumer}

  @enforce_keys [:ref, :native]
  defstruct [:ref, :native]

  @typedoc "A token. `:ref` is what the message about it has."
  @type t :: %__MODULE__{ref: reference(), native: reference()}

  @doc "A token that has not tripped."
  @spec new() :: t()
  def new, do: token(Native.cancel_token())

  @doc "Trips a token. The reason of one that has tripped already stays."
  @spec cancel(t(), reason :: term()) :: :ok
  def cancel(%__MODULE__{} = token, reason), do: cancel(nil, token, reason)

  @doc """
  Trips a token, and sends a process `{:emq_cancel, ref, reason}` with the reason that counts, so that it finds it in its
  `receive`. Without a process it is `cancel/2`.
  """
  @spec cancel(pid() | nil, t(), reason :: term()) :: :ok
  def cancel(process, %__MODULE__{} = token, reason) when is_pid(process) or is_nil(process) do
    first = Native.trip(token.native, PullConsumer.reason(reason))
    if process, do: send(process, {:emq_cancel, token.ref, first})
    :ok
  end

  @doc """
  Cancels a job in whatever process it runs: writes a mark and then publishes the event `cancel` with the reason. Answers how
  many listened.

  The mark lives for `:ttl` milliseconds; one day without it. Fails with `:malformed_id`, `:invalid_name`, with
  `:invalid_option` for a reason that is no UTF-8 or a `:ttl` of 0, with `:too_large`, and with `:unknown_outcome`;
  cancelling again does no harm.
  """
  @spec cancel(Connector.conn(), String.t(), EchoMQ.Stream.Id.t(), reason :: term(), ttl: pos_integer()) ::
          {:ok, non_neg_integer()} | {:error, Error.t()}
  def cancel(conn, queue, job, reason, options \\ []) do
    [ttl: time_to_live] = Keyword.validate!(options, ttl: nil)
    reason = PullConsumer.reason(reason)

    with {:ok, client} <- Connector.client(conn),
         do: Native.call(&Native.cancel_job(&1, client, queue, job, reason, time_to_live))
  end

  @doc """
  A token that trips when the job is cancelled by `cancel/4`, or was before. When it answers, the subscription is confirmed and
  the mark is read.

  It watches until the VM has collected the token, through one connector: what ends that, its restart by a supervisor included,
  ends the watch, and `check/1` says so. Fails with `:malformed_id`, `:invalid_name`, `:auth`, `:closed`, and with
  `:disconnected` when there was no connection until the connector's `:timeout`.
  """
  @spec watch(Connector.conn(), String.t(), EchoMQ.Stream.Id.t()) :: {:ok, t()} | {:error, Error.t()}
  def watch(conn, queue, job) do
    with {:ok, client} <- Connector.client(conn),
         {:ok, native} <- Native.call(&Native.watch(&1, client, queue, job)),
         do: {:ok, token(native)}
  end

  @doc """
  Whether the token has tripped, and why. It asks nobody, and costs next to nothing.

  A token of `watch/3` that no other process can trip any longer answers the error that `watch_error/1` has: its connector was
  closed or started again, or may not listen any longer. Watch again then: a job that was cancelled meanwhile has its mark.
  """
  @spec check(t()) :: :ok | {:cancelled, String.t()} | {:error, Error.t()}
  def check(%__MODULE__{native: native}) do
    with nil <- Native.cancel_reason(native), nil <- Native.watch_error(native) do
      :ok
    else
      %Error{} = error -> {:error, error}
      reason -> {:cancelled, reason}
    end
  end

  @doc """
  Raises an `EchoMQ.Cancelled` where the token has tripped, and an `EchoMQ.Error` where `check/1` answers one.
  """
  @spec check!(t()) :: :ok
  def check!(%__MODULE__{} = token) do
    case check(token) do
      :ok -> :ok
      {:cancelled, reason} -> raise Cancelled, reason: reason
      {:error, error} -> raise error
    end
  end

  @doc """
  Waits until the token trips, at most `within` milliseconds, and answers as `check/1` does then. Fails with the reason where
  other processes cannot trip it any longer, as `watch_error/1` says.
  """
  @spec await(t(), timeout()) :: :ok | {:cancelled, String.t()} | {:error, Error.t()}
  def await(%__MODULE__{native: native}, within \\ :infinity) do
    with {:ok, reason} <- Native.call(&Native.await_cancel(&1, native, within)), do: checked(reason)
  end

  @doc """
  Has a process sent `{:emq_cancel, ref, reason}` when the token trips, by whomever, or at once where it has. The process must
  be one of this node. Where no other process can trip the token any longer, `{:emq_cancel_error, ref, error}` says so.
  """
  @spec notify(t(), pid()) :: :ok
  def notify(%__MODULE__{native: native, ref: ref}, process \\ self()) do
    unless is_pid(process) and node(process) == node() do
      raise ArgumentError, "who is to be told must be a process of this node, got: #{inspect(process)}"
    end

    Native.notify_cancel(native, process, ref)
  end

  @doc """
  Why a token of `watch/3` is not tripped by other processes any longer: its connector was closed, or may not listen any longer.
  `nil` while it is.
  """
  @spec watch_error(t()) :: Error.t() | nil
  def watch_error(%__MODULE__{native: native}), do: Native.watch_error(native)

  defp token(native), do: %__MODULE__{ref: make_ref(), native: native}

  defp checked(nil), do: :ok
  defp checked(reason), do: {:cancelled, reason}
end
