defmodule EchoMQ.Keyspace do
  @moduledoc """
  The keys on the server, for those who look at them with another client.

  All keys of a queue begin with `emq:{queue}:`, so that they share a slot of a cluster. The names of queues and streams
  are 1 to 128 bytes of `A-Z a-z 0-9 . _ -`, and no queue is named `emq`; anything else is answered with
  `:invalid_name`.
  """

  @doc """
  The key of a type.

      iex> EchoMQ.Keyspace.key("orders", "seq")
      {:ok, "emq:{orders}:seq"}
      iex> {:error, error} = EchoMQ.Keyspace.key("or{ders", "seq")
      iex> error.code
      :invalid_name
  """
  @spec key(String.t(), String.t()) :: {:ok, String.t()} | {:error, EchoMQ.Error.t()}
  defdelegate key(queue, type), to: EchoMQ.Native

  @doc """
  The key of a stream.

      iex> EchoMQ.Keyspace.stream_key("orders", "events")
      {:ok, "emq:{orders}:stream:events"}
  """
  @spec stream_key(String.t(), String.t()) :: {:ok, String.t()} | {:error, EchoMQ.Error.t()}
  defdelegate stream_key(queue, name), to: EchoMQ.Native

  @doc """
  The cluster slot of a key.

      iex> EchoMQ.Keyspace.slot("emq:{orders}:stream:events")
      105
  """
  @spec slot(String.t()) :: 0..16_383
  defdelegate slot(key), to: EchoMQ.Native

  @doc """
  The key that holds the deployment's version of the wire.

      iex> EchoMQ.Keyspace.version_key()
      "{emq}:version"
  """
  @spec version_key() :: String.t()
  defdelegate version_key(), to: EchoMQ.Native
end
