defmodule EchoMQ.Connector.Password do
  @moduledoc false
  # The process that is asked for a connector's password whenever a connection is opened.

  alias EchoMQ.Native

  require Logger

  @doc false
  # Answers questions by the function, each in a process of its own, until the connector ends.
  @spec run((() -> String.t())) :: no_return()
  def run(function) do
    receive do
      {:emq_password, question} -> spawn(fn -> Native.answer_password(question, password(function)) end)
    end

    run(function)
  end

  # What it failed with may hold a secret, so that only its kind is told.
  defp password(function) do
    case function.() do
      password when is_binary(password) -> password
      _other -> failed("answered no text")
    end
  rescue
    error -> failed("raised #{inspect(error.__struct__)}")
  catch
    kind, _reason -> failed("ended by #{kind}")
  end

  defp failed(how) do
    Logger.error("the function that EchoMQ asks for a password #{how}")
    nil
  end
end
