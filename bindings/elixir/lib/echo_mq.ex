defmodule EchoMQ do
  @moduledoc """
  An event bus on Valkey or Redis Streams, for applications written in several languages.

  A *stream* is an append-only log of one *queue*. Each of its records carries a branded id of 14 bytes, made by the
  writer: stream order, id order and the order in which ids were made are one. What is written here reads the same in
  Rust, Python and Node, byte for byte.

    * `EchoMQ.Connector` - a connection to one server, to be put under a supervisor
    * `EchoMQ.Stream` - appending, reading by id or by instant, following, trimming
    * `EchoMQ.StreamConsumer` - handling the entries of a stream in a consumer group
    * `EchoMQ.PullConsumer`, `EchoMQ.Tail` - the same and following, step by step
    * `EchoMQ.Group` - looking at consumer groups, moving and removing them
    * `EchoMQ.Events` - lifecycle events, published and forgotten, and hearing them
    * `EchoMQ.Cancel` - cancelling jobs cooperatively, in this process or in any
    * `EchoMQ.Stream.Id` - what an id says
    * `EchoMQ.Keyspace` - the keys on the server
    * `EchoMQ.Error` - what can go wrong, one code a cause

  Calls answer `{:ok, value}` or `{:error, %EchoMQ.Error{}}`. An argument of a type that makes no sense raises
  `ArgumentError`.

      iex> {:ok, _} = EchoMQ.Connector.start_link(url: url(), name: MyApp.Bus)
      iex> {:ok, id} = EchoMQ.Stream.append(MyApp.Bus, "codemojex", "guesses", kind: "guessed", player: "ada")
      iex> {:ok, [{^id, fields}]} = EchoMQ.Stream.read(MyApp.Bus, "codemojex", "guesses")
      iex> fields
      %{"kind" => "guessed", "player" => "ada"}
      iex> EchoMQ.Connector.close(MyApp.Bus, 5_000)
      {:ok, 0}
  """

  @version Mix.Project.config()[:version]

  @doc """
  The version of this package.

      iex> EchoMQ.version() =~ ~r/^\\d+\\.\\d+\\.\\d+$/
      true
  """
  @spec version() :: String.t()
  def version, do: @version

  @doc """
  The version of the core that the native library was built with.

      iex> EchoMQ.core_version() == EchoMQ.version()
      true
  """
  @spec core_version() :: String.t()
  def core_version, do: EchoMQ.Native.core_version()
end
