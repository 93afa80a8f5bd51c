defmodule EchoMQ.Starting do
  @moduledoc false
  # Starting processes that need the server: one that cannot start is an answer and ends nobody, and one that starts before
  # its server is there tries again.

  alias EchoMQ.Error

  # What no other attempt mends: the stream or the options are wrong, or the connector is gone.
  @final [:wrong_type, :version_fence, :closed, :invalid_option, :invalid_name, :malformed_id, :kind, :state]

  # Milliseconds between attempts, doubling. An attempt waits for a connection by itself.
  @shortest 50
  @longest 2_000

  @doc false
  # Starts a process of a module. Its init answers by `fail/2` where it cannot start: a caller that is linked with it already
  # is told, and does not end with it.
  @spec start_link(module(), term(), keyword()) :: GenServer.on_start()
  def start_link(module, argument, options) do
    starter = {self(), make_ref()}

    with :ignore <- GenServer.start_link(module, {starter, argument}, options) do
      {_, reference} = starter

      receive do
        {^reference, reason} -> {:error, reason}
      end
    end
  end

  @doc false
  @spec fail({pid(), reference()}, term()) :: :ignore
  def fail({starter, reference}, reason) do
    send(starter, {reference, reason})
    :ignore
  end

  @doc false
  # When a process that waits for nothing is connected: the option `:connect` of the processes that a supervisor starts.
  @spec lazy?(keyword()) :: boolean()
  def lazy?(options) do
    case Keyword.get(options, :connect, :wait) do
      :lazy -> true
      :wait -> false
      other -> raise ArgumentError, "the option :connect must be :wait or :lazy, got: #{inspect(other)}"
    end
  end

  @doc false
  @spec final?(Error.t()) :: boolean()
  def final?(%Error{code: code}), do: code in @final

  @doc false
  # Has the calling process sent a message for its next attempt, and answers the pause before the one behind it.
  @spec again(term(), pos_integer() | nil) :: pos_integer()
  def again(message, pause) do
    pause = pause || @shortest
    Process.send_after(self(), message, pause)
    min(2 * pause, @longest)
  end
end
