defmodule EchoMQ.Application do
  @moduledoc false
  use Application

  @impl true
  def start(_type, _arguments) do
    children = [EchoMQ.Connector.Table, EchoMQ.Events.Shared]
    Supervisor.start_link(children, strategy: :one_for_one, name: EchoMQ.Supervisor)
  end
end
