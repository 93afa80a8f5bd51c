defmodule EchoMQ.Events.Options do
  @moduledoc false
  # The options of a listener and of those who hear off it: what is their own, and what the core takes.

  alias EchoMQ.{Notifier, Starting}

  @own [:conn, :queue, :name, :handler, :state, :on_notice, :connect, :raw]

  @typedoc "What a listener does. `named` and `raw` say how its handler hears, and others where they do not say otherwise."
  @type what :: %{
          conn: EchoMQ.Connector.conn(),
          queue: String.t(),
          handler: module() | function() | nil,
          state: term(),
          on_notice: Notifier.target(),
          lazy?: boolean(),
          raw: boolean(),
          named: [{String.t(), String.t()}]
        }

  @doc false
  @spec listener(keyword()) :: what()
  def listener(options) do
    {own, hearing} = Keyword.split(keywords(options, "a listener"), @own)
    conn = own[:conn] || raise ArgumentError, "a listener has a connector, the option :conn"
    handler = handler(own[:handler])

    if Keyword.has_key?(own, :state) and handler == nil do
      raise ArgumentError, "a listener without a :handler has no :state"
    end

    %{
      conn: conn,
      queue: queue(own[:queue]),
      handler: handler,
      state: own[:state],
      on_notice: Notifier.target(own[:on_notice], handler),
      lazy?: Starting.lazy?(own),
      raw: raw(own),
      named: named(hearing)
    }
  end

  @doc false
  # Who hears, and how: nothing for `raw` where it is not said.
  @spec subscriber(keyword()) :: {pid(), %{named: [{String.t(), String.t()}], raw: boolean() | nil}}
  def subscriber(options) do
    {own, hearing} = Keyword.split(keywords(options, "a subscriber"), [:pid, :raw])
    {local(Keyword.get(own, :pid, self())), %{named: named(hearing), raw: own[:raw] && raw(own)}}
  end

  @doc false
  @spec queue(term()) :: String.t()
  def queue(queue) when is_binary(queue), do: queue
  def queue(other), do: raise(ArgumentError, "the queue must be text, got: #{inspect(other)}")

  defp keywords(options, whose) do
    unless Keyword.keyword?(options) do
      raise ArgumentError, "the options of #{whose} must be a keyword list, got: #{inspect(options)}"
    end

    options
  end

  defp local(process) when is_pid(process) and node(process) == node(), do: process

  defp local(other) do
    raise ArgumentError, "a subscriber must be a process of this node, got: #{inspect(other)}"
  end

  defp raw(own) do
    case Keyword.get(own, :raw, false) do
      raw when is_boolean(raw) -> raw
      other -> raise ArgumentError, "the option :raw must be true or false, got: #{inspect(other)}"
    end
  end

  defp named(options) do
    for {name, value} <- options do
      unless is_integer(value) or is_binary(value) do
        raise ArgumentError,
              "the option #{inspect(name)} must be text or a whole number, got: #{inspect(value)}"
      end

      {Atom.to_string(name), to_string(value)}
    end
  end

  defp handler(nil), do: nil
  defp handler(handler) when is_function(handler, 3), do: handler

  defp handler(module) when is_atom(module) and not is_boolean(module) do
    if Code.ensure_loaded?(module) and function_exported?(module, :handle_event, 3) do
      module
    else
      raise ArgumentError, "#{inspect(module)} must have handle_event/3"
    end
  end

  defp handler(other) do
    raise ArgumentError, "the option :handler must be a module or a function of three, got: #{inspect(other)}"
  end
end
