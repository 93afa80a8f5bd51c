defmodule EchoMQ.DocTest do
  use EchoMQ.Test.Case, async: false

  doctest EchoMQ
  doctest EchoMQ.Cancel
  doctest EchoMQ.Connector
  doctest EchoMQ.Error
  doctest EchoMQ.Events
  doctest EchoMQ.Group
  doctest EchoMQ.Keyspace
  doctest EchoMQ.Notice
  doctest EchoMQ.PullConsumer
  doctest EchoMQ.Record
  doctest EchoMQ.Stream
  doctest EchoMQ.Stream.Id
  doctest EchoMQ.StreamConsumer
  doctest EchoMQ.Tail
  doctest EchoMQ.Test.Readme
end
