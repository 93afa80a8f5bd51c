defmodule EchoMQ.StreamConsumer.Options do
  @moduledoc false
  # The options of a consumer that are its own, and those that say how its group is read.

  alias EchoMQ.{Notifier, Starting}

  @own [:queue, :stream, :handler, :batch_handler, :conn, :connector, :connect, :on_notice, :name]

  @typedoc "What it reads, and who is told."
  @type what :: %{
          queue: String.t(),
          stream: String.t(),
          kind: :each | :batch,
          handler: function(),
          on_notice: Notifier.target(),
          lazy?: boolean(),
          group: String.t() | nil,
          consumer: String.t() | nil
        }

  @doc false
  # What it reads and where its connection comes from, and the options that say how the group is read.
  @spec split(keyword()) :: {what(), {:running | :own, term()}, keyword()}
  def split(options) do
    {own, reading} = Keyword.split(options, @own)
    {kind, handler} = handler(own)

    what = %{
      queue: text(own, :queue),
      stream: text(own, :stream),
      kind: kind,
      handler: handler,
      on_notice: Notifier.target(own[:on_notice], own[:handler]),
      lazy?: Starting.lazy?(own),
      group: reading[:group],
      consumer: reading[:consumer]
    }

    {what, source(own), reading}
  end

  defp text(own, option) do
    case own[option] do
      text when is_binary(text) -> text
      other -> raise ArgumentError, "the option #{inspect(option)} must be text, got: #{inspect(other)}"
    end
  end

  defp handler(own) do
    case {own[:handler], own[:batch_handler]} do
      {handler, nil} when is_function(handler, 1) -> {:each, handler}
      {nil, handler} when is_function(handler, 1) -> {:batch, handler}
      {module, nil} when is_atom(module) and module != nil -> callback(module)
      _ -> raise ArgumentError, "a consumer has either :handler or :batch_handler, a function of one argument"
    end
  end

  defp callback(module) do
    Code.ensure_loaded(module)

    case {function_exported?(module, :handle_message, 1), function_exported?(module, :handle_batch, 1)} do
      {true, false} -> {:each, &module.handle_message/1}
      {false, true} -> {:batch, &module.handle_batch/1}
      _ -> raise ArgumentError, "#{inspect(module)} must have either handle_message/1 or handle_batch/1"
    end
  end

  defp source(own) do
    case {own[:conn], own[:connector]} do
      {nil, options} when is_list(options) or is_function(options, 0) -> {:own, options}
      {nil, conn} when conn != nil -> {:running, conn}
      {conn, nil} when conn != nil -> {:running, conn}
      _ -> raise ArgumentError, "a consumer has either :conn or :connector"
    end
  end
end
