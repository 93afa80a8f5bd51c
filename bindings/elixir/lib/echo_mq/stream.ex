defmodule EchoMQ.Stream do
  @moduledoc """
  Streams: appending, reading, following, trimming. Consumer groups are read with `EchoMQ.StreamConsumer`.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, first} = EchoMQ.Stream.append(bus, "shop", "orders", kind: "placed", order: "4711")
      iex> {:ok, second} = EchoMQ.Stream.append(bus, "shop", "orders", %{"kind" => "paid", "order" => "4711"})
      iex> first < second
      true
      iex> EchoMQ.Stream.read(bus, "shop", "orders", "(" <> first)
      {:ok, [{second, %{"kind" => "paid", "order" => "4711"}}]}

  ## Writers

  How many write a stream is said once, by a handle of it:

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> orders = EchoMQ.Stream.new(bus, "shop", "orders", writers: :many)
      iex> {:ok, first} = EchoMQ.Stream.append(orders, kind: "placed", order: "4712")
      iex> {:ok, [{:ok, second}]} = EchoMQ.Stream.append_batch(orders, [[kind: "paid", order: "4712"]])
      iex> first < second
      true

  | | `writers: :one`, as without a handle | `writers: :many` |
  |---|---|---|
  | who appends | one connector of one VM, whose processes may all append | any number of connectors, all with this |
  | who makes the id | the connector | the connector, or the server where that id has no place |
  | a second writer | its record is refused with `:nonmonotonic` | is what it is for |
  | an append is | one `XADD` | one call of a script |

  A refused record is never written elsewhere and never dropped in silence. The connector of a handle may be a name, so that a
  handle can stand in a module attribute.

  A record is written once or reported, never twice. Where the connection breaks before the answer came, it is looked up
  after connecting again. Where nobody could say by the deadline, the answer is `:unknown_outcome` with the id, and
  `append_id/5` asks again.

  ## Errors

  Every call can fail with `:invalid_name`, `:wrong_type`, `:auth`, `:out_of_memory`, `:server`; with `:overloaded`
  when too many calls wait; with `:disconnected` when there was no connection until the connector's `:timeout`; with
  `:timeout` when only the answer was late; with `:closed`. What else can happen is said with each function.
  """

  import EchoMQ.Stream.Pages

  alias EchoMQ.{Connector, Error, Native, Record}
  alias EchoMQ.Events.Announced
  alias EchoMQ.Stream.Id

  # The records and bytes that a page has at most: as many as the core thinks right.
  @pages {:all, :all}

  # How many records of a tail are handed over at once.
  @slice 1_000

  @typedoc """
  The fields of a record: names are atoms or iodata, values are iodata.

  Order and duplicates are kept. A map has no order that means anything: give a list of pairs where it matters. A record
  may have no fields.
  """
  @type fields :: %{optional(atom() | iodata()) => iodata()} | [{atom() | iodata(), iodata()}]

  @typedoc "`\"-\"` and `\"+\"` for the ends of the stream, an id, or `\"(\"` and an id that is itself left out."
  @type bound :: String.t()

  @typedoc "How many records at most."
  @type count :: non_neg_integer() | :all

  @typedoc "A record as `{id, fields}`. The id of a foreign entry is `nil`."
  @type pair :: {Id.t() | nil, %{optional(binary()) => binary()}}

  @typedoc """
  How much to keep: that many of the newest records, or what was appended at or after an instant.

  The third element says whether the server may keep some more, which is much cheaper and the default; `false` trims
  exactly.
  """
  @type window ::
          {:maxlen, non_neg_integer()}
          | {:maxlen, non_neg_integer(), boolean()}
          | {:minid, DateTime.t()}
          | {:minid, DateTime.t(), boolean()}

  @enforce_keys [:conn, :queue, :name, :writers]
  defstruct @enforce_keys

  @typedoc "A handle of a stream, which says how many write it."
  @type t :: %__MODULE__{
          conn: Connector.conn(),
          queue: String.t(),
          name: String.t(),
          writers: :one | :many
        }

  @doc """
  A handle of a stream, for `append/2`, `append_id/3`, `append_batch/3` and `append_and_publish/5`. `:writers` is `:one`, which it
  is without it, or `:many`. It asks nobody: what cannot be a name is what those fail with.
  """
  @spec new(Connector.conn(), String.t(), String.t(), writers: :one | :many) :: t()
  def new(conn, queue, name, options \\ []) do
    case Keyword.validate!(options, writers: :one) do
      [writers: writers] when writers in [:one, :many] ->
        %__MODULE__{conn: conn, queue: queue, name: name, writers: writers}

      [writers: other] ->
        raise ArgumentError, "the option :writers must be :one or :many, got: #{inspect(other)}"
    end
  end

  defp place(%__MODULE__{name: name, writers: writers}), do: {name, writers}

  @doc "Appends one record to the stream of a handle, as its writers say, and answers its id. See `append/4`."
  @spec append(t(), fields()) :: {:ok, Id.t()} | {:error, Error.t()}
  def append(%__MODULE__{} = stream, fields), do: append(stream.conn, stream.queue, place(stream), fields)

  @doc "Appends one record under an id of the caller's to the stream of a handle. See `append_id/5`."
  @spec append_id(t(), Id.t(), fields()) :: {:ok, Id.t()} | {:error, Error.t()}
  def append_id(%__MODULE__{} = stream, id, fields) do
    append_id(stream.conn, stream.queue, place(stream), id, fields)
  end

  @doc """
  Appends many records to the stream of a handle, and answers as `append_batch/5` does.

  Where it has many writers, a record that is refused before it is sent keeps its place and its error, and the others are
  appended in one step of the server's: where that fails, each of them has the same error.
  """
  @spec append_batch(t(), [fields()], [{:atomic | :sequenced, boolean()}]) ::
          {:ok, [{:ok, Id.t()} | {:error, Error.t()}] | [Id.t()]} | {:error, Error.t()}
  def append_batch(%__MODULE__{} = stream, records, options \\ []) do
    append_batch(stream.conn, stream.queue, place(stream), records, options)
  end

  @doc """
  Appends one record to the stream of a handle, and then publishes an event of the queue with its place. See
  `EchoMQ.Events.append_and_publish/7`.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> results = EchoMQ.Stream.new(bus, "shop", "shared-results", writers: :many)
      iex> {:ok, announced} =
      ...>   EchoMQ.Stream.append_and_publish(results, [score: "7"], :completed, "JOB000xY9Wvvcd", player: "ada")
      iex> {:ok, [{id, %{"score" => "7"}}]} = EchoMQ.Stream.read(bus, "shop", "shared-results")
      iex> {id == announced.id, announced.published}
      {true, {:ok, 0}}
  """
  @spec append_and_publish(t(), fields(), EchoMQ.Events.event(), Id.t(), EchoMQ.Events.extra()) ::
          {:ok, Announced.t()} | {:error, Error.t()}
  def append_and_publish(%__MODULE__{} = stream, fields, event, job, extra \\ []) do
    EchoMQ.Events.append_and_publish(stream.conn, stream.queue, place(stream), fields, event, job, extra)
  end

  @doc """
  Appends one record and answers its id.

  Fails with `:reserved_field` for a field named `id`, `:too_large`, `:clock_ahead`, `:nonmonotonic`, `:unknown_outcome`, and as
  `EchoMQ.Connector.mint/2` does.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, "EVT" <> _} = EchoMQ.Stream.append(bus, "shop", "visits", [{"page", "/"}, {"page", ["/", "cart"]}])
      iex> {:error, error} = EchoMQ.Stream.append(bus, "shop", "visits", %{"id" => "7"})
      iex> error.code
      :reserved_field
  """
  @spec append(Connector.conn(), String.t(), String.t(), fields()) :: {:ok, Id.t()} | {:error, Error.t()}
  def append(conn, queue, name, fields) do
    with {:ok, client} <- Connector.client(conn) do
      Native.call(&Native.append(&1, client, queue, name, fields))
    end
  end

  @doc """
  Appends one record under an id of the caller's: to repeat history, or to ask again after `:unknown_outcome`.

  Fails as `append/4` does, and with `:malformed_id` and `:kind`; it needs no node and does not look at the clock.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> EchoMQ.Stream.append_id(bus, "shop", "history", "EVT0NgWEfAER90", kind: "placed")
      {:ok, "EVT0NgWEfAER90"}
      iex> {:error, error} = EchoMQ.Stream.append_id(bus, "shop", "history", "EVT000xY9Wvvcd", kind: "late")
      iex> {error.code, error.top}
      {:nonmonotonic, "1780512970164-28714"}
  """
  @spec append_id(Connector.conn(), String.t(), String.t(), Id.t(), fields()) ::
          {:ok, Id.t()} | {:error, Error.t()}
  def append_id(conn, queue, name, id, fields) do
    with {:ok, client} <- Connector.client(conn) do
      Native.call(&Native.append_id(&1, client, queue, name, id, fields))
    end
  end

  @doc """
  Appends one record to a stream that has several writers, and answers its id.

  This connector's own id is used where it is above the stream's top; otherwise the server gives one in the same step, so
  that a writer far away, or one whose clock is behind, is never refused with `:nonmonotonic`. All writers of such a
  stream append in this way.

  Fails as `append/4` does otherwise, and with `:stream_ahead` and `:clock_ahead` where the stream's top, or this host's
  clock, is more than a minute ahead of the server's clock.

      iex> {:ok, near} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, behind} = EchoMQ.Connector.start_link(url: url(), clock: 1_735_689_600_000)
      iex> {:ok, first} = EchoMQ.Stream.append_sequenced(near, "shop", "shared", kind: "placed")
      iex> {:ok, second} = EchoMQ.Stream.append_sequenced(behind, "shop", "shared", kind: "paid")
      iex> first < second
      true
  """
  @spec append_sequenced(Connector.conn(), String.t(), String.t(), fields()) ::
          {:ok, Id.t()} | {:error, Error.t()}
  def append_sequenced(conn, queue, name, fields) do
    with {:ok, client} <- Connector.client(conn) do
      Native.call(&Native.append_sequenced(&1, client, queue, name, fields))
    end
  end

  @doc """
  Appends many records in one pipeline.

  Answers one result for each record, in their order: each is written or refused for itself, as by `append/4`.

  With `atomic: true` the server appends all of them in one step, or none, and the answer is the list of their ids, or
  one error; after `:unknown_outcome` it is all of them or none, and the error has the id of the first. With
  `sequenced: true` it does so for a stream of several writers, and each record gets its id as by `append_sequenced/4`.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> records = [%{"n" => "1"}, [{"id", "2"}], [n: "3"]]
      iex> {:ok, [{:ok, first}, {:error, error}, {:ok, third}]} = EchoMQ.Stream.append_batch(bus, "q", "log", records)
      iex> {first < third, error.code}
      {true, :reserved_field}
      iex> {:error, error} = EchoMQ.Stream.append_batch(bus, "q", "log", records, atomic: true)
      iex> error.code
      :reserved_field
      iex> {:ok, [_, _]} = EchoMQ.Stream.append_batch(bus, "q", "log", [[n: "4"], [n: "5"]], atomic: true)
      iex> {:ok, [_, _]} = EchoMQ.Stream.append_batch(bus, "q", "log", [[n: "6"], [n: "7"]], sequenced: true)
  """
  @spec append_batch(Connector.conn(), String.t(), String.t(), [fields()], [
          {:atomic | :sequenced, boolean()}
        ]) ::
          {:ok, [{:ok, Id.t()} | {:error, Error.t()}] | [Id.t()]} | {:error, Error.t()}
  def append_batch(conn, queue, name, records, options \\ []) do
    unless is_list(records), do: raise(ArgumentError, "the records of a batch must be a list")
    append = appending(options)

    with {:ok, client} <- Connector.client(conn) do
      batch = fill(Native.batch(length(records)), records)
      Native.call(&append.(&1, client, queue, name, batch))
    end
  end

  # What is sequenced is written whole or not at all too.
  defp appending(options) do
    case Keyword.keyword?(options) and Enum.sort(Keyword.merge([atomic: false, sequenced: false], options)) do
      [atomic: atomic, sequenced: true] when is_boolean(atomic) ->
        &Native.append_batch_sequenced/5

      [atomic: true, sequenced: false] ->
        &Native.append_batch_atomic/5

      [atomic: false, sequenced: false] ->
        &Native.append_batch/5

      _ ->
        raise ArgumentError, "a batch takes atomic: and sequenced:, true or false, got: #{inspect(options)}"
    end
  end

  # The native side reads a slice at a time, so that a long list keeps no scheduler from other work.
  defp fill(batch, []), do: batch
  defp fill(batch, records), do: fill(batch, Native.batch_add(batch, records))

  @doc """
  Reads a range, oldest first, as pairs of id and fields.

  The fields are a map: where a record has a name more than once, the last value is kept. The id of an entry that this
  bus did not write is `nil`, and its map has all its fields. `records/6` tells more, and `stream/4` reads a long
  range without holding all of it.

  Fails with `:malformed_id` and `:kind` for a bound that is no id of a record.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, id} = EchoMQ.Stream.append(bus, "shop", "reads", [{"k", "1"}, {"k", "2"}])
      iex> EchoMQ.Stream.read(bus, "shop", "reads", "-", "+", 10)
      {:ok, [{id, %{"k" => "2"}}]}
  """
  @spec read(Connector.conn(), String.t(), String.t(), bound(), bound(), count()) ::
          {:ok, [pair()]} | {:error, Error.t()}
  def read(conn, queue, name, from \\ "-", to \\ "+", count \\ :all) do
    collect(range(conn, queue, name, from, to, count, @pages), &pair/1)
  end

  @doc """
  Reads a range as `read/6` does, with all that there is to each entry.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, _} = EchoMQ.Connector.command(bus, ["XADD", "emq:{shop}:stream:foreign", "5-1", "k", "v"])
      iex> EchoMQ.Stream.records(bus, "shop", "foreign")
      {:ok, [%EchoMQ.Record{id: nil, entry_id: "5-1", fields: [{"k", "v"}], foreign?: true}]}
  """
  @spec records(Connector.conn(), String.t(), String.t(), bound(), bound(), count()) ::
          {:ok, [Record.t()]} | {:error, Error.t()}
  def records(conn, queue, name, from \\ "-", to \\ "+", count \\ :all) do
    collect(range(conn, queue, name, from, to, count, @pages), &Record.new/1)
  end

  @doc """
  Reads what was appended between two instants, both included, oldest first; pairs as of `read/6`.

  An instant is cut to its millisecond. Fails with `:invalid_window` when the second is before the first.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, id} = EchoMQ.Stream.append_id(bus, "shop", "window", "EVT0NgWEfAER90", kind: "placed")
      iex> EchoMQ.Stream.read_window(bus, "shop", "window", ~U[2026-06-03 00:00:00Z], ~U[2026-06-03 23:59:59.999Z])
      {:ok, [{id, %{"kind" => "placed"}}]}
      iex> EchoMQ.Stream.read_window(bus, "shop", "window", ~U[2026-06-04 00:00:00Z], ~U[2026-06-05 00:00:00Z], 10)
      {:ok, []}
  """
  @spec read_window(Connector.conn(), String.t(), String.t(), DateTime.t(), DateTime.t(), count()) ::
          {:ok, [pair()]} | {:error, Error.t()}
  def read_window(conn, queue, name, first, last, count \\ :all) do
    collect(window(conn, queue, name, first, last, count, @pages), &pair/1)
  end

  @doc """
  Reads what was appended at or after an instant, oldest first; pairs as of `read/6`.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, id} = EchoMQ.Stream.append_id(bus, "shop", "since", "EVT0NgWEfAER90", kind: "placed")
      iex> EchoMQ.Stream.read_since(bus, "shop", "since", ~U[2026-06-03 18:56:10.164Z])
      {:ok, [{id, %{"kind" => "placed"}}]}
  """
  @spec read_since(Connector.conn(), String.t(), String.t(), DateTime.t(), count()) ::
          {:ok, [pair()]} | {:error, Error.t()}
  def read_since(conn, queue, name, first, count \\ :all) do
    collect(since(conn, queue, name, first, count, @pages), &pair/1)
  end

  @doc """
  Reads the newest records, newest first; pairs as of `read/6`.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, [{:ok, _}, {:ok, second}]} = EchoMQ.Stream.append_batch(bus, "shop", "last", [[n: "1"], [n: "2"]])
      iex> EchoMQ.Stream.read_last(bus, "shop", "last", 1)
      {:ok, [{second, %{"n" => "2"}}]}
  """
  @spec read_last(Connector.conn(), String.t(), String.t(), non_neg_integer()) ::
          {:ok, [pair()]} | {:error, Error.t()}
  def read_last(conn, queue, name, count) do
    collect(last(conn, queue, name, count, @pages), &pair/1)
  end

  @doc """
  Reads lazily: an enumerable of `EchoMQ.Record`, asked for a page at a time, so that any range can be read in bounded
  memory.

  What to read is said by `:from` and `:to` (`t:bound/0`), or by `window: {first, last}`, `since: instant` or
  `last: count`. `:count` bounds how many records there are in all, `:page_size` how many are asked for at a time, 1 000
  unless it is said, and `:page_bytes` about how many bytes, 4 194 304: a page of large records has fewer of them. Nothing is asked for before it is enumerated; it may be enumerated again, and then reads again. A
  call that fails raises its `EchoMQ.Error` there.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, _} = EchoMQ.Stream.append_batch(bus, "shop", "long", for(n <- 1..500, do: [n: to_string(n)]))
      iex> EchoMQ.Stream.stream(bus, "shop", "long", page_size: 100)
      ...> |> Stream.map(fn record -> Map.new(record.fields)["n"] end)
      ...> |> Stream.drop(250)
      ...> |> Enum.take(2)
      ["251", "252"]
  """
  @spec stream(Connector.conn(), String.t(), String.t(), keyword()) :: Enumerable.t()
  def stream(conn, queue, name, options \\ []) do
    open = opening(conn, queue, name, options)
    Stream.resource(fn -> told!(open.()) end, &next/1, fn _reader -> :ok end)
  end

  @doc """
  Follows a stream for ever: an enumerable of `EchoMQ.Record` that waits for what is appended.

  It begins where `start` says. What is missing because it was trimmed away stands in its place as an `EchoMQ.Gap`. A
  connection of its own is opened when it is enumerated, by the process that enumerates it, and closed at the end; a
  connection that breaks is opened again, and the enumeration goes on where it was. To go on later, keep the id of the
  last record and give it as the start. `EchoMQ.Tail` is the same for those who cannot wait for ever, and has the same option
  `:page_bytes`.

  Raises an `EchoMQ.Error` where it cannot begin or cannot go on.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, _} = EchoMQ.Stream.append_batch(bus, "shop", "tailed", [[n: "1"], [n: "2"]])
      iex> tail = EchoMQ.Stream.tail(bus, "shop", "tailed", :head)
      iex> [one, two] = Enum.take(tail, 2)
      iex> {:ok, _} = EchoMQ.Stream.append(bus, "shop", "tailed", n: "3")
      iex> [three] = bus |> EchoMQ.Stream.tail("shop", "tailed", two.id) |> Enum.take(1)
      iex> [one.fields, two.fields, three.fields]
      [[{"n", "1"}], [{"n", "2"}], [{"n", "3"}]]
  """
  @spec tail(Connector.conn(), String.t(), String.t(), EchoMQ.Start.t(), page_bytes: pos_integer()) ::
          Enumerable.t()
  def tail(conn, queue, name, start, options \\ []) do
    Stream.resource(
      fn -> told!(EchoMQ.Tail.open(conn, queue, name, start, options)) end,
      fn tail ->
        case EchoMQ.Tail.take(tail, @slice) do
          {:ok, entries} -> {entries, tail}
          :closed -> {:halt, tail}
          {:error, error} -> raise error
        end
      end,
      &EchoMQ.Tail.close/1
    )
  end

  @doc """
  The dead letters of a stream, oldest first: an enumerable of `EchoMQ.Record`, as of `stream/4`.

  A dead letter is what a consumer group gave up after its last attempt: a record with an id of its own and the fields
  `origin` (the id that it had; its entry id where it had none), `group`, `attempts`, `error` and `at` (Unix
  milliseconds), and behind them its own fields as they were. The options are `:from`, `:to`, `:count`,
  `:page_size` and `:page_bytes` of `stream/4`.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> bus |> EchoMQ.Stream.dead_letters("shop", "reads") |> Enum.to_list()
      []
  """
  @spec dead_letters(Connector.conn(), String.t(), String.t(), keyword()) :: Enumerable.t()
  def dead_letters(conn, queue, name, options \\ []) do
    options = Keyword.validate!(options, from: "-", to: "+", count: :all, page_size: :all, page_bytes: :all)
    page = {options[:page_size], options[:page_bytes]}
    ends = {options[:from], options[:to]}

    open = fn ->
      with {:ok, client} <- Connector.client(conn) do
        Native.read_dead_letters(client, queue, name, ends, options[:count], page)
      end
    end

    Stream.resource(fn -> told!(open.()) end, &next/1, fn _reader -> :ok end)
  end

  @doc """
  Puts a dead letter back: its own fields become a new record of the stream, whose id is answered, and it is gone from
  the dead letters, in one step. It needs no node id.

  Fails with `:gone` where there is no such dead letter, `:state` where the entry of that id is no dead letter, and with
  `:stream_ahead` and `:clock_ahead`; then nothing changed. Fails with `:unknown_outcome` when an answer was lost and the
  dead letter is gone since; putting it back again does no harm.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:error, error} = EchoMQ.Stream.put_back(bus, "shop", "reads", "EVT0NgWEfAER90")
      iex> error.code
      :gone
  """
  @spec put_back(Connector.conn(), String.t(), String.t(), Id.t()) :: {:ok, Id.t()} | {:error, Error.t()}
  def put_back(conn, queue, name, id) do
    with {:ok, client} <- Connector.client(conn) do
      Native.call(&Native.put_back(&1, client, queue, name, id))
    end
  end

  @doc """
  Lets go of old records and answers how many went.

  Nothing looks at who has read them. Fails with `:unknown_outcome` when the connection broke before the answer came;
  trimming again does no harm then.

      iex> {:ok, bus} = EchoMQ.Connector.start_link(url: url())
      iex> {:ok, _} = EchoMQ.Stream.append_batch(bus, "shop", "trim", [[n: "1"], [n: "2"], [n: "3"]])
      iex> EchoMQ.Stream.trim(bus, "shop", "trim", {:maxlen, 1, false})
      {:ok, 2}
      iex> EchoMQ.Stream.trim(bus, "shop", "trim", {:minid, DateTime.utc_now() |> DateTime.add(60), false})
      {:ok, 1}
  """
  @spec trim(Connector.conn(), String.t(), String.t(), window()) ::
          {:ok, non_neg_integer()} | {:error, Error.t()}
  def trim(conn, queue, name, {kind, keep}), do: trim(conn, queue, name, {kind, keep, true})

  def trim(conn, queue, name, {:maxlen, records, approximate?}) when is_boolean(approximate?) do
    with {:ok, client} <- Connector.client(conn) do
      Native.call(&Native.trim_max_len(&1, client, queue, name, records, not approximate?))
    end
  end

  def trim(conn, queue, name, {:minid, instant, approximate?}) when is_boolean(approximate?) do
    with {:ok, client} <- Connector.client(conn) do
      Native.call(&Native.trim_min_id(&1, client, queue, name, micros(instant), not approximate?))
    end
  end

  def trim(_conn, _queue, _name, window) do
    raise ArgumentError,
          "a window must be {:maxlen, count} or {:minid, instant}, with a boolean behind it or not, got: " <>
            inspect(window)
  end

  defp pair({id, _entry_id, fields}), do: {id, Map.new(fields)}
end
