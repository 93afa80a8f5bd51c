defmodule EchoMQ.Test.Case do
  @moduledoc "What every test starts with: a queue of its own, and a plain client of the shared server."

  use ExUnit.CaseTemplate

  alias EchoMQ.Test.{Plain, Server, Wait}

  using do
    quote do
      import EchoMQ.Test.Case
      alias EchoMQ.{Connector, Error, Keyspace, Record}
      alias EchoMQ.Test.{Plain, Server, Wait}
    end
  end

  setup do
    {:ok, plain} = Plain.connect(Server.shared().tcp_port)
    %{queue: "q#{System.unique_integer([:positive])}", plain: plain}
  end

  @doc "The address of the shared server."
  def url, do: Server.url(Server.shared())

  @doc "A connector of the shared server."
  def connect!(options \\ []) do
    {:ok, bus} = EchoMQ.Connector.start_link(Keyword.merge([url: url(), node_id: 1], options))
    bus
  end

  @doc "The entries of a stream as the plain client sees them: `{entry id, [name, value, …]}`."
  def entries(plain, queue, name) do
    for [entry_id, fields] <- Plain.command(plain, ["XRANGE", "emq:{#{queue}}:stream:#{name}", "-", "+"]) do
      {entry_id, fields}
    end
  end

  @doc "The code of an error answer."
  def code({:error, %EchoMQ.Error{code: code}}), do: code

  @doc "Waits until each process waits for an answer."
  def until_each_waits(processes) do
    Wait.until(fn ->
      Enum.all?(
        processes,
        &(Process.info(&1, :current_function) == {:current_function, {EchoMQ.Native, :call, 1}})
      )
    end)
  end

  @doc "What is in the calling process's mailbox."
  def mailbox do
    {:messages, messages} = Process.info(self(), :messages)
    messages
  end
end
