defmodule EchoMQ.Test.Plain do
  import Bitwise

  @moduledoc "A plain client of the server's, of nothing but a socket: the tests look at the keys with it."

  @doc "Connects; the socket ends with the calling process."
  def connect(tcp_port) do
    :gen_tcp.connect({127, 0, 0, 1}, tcp_port, [:binary, active: false, packet: :line, buffer: 1 <<< 16])
  end

  @doc "Sends one command and answers its reply: text, number, list or nil; an error reply as `{:error, text}`."
  def command(socket, parts) do
    words = for part <- parts, part = to_string(part), do: ["$#{byte_size(part)}\r\n", part, "\r\n"]
    :ok = :gen_tcp.send(socket, ["*#{length(words)}\r\n", words])
    reply(socket)
  end

  @doc "Subscribes to a channel; `heard/1` is for this socket alone then."
  def listen(socket, channel) do
    ["subscribe", ^channel, 1] = command(socket, ["SUBSCRIBE", channel])
    socket
  end

  @doc "Waits for the next payload on the channel that the socket listens to."
  def heard(socket) do
    ["message", _channel, payload] = reply(socket)
    payload
  end

  defp reply(socket) do
    {:ok, <<kind, line::binary>>} = :gen_tcp.recv(socket, 0)
    line = String.trim_trailing(line, "\r\n")

    case {kind, line} do
      {?+, text} -> text
      {?-, text} -> {:error, text}
      {?:, number} -> String.to_integer(number)
      {?$, "-1"} -> nil
      {?$, size} -> text(socket, String.to_integer(size))
      {?*, "-1"} -> nil
      {?*, "0"} -> []
      {?*, size} -> for _ <- 1..String.to_integer(size), do: reply(socket)
    end
  end

  defp text(socket, size) do
    :ok = :inet.setopts(socket, packet: :raw)
    {:ok, <<text::binary-size(size), "\r\n">>} = :gen_tcp.recv(socket, size + 2)
    :ok = :inet.setopts(socket, packet: :line)
    text
  end
end
