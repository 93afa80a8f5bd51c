EchoMQ.Test.Server.start_shared()
ExUnit.start()
