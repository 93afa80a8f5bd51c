defmodule EchoMQ.Error do
  @moduledoc """
  What can go wrong, one code a cause.

    * `:code` - the cause, the same word in every language; see `t:code/0`
    * `:message` - a sentence that says what was refused and why; it may change, the code does not
    * `:subject` - the key or name concerned, or `nil`
    * `:id` - the branded id of the record concerned, or `nil`: with `:unknown_outcome` the one to ask again with
      through `EchoMQ.Stream.append_id/5`, with `:nonmonotonic` the one that was refused
    * `:top` - with `:nonmonotonic`, the entry id of the stream's top
    * `:retryable` - whether the same call may succeed later without any change by the caller. `:unknown_outcome` is not:
      calling again could write a second record
    * `:cause` - the error that led to this one, or `nil`: why there was no connection, for example

  It is an exception, so that it can be raised where that is wanted. It never holds a password.

      iex> {:error, error} = EchoMQ.Stream.Id.parse("EVT000xY9Wvv-d")
      iex> error.code
      :malformed_id
      iex> Exception.message(error)
      "malformed_id: charset: `EVT000xY9Wvv-d` has a character outside 0-9, A-Z and a-z"
  """

  @codes ~w(
    malformed_id kind invalid_name reserved_field too_large invalid_window invalid_option nonmonotonic stream_ahead
    clock_ahead unknown_outcome wrong_type no_group disconnected timeout overloaded out_of_memory version_fence auth tls
    node_lease_lost node_conflict unavailable unsupported_server mint_exhausted floor gone stale locked state closed server
  )a

  @typedoc """
  The cause of an error.

    * `:malformed_id` - a text is no branded id: wrong length, namespace, character or range
    * `:kind` - a well-formed id of a namespace that has no place here
    * `:invalid_name` - a queue, stream or other name has a character that names do not have, or is too long or empty
    * `:reserved_field` - a field is named `id`, which the record itself uses
    * `:too_large` - a record is over the client's bound
    * `:invalid_window` - a window ends before it starts
    * `:invalid_option` - an option, a URL or an argument has a value that cannot be used
    * `:nonmonotonic` - the id is not above the stream's top: a second writer is at work
    * `:stream_ahead`, `:clock_ahead` - a stream's top, or this host's clock, is too far ahead of the server's clock
    * `:unknown_outcome` - the request was sent and its answer never came: it may or may not have been applied
    * `:wrong_type` - the key holds a value of another type
    * `:no_group` - the consumer group does not exist
    * `:disconnected` - there is no connection to the server; nothing was changed by the request
    * `:timeout` - the answer did not come in time; nothing was changed by the request
    * `:overloaded` - too many requests wait already; this one was not taken
    * `:out_of_memory` - the server is out of memory and refused to write
    * `:version_fence` - the deployment speaks another version of the wire
    * `:auth` - the server refused the user, the password or a permission
    * `:tls` - the TLS handshake or its certificates failed
    * `:node_lease_lost` - the right to make ids with a node id is gone
    * `:node_conflict` - another process mints with the same node id
    * `:unavailable` - the server is there and could not serve until the deadline: it is loading, failing over, read-only
      or busy
    * `:unsupported_server` - the server is older than the bus needs, Valkey 7.2 or Redis 7.0, or a
      cluster's node or a sentinel
    * `:mint_exhausted` - the bits of an id's instant are used up
    * `:floor` - the object store failed
    * `:gone`, `:stale`, `:locked`, `:state` - what the call names does not exist any more, was overtaken by another
      writer, is locked, or is in a state that the call does not fit
    * `:closed` - the connector is closed or not running
    * `:server` - anything else the server said
  """
  @type code :: unquote(Enum.reduce(Enum.reverse(@codes), &{:|, [], [&1, &2]}))

  @type t :: %__MODULE__{
          code: code(),
          message: String.t(),
          subject: String.t() | nil,
          id: EchoMQ.Stream.Id.t() | nil,
          top: String.t() | nil,
          retryable: boolean(),
          cause: t() | nil
        }

  @enforce_keys [:code, :message]
  defexception [:code, :message, :subject, :id, :top, :cause, retryable: false]

  @doc """
  Every code, in the order of the protocol's list.

      iex> :nonmonotonic in EchoMQ.Error.codes()
      true
  """
  @spec codes() :: [code()]
  def codes, do: @codes

  @impl true
  @spec message(t()) :: String.t()
  def message(%__MODULE__{subject: nil} = error), do: "#{error.code}: #{error.message}"
  def message(%__MODULE__{} = error), do: "#{error.code}: #{error.message} (#{error.subject})"
end
