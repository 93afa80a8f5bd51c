defmodule EchoMQ.DocTest do
  use EchoMQ.Test.Case, async: false

  doctest EchoMQ
  doctest EchoMQ.Connector
  doctest EchoMQ.Error
  doctest EchoMQ.Keyspace
  doctest EchoMQ.Record
  doctest EchoMQ.Stream
  doctest EchoMQ.Stream.Id
  doctest EchoMQ.Test.Readme
end
