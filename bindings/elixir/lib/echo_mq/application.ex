defmodule EchoMQ.Application do
  @moduledoc false
  use Application

  @impl true
  def start(_type, _arguments) do
    Supervisor.start_link([EchoMQ.Connector.Table], strategy: :one_for_one, name: EchoMQ.Supervisor)
  end
end
