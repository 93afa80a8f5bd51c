# The Elixir driver of the conformance suite. It takes orders from the judge, a line each, carries them out as a user of
# EchoMQ would, and answers with a line. It judges nothing.
Code.require_file("codec.exs", __DIR__)
Code.require_file("waits.exs", __DIR__)
Code.require_file("listeners.exs", __DIR__)
Code.require_file("readers.exs", __DIR__)

defmodule EchoMQ.Driver do
  alias EchoMQ.{Cancel, Connector, Error, Events, Group, Keyspace, Stream}
  alias EchoMQ.Driver.{Codec, Listeners, Readers}
  alias EchoMQ.Stream.Id

  # What is done with a connection, whose handle is the first argument.
  @on_handle ~w(mint append_id append_sequenced read read_window read_since read_last trim group.info
                publish progress cancel nodes)

  # How long a connection may take to end, in milliseconds.
  @closing 10_000

  def main do
    # A connector that fails to start would end this process too.
    Process.flag(:trap_exit, true)
    # Standard output is for answers alone.
    for %{id: handler} <- :logger.get_handler_config(), do: :logger.remove_handler(handler)
    :ok = :logger.add_handler(:default, :logger_std_h, %{level: :warning, config: %{type: :standard_error}})
    {:ok, _} = Application.ensure_all_started(:echo_mq)
    listen(Port.open({:fd, 0, 1}, [:binary, :eof, line: 65_536]), [], %{readers: %{}, listeners: %{}, many: %{}})
  end

  defp listen(port, line, handles) do
    receive do
      {^port, {:data, {:noeol, part}}} ->
        listen(port, [line | part], handles)

      {^port, {:data, {:eol, part}}} ->
        [number, op | fields] = Codec.fields(IO.iodata_to_binary([line | part]))
        {answer, handles} = carry_out(op, fields, handles)
        Port.command(port, told(number, answer))
        listen(port, [], handles)

      {^port, :eof} ->
        :ok

      {:EXIT, _connector, _reason} ->
        listen(port, line, handles)
    end
  end

  defp told(number, :unsupported), do: Codec.line(number, "unsupported", [])
  defp told(number, {:groups, groups}), do: Codec.line(number, "ok", groups)
  defp told(number, {:ok, value}), do: Codec.line(number, "ok", [[value]])
  defp told(number, {:error, error}), do: Codec.line(number, "err", [failure(error)])
  defp told(number, values) when is_list(values), do: Codec.line(number, "ok", [values])

  defp failure(error), do: [error.code, error.message <> if(error.subject, do: " (#{error.subject})", else: "")]

  defp carry_out(op, fields, handles) do
    obey(op, fields, handles)
  rescue
    error in Error -> {{:error, error}, handles}
    error -> {{:error, %Error{code: :invalid_option, message: Exception.message(error)}}, handles}
  end

  defp obey("open", fields, handles) do
    [handle, url | options] = Enum.map(fields, &Codec.decode/1)
    {_, handles} = close(handle, handles)
    {many, options} = options |> Enum.map(&option/1) |> Keyword.split([:many])

    case Connector.start_link([url: url] ++ options) do
      {:ok, bus} -> {[], %{handles | many: Map.put(handles.many, bus, many != [])} |> Map.put(handle, bus)}
      {:error, error} -> {{:error, error}, handles}
    end
  end

  defp obey("close", [handle], handles) do
    handle = Codec.decode(handle)
    _ = bus(handles, handle)
    close(handle, handles)
  end

  # The records of a batch are told apart before they are decoded.
  defp obey("append_batch" <> kind, [handle, queue, name | fields], handles) when kind in ["", "_atomic", "_sequenced"] do
    [handle, queue, name] = Enum.map([handle, queue, name], &Codec.decode/1)
    records = for group <- Codec.groups(fields), do: pairs(Enum.map(group, &Codec.decode/1))
    options = if kind == "_sequenced", do: [sequenced: true], else: [atomic: kind == "_atomic"]
    answer = handles |> stream(handle, queue, name) |> Stream.append_batch(records, options)

    with {:ok, results} <- answer do
      {{:groups, Enum.map(results, &result/1)}, handles}
    else
      error -> {error, handles}
    end
  end

  defp obey(op, fields, handles) do
    case {op, Enum.map(fields, &Codec.decode/1)} do
      {"append", [handle, queue, name | fields]} ->
        {handles |> stream(handle, queue, name) |> Stream.append(pairs(fields)), handles}

      {"append_and_publish", [handle, queue, name, event, job | fields]} ->
        stream = stream(handles, handle, queue, name)
        answer = Stream.append_and_publish(stream, pairs(fields), event, job)
        {with({:ok, announced} <- answer, do: {:ok, announced.id}), handles}

      {op, [handle | arguments]} when op in @on_handle ->
        {call(op, bus(handles, handle), arguments), handles}

      {op, [name, handle | arguments]} when op in ["tail", "consumer"] ->
        with {:ok, readers} <- Readers.open(handles.readers, op, name, bus(handles, handle), arguments) do
          {[], %{handles | readers: readers}}
        else
          # What had the name is closed all the same.
          error -> {error, %{handles | readers: Map.delete(handles.readers, name)}}
        end

      {"next_cancelled", [name | arguments]} when is_map_key(handles.listeners, name) ->
        {Listeners.obey(handles.listeners, "next_cancelled", name, arguments), handles}

      {op, [name | arguments]} when op in ["next", "next_cancelled", "ack", "fail", "stop"] ->
        {answer, readers} = Readers.obey(handles.readers, op, name, arguments)
        {answer, %{handles | readers: readers}}

      {op, [name, handle | arguments]} when op in ["listen", "watch"] ->
        with {:ok, listeners} <- Listeners.open(handles.listeners, op, name, bus(handles, handle), arguments) do
          {[], %{handles | listeners: listeners}}
        else
          # What had the name is closed all the same.
          error -> {error, %{handles | listeners: Map.delete(handles.listeners, name)}}
        end

      {op, [name | arguments]} when op in ["event", "cancelled"] ->
        {Listeners.obey(handles.listeners, op, name, arguments), handles}

      {op, arguments} ->
        {call(op, arguments), handles}
    end
  end

  defp call("hello", []), do: ["elixir", EchoMQ.version(), EchoMQ.core_version()]

  defp call("id.decode", [id]) do
    with {:ok, parts} <- Id.decode(id) do
      [parts.namespace, parts.snowflake, parts.unix_ms, parts.node, parts.sequence, parts.entry_id || ""]
    end
  end

  defp call("id.encode", [namespace, snowflake]), do: Id.encode(namespace, number(snowflake))
  defp call("id.from_entry", [entry_id]), do: Id.from_entry(entry_id)

  defp call("key", [queue, type]) do
    with {:ok, key} <- Keyspace.key(queue, type), do: [key, Keyspace.slot(key)]
  end

  defp call(_op, _arguments), do: :unsupported

  defp call("mint", bus, [count]) do
    for _ <- 1..number(count)//1 do
      case Connector.mint(bus) do
        {:ok, id} -> id
        {:error, error} -> raise error
      end
    end
  end

  defp call("append_sequenced", bus, [queue, name | fields]), do: Stream.append_sequenced(bus, queue, name, pairs(fields))
  defp call("append_id", bus, [queue, name, id | fields]), do: Stream.append_id(bus, queue, name, id, pairs(fields))

  defp call("read", bus, [queue, name, from, to, count]) do
    told_records(Stream.records(bus, queue, name, from, to, count(count)))
  end

  defp call("read_window", bus, [queue, name, first, last, count]) do
    lazily(bus, queue, name, window: {instant(first), instant(last)}, count: count(count))
  end

  defp call("read_since", bus, [queue, name, first, count]) do
    lazily(bus, queue, name, since: instant(first), count: count(count))
  end

  defp call("read_last", bus, [queue, name, count]), do: lazily(bus, queue, name, last: number(count))

  defp call("trim", bus, [queue, name, "maxlen", records, how]) do
    Stream.trim(bus, queue, name, {:maxlen, number(records), how == "approx"})
  end

  defp call("trim", bus, [queue, name, "minid", ms, how]) do
    Stream.trim(bus, queue, name, {:minid, instant(ms), how == "approx"})
  end

  defp call("group.info", bus, [queue, name, group]) do
    with {:ok, group} <- Group.get(bus, queue, name, group) do
      [group.pending, group.lag || "" | Enum.map(group.consumers, & &1.name)]
    end
  end

  defp call("publish", bus, [queue, event, job | extra]) do
    with {:ok, _listening} <- Events.publish(bus, queue, event, job, pairs(extra)), do: []
  end

  defp call("progress", bus, [queue, job, value]) do
    with {:ok, _listening} <- Events.update_progress(bus, queue, job, value), do: []
  end

  defp call("cancel", bus, [queue, job, reason]) do
    with {:ok, _listening} <- Cancel.cancel(bus, queue, job, reason), do: []
  end

  defp call("nodes", bus, []) do
    with {:ok, nodes} <- Connector.nodes(bus) do
      {:groups, for(lease <- nodes, do: [lease.node, lease.owner, lease.left])}
    end
  end

  defp lazily(bus, queue, name, what) do
    told_records({:ok, Enum.to_list(Stream.stream(bus, queue, name, what))})
  end

  defp told_records({:ok, records}) do
    {:groups,
     for record <- records do
       [record.id || "", record.entry_id | Enum.flat_map(record.fields, &Tuple.to_list/1)]
     end}
  end

  defp told_records(error), do: error

  defp result({:ok, id}), do: ["ok", id]
  defp result({:error, error}), do: ["err" | failure(error)]
  defp result(id), do: ["ok", id]

  defp bus(handles, handle) do
    Map.get(handles, handle) || raise Error, code: :closed, message: "no connection is named #{handle}"
  end

  # A stream whose appends are sequenced, where the connection was opened so.
  defp stream(handles, handle, queue, name) do
    bus = bus(handles, handle)
    writers = if handles.many[bus], do: :many, else: :one
    Stream.new(bus, queue, name, writers: writers)
  end

  defp close(handle, handles) do
    {bus, handles} = Map.pop(handles, handle)
    if bus, do: {:ok, _} = Connector.close(bus, @closing)
    {[], handles}
  end

  defp option("node=" <> node), do: {:node_id, node}
  defp option("many=" <> _), do: {:many, true}
  defp option("clock=" <> ms), do: {:clock, ms}
  defp option("fence=" <> version), do: {:claim_version, version}

  defp pairs(fields) do
    for [name, value] <- Enum.chunk_every(fields, 2), do: {name, value}
  end

  defp number(text), do: String.to_integer(text)
  defp count("0"), do: :all
  defp count(text), do: number(text)
  defp instant(ms), do: DateTime.from_unix!(number(ms), :millisecond)
end

EchoMQ.Driver.main()
