defmodule EchoMQ.ErrorTest do
  use EchoMQ.Test.Case, async: true

  test "every code of the core, in its order, and no other" do
    assert Enum.map(Error.codes(), &Atom.to_string/1) == EchoMQ.Native.codes()
  end

  test "the type and its documentation name every code" do
    {:ok, types} = Code.Typespec.fetch_types(Error)
    [{:code, {:type, _, :union, words}, []}] = for {:type, {:code, _, _} = type} <- types, do: type
    assert Enum.sort(for {:atom, _, word} <- words, do: word) == Enum.sort(Error.codes())

    {:docs_v1, _, _, _, _, _, docs} = Code.fetch_docs(Error)
    [text] = for {{:type, :code, 0}, _, _, %{"en" => text}, _} <- docs, do: text
    documented = for [_, word] <- Regex.scan(~r/`:(\w+)`/, text), do: String.to_atom(word)
    assert Enum.sort(documented) == Enum.sort(Error.codes())
  end

  test "an error says its code, what was refused, and the key or name concerned" do
    {:error, error} = Keyspace.stream_key("orders", "a:b")
    assert %Error{code: :invalid_name, subject: "a:b", id: nil, top: nil} = error
    assert_raise Error, "invalid_name: #{error.message} (a:b)", fn -> raise error end
  end
end
