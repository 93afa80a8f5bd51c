# Connectors say for debugging that they are connected.
Logger.configure(level: :info)

EchoMQ.Test.Server.start_shared()
ExUnit.start()
