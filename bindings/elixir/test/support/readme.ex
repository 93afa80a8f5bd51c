defmodule EchoMQ.Test.Readme do
  @external_resource Path.expand("../../README.md", __DIR__)
  @moduledoc File.read!(@external_resource)
end
