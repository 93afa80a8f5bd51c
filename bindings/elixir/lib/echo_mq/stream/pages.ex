defmodule EchoMQ.Stream.Pages do
  @moduledoc false
  # Opening readers of a stream, and asking them for their pages.

  alias EchoMQ.{Connector, Native, Record}

  @doc false
  def next(reader) do
    case told!(Native.call(&Native.next_page(&1, reader))) do
      nil -> {:halt, reader}
      page -> {Enum.map(page, &Record.new/1), reader}
    end
  end

  @doc false
  def told!({:ok, value}), do: value
  def told!({:error, error}), do: raise(error)

  @doc false
  def opening(conn, queue, name, options) do
    unless Keyword.keyword?(options),
      do: raise(ArgumentError, "the options of a stream must be a keyword list")

    {count, options} = Keyword.pop(options, :count, :all)
    {records, options} = Keyword.pop(options, :page_size, :all)
    {bytes, what} = Keyword.pop(options, :page_bytes, :all)
    page = {records, bytes}

    case what do
      [window: {first, last}] ->
        fn -> window(conn, queue, name, first, last, count, page) end

      [since: first] ->
        fn -> since(conn, queue, name, first, count, page) end

      [last: records] when count == :all ->
        fn -> last(conn, queue, name, records, page) end

      ends ->
        ends = Keyword.validate!(ends, from: "-", to: "+")
        fn -> range(conn, queue, name, ends[:from], ends[:to], count, page) end
    end
  end

  @doc false
  def range(conn, queue, name, from, to, count, page) do
    with {:ok, client} <- Connector.client(conn),
         do: Native.read(client, queue, name, {from, to}, count, page)
  end

  @doc false
  def window(conn, queue, name, first, last, count, page) do
    with {:ok, client} <- Connector.client(conn) do
      Native.read_window(client, queue, name, {micros(first), micros(last)}, count, page)
    end
  end

  @doc false
  def since(conn, queue, name, first, count, page) do
    with {:ok, client} <- Connector.client(conn) do
      Native.read_since(client, queue, name, micros(first), count, page)
    end
  end

  @doc false
  def last(conn, queue, name, records, page) do
    with {:ok, client} <- Connector.client(conn), do: Native.read_last(client, queue, name, records, page)
  end

  @doc false
  # The whole of a reader as one list, each entry converted.
  def collect(opened, convert, pages \\ []) do
    with {:ok, reader} <- opened, {:ok, page} <- Native.call(&Native.next_page(&1, reader)) do
      case page do
        nil -> {:ok, pages |> Enum.reverse() |> Enum.concat()}
        page -> collect(opened, convert, [Enum.map(page, convert) | pages])
      end
    end
  end

  @doc false
  def micros(%DateTime{} = instant), do: DateTime.to_unix(instant, :microsecond)

  def micros(other) do
    raise ArgumentError, "an instant must be a DateTime, got: #{inspect(other)}"
  end
end
