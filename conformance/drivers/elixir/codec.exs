defmodule EchoMQ.Driver.Codec do
  # A line's fields: percent-encoded bytes between tabs, groups between bars.

  def fields(line), do: :binary.split(line, "\t", [:global])

  def groups(fields) do
    Enum.chunk_while(
      fields,
      [],
      fn
        "|", group -> {:cont, Enum.reverse(group), []}
        field, group -> {:cont, [field | group]}
      end,
      fn group -> {:cont, Enum.reverse(group), []} end
    )
  end

  def decode("%"), do: ""

  def decode(field) do
    [plain | escaped] = :binary.split(field, "%", [:global])
    rest = for <<hex::binary-size(2), text::binary>> <- escaped, do: [Base.decode16!(hex, case: :mixed), text]
    IO.iodata_to_binary([plain | rest])
  end

  def encode(""), do: "%"
  def encode(bytes), do: URI.encode(bytes, &(&1 in ?!..?~ and &1 not in [?%, ?|]))

  def line(number, verdict, groups) do
    groups = groups |> Enum.map(&Enum.map(&1, fn value -> encode(to_string(value)) end)) |> Enum.intersperse(["|"])
    [Enum.intersperse([number, verdict | Enum.concat(groups)], "\t"), "\n"]
  end
end
