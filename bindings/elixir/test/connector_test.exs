defmodule EchoMQ.ConnectorTest do
  use EchoMQ.Test.Case, async: true

  import ExUnit.CaptureLog

  alias EchoMQ.Test.Reports

  @options ~w(username password database client_name node_id node_lease on_node_conflict timeout connect connect_timeout reconnect_min reconnect_max
              heartbeat max_record_bytes max_in_flight max_in_flight_bytes max_clock_ahead protocol claim_version tls_ca tls_certificate tls_key clock)

  describe "options" do
    test "every option of the core is documented" do
      assert EchoMQ.Native.option_names() == @options
      {:docs_v1, _, _, _, %{"en" => text}, _, _} = Code.fetch_docs(Connector)
      rows = for "| `" <> row <- String.split(text, "\n"), do: hd(String.split(row, "|"))
      assert for(row <- rows, [_, name] <- Regex.scan(~r/:(\w+)/, row), do: name) == @options
    end

    test "are taken by name", %{plain: plain} do
      connect!(client_name: "by-name", database: 2, protocol: 2, timeout: 2_000, max_clock_ahead: :none)
      assert Plain.command(plain, ["CLIENT", "LIST"]) =~ ~r/name=by-name .*db=2 .*resp=2/
    end

    test "an unknown one, a bad value and a bad URL are refused by name" do
      assert {:error, %Error{code: :invalid_option, subject: "timeuot"}} =
               Connector.start_link(url: url(), timeuot: 1)

      assert {:error, %Error{code: :invalid_option, subject: "node_id"}} =
               Connector.start_link(url: url(), node_id: 70_000)

      assert code(Connector.start_link(url: "http://localhost")) == :invalid_option
      assert code(Connector.start_link(url: "redis://localhost?nope=1")) == :invalid_option
    end

    test "values of a wrong type raise and are not shown" do
      assert_raise ArgumentError, "the option :url must be text or a whole number", fn ->
        Connector.start_link(node_id: 1)
      end

      for wrong <- [nil, true, 1.5, 'secret', ["secret"], %{}] do
        assert_raise ArgumentError, "the option :password must be text or a whole number", fn ->
          Connector.start_link(url: url(), password: wrong)
        end
      end

      assert_raise ArgumentError, ~r/keyword list/, fn -> Connector.start_link(%{url: url()}) end
      assert_raise ArgumentError, ~r/keyword list/, fn -> Connector.start_link([:url]) end
    end

    test "may come from a function" do
      {:ok, bus} = Connector.start_link(fn -> [url: url()] end)
      assert Connector.command(bus, ["PING"]) == {:ok, "PONG"}
    end
  end

  describe "starting" do
    test "fails where no server is" do
      {:ok, socket} = :gen_tcp.listen(0, ip: {127, 0, 0, 1})
      {:ok, tcp_port} = :inet.port(socket)
      :gen_tcp.close(socket)

      for connect <- [:once, :wait] do
        assert {:error, %Error{code: :disconnected}} =
                 Connector.start_link(
                   url: "redis://u:secret@127.0.0.1:#{tcp_port}",
                   connect: connect,
                   connect_timeout: 500
                 )
      end
    end

    test "fails with a wrong password, which no text and no report shows" do
      Process.flag(:trap_exit, true)
      server = Server.start(["--requirepass", "right"])
      on_exit(fn -> Server.remove(server) end)

      log =
        Reports.capture(~r/start_error.*start: {EchoMQ.Connector|mfargs: {EchoMQ.Connector/s, fn ->
          wrong = [url: Server.url(server, ":secret@"), password: "secret"]
          assert {:error, %Error{code: :auth} = error} = Connector.start_link(wrong)
          refute Exception.message(error) =~ "secret"

          assert {:error, {:shutdown, _}} =
                   Supervisor.start_link([{Connector, [connect: :once] ++ wrong}], strategy: :one_for_one)
        end)

      assert log =~ "EchoMQ.Connector"
      refute log =~ "secret"
      assert {:ok, bus} = Connector.start_link(url: Server.url(server), password: "right")
      assert Connector.command(bus, ["PING"]) == {:ok, "PONG"}
    end

    test "refuses commands that would change the connection of all callers" do
      bus = connect!()

      for text <- ["SUBSCRIBE c", "MONITOR", "SELECT 1", "MULTI", "CLIENT REPLY OFF", "HELLO 2", "BLPOP k 0"] do
        assert {:error, %Error{code: :invalid_option}} = Connector.command(bus, String.split(text))

        assert {:error, %Error{code: :invalid_option}} =
                 Connector.pipeline(bus, [["PING"], String.split(text)])

        assert Connector.command(bus, ["ECHO", text]) == {:ok, text}
      end
    end

    test "fails where the deployment speaks another version, and marks one where that is asked for" do
      Process.flag(:trap_exit, true)
      server = Server.start()
      on_exit(fn -> Server.remove(server) end)
      {:ok, plain} = Plain.connect(server.tcp_port)
      {:ok, _} = Connector.start_link(url: Server.url(server))
      assert Plain.command(plain, ["GET", "{emq}:version"]) == nil
      {:ok, _} = Connector.start_link(url: Server.url(server), claim_version: "echomq:3.0.0")
      assert Plain.command(plain, ["GET", "{emq}:version"]) == "echomq:3.0.0"
      Plain.command(plain, ["SET", "{emq}:version", "echomq:4.0.0"])

      capture_log(fn ->
        assert {:error, %Error{code: :version_fence} = error} = Connector.start_link(url: Server.url(server))
        assert error.message =~ "echomq:4.0.0"
      end)
    end

    test "asks a function for the password each time" do
      server = Server.start(["--requirepass", "first"])
      on_exit(fn -> Server.remove(server) end)
      {:ok, password} = Agent.start_link(fn -> "first" end)
      ask = fn -> Agent.get(password, & &1) end

      {:ok, bus} =
        Connector.start_link(url: Server.url(server), password: ask, timeout: 60_000, reconnect_max: 50)

      {:ok, plain} = Plain.connect(server.tcp_port)
      "OK" = Plain.command(plain, ["AUTH", "first"])
      "OK" = Plain.command(plain, ["CONFIG", "SET", "requirepass", "second"])
      Agent.update(password, fn _ -> "second" end)
      {:ok, %{reconnects: before}} = Connector.status(bus)
      assert Plain.command(plain, ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]) >= 1
      # A command that leaves before the end is noticed may be lost.
      Wait.until(fn -> match?({:ok, %{reconnects: now}} when now > before, Connector.status(bus)) end)
      assert Connector.command(bus, ["ECHO", "again"]) == {:ok, "again"}
      assert Connector.close(bus, 60_000) == {:ok, 0}

      log =
        capture_log(fn ->
          for wrong <- [
                fn -> raise "secret" end,
                fn -> :secret end,
                fn -> exit(:secret) end,
                fn -> "secret" end
              ] do
            options = [url: Server.url(server), password: wrong, connect: :once]
            assert {:error, %Error{code: :auth} = error} = Connector.start_link(options)
            refute Exception.message(error) =~ "secret"
          end
        end)

      refute log =~ "secret"
    end

    test "registers a name of any kind" do
      registry = Module.concat(__MODULE__, Names)
      start_supervised!({Registry, keys: :unique, name: registry})

      for name <- [__MODULE__.Bus, {:global, make_ref()}, {:via, Registry, {registry, "bus"}}] do
        {:ok, bus} = Connector.start_link(url: url(), name: name)
        assert GenServer.whereis(name) == bus
        assert Connector.command(name, ["PING"]) == {:ok, "PONG"}
        assert Connector.close(name, 5_000) == {:ok, 0}
        assert code(Connector.command(name, ["PING"])) == :closed
      end
    end

    test "what is no connector raises" do
      for wrong <- ["bus", 1, {:bus, node()}, [self()]] do
        assert_raise ArgumentError, ~r/pid or a name/, fn -> Connector.command(wrong, ["PING"]) end
      end

      assert code(Connector.status(self())) == :closed
      assert code(Connector.mint(nil)) == :closed
    end

    test "under a supervisor, which starts it again" do
      name = __MODULE__.Supervised
      start_supervised!({Connector, url: url(), name: name, node_id: 1})
      first = Process.whereis(name)
      Process.exit(first, :kill)

      Wait.until(fn ->
        process = Process.whereis(name)
        process != first and match?({:ok, "PONG"}, process && Connector.command(name, ["PING"]))
      end)
    end
  end

  describe "ids" do
    test "are made by the node, each above the one before, whichever connector makes them" do
      buses = for _ <- 1..10, do: connect!(node_id: 77)
      ids = for _ <- 1..50, bus <- buses, {:ok, id} = Connector.mint(bus), do: id
      assert ids == Enum.sort(ids) and ids == Enum.uniq(ids)
      assert {:ok, %EchoMQ.Stream.Id{node: 77}} = EchoMQ.Stream.Id.decode(hd(ids))
    end

    test "need no node id: each connector leases one" do
      nodes =
        for _ <- 1..3 do
          {:ok, bus} = Connector.start_link(url: url())
          {:ok, id} = Connector.mint(bus)
          {:ok, %EchoMQ.Stream.Id{node: node}} = EchoMQ.Stream.Id.decode(id)
          node
        end

      assert nodes == Enum.uniq(nodes)
    end
  end

  describe "commands" do
    setup %{queue: queue} do
      %{bus: connect!(), key: "plain:#{queue}"}
    end

    test "answer every kind of reply, the same under both protocols", %{key: key} do
      for protocol <- [2, 3] do
        bus = connect!(protocol: protocol)
        assert Connector.command(bus, ["DEL", key]) |> elem(0) == :ok
        assert Connector.command(bus, ["GET", key]) == {:ok, nil}
        assert Connector.command(bus, ["SET", key, [<<0, 255>>, ["\r\n"], ?x]]) == {:ok, "OK"}
        assert Connector.command(bus, ["GET", key]) == {:ok, <<0, 255, "\r\nx">>}
        assert Connector.command(bus, ["GETRANGE", key, 0, 1]) == {:ok, <<0, 255>>}
        assert Connector.command(bus, ["EVAL", "return {1, {'a'}, false}", 0]) == {:ok, [1, ["a"], nil]}
        assert Connector.command(bus, ["INCRBY", key <> ":n", -7]) == {:ok, -7}
        assert Connector.command(bus, ["DEL", key <> ":n"]) == {:ok, 1}
      end
    end

    test "answer what only RESP3 knows", %{bus: bus, key: key} do
      {:ok, 1} = Connector.command(bus, ["HSET", key, "a", 1])
      assert Connector.command(bus, ["HGETALL", key]) == {:ok, [{"a", "1"}]}
      {:ok, 3} = Connector.command(bus, ["ZADD", key <> ":z", "1.5", "x", "inf", "y", "-inf", "z"])
      assert Connector.command(bus, ["ZSCORE", key <> ":z", "x"]) == {:ok, 1.5}
      assert Connector.command(bus, ["ZSCORE", key <> ":z", "y"]) == {:ok, :infinity}
      assert Connector.command(bus, ["ZSCORE", key <> ":z", "z"]) == {:ok, :negative_infinity}
      assert Connector.command(bus, ["EVAL", "redis.setresp(3); return true", 0]) == {:ok, true}
    end

    test "answer the server's errors by code", %{bus: bus, key: key} do
      assert {:error, %Error{code: :server, message: message}} = Connector.command(bus, ["NO-SUCH"])
      assert message =~ "NO-SUCH"
      assert code(Connector.command(bus, [])) == :invalid_option
      assert code(Connector.pipeline(bus, [])) == :invalid_option

      assert {:ok, [{:ok, "OK"}, {:error, %Error{code: :wrong_type}}, {:ok, "v"}]} =
               Connector.pipeline(bus, [["SET", key, "v"], ["XLEN", key], ["GET", key]])
    end

    test "of a wrong type raise", %{bus: bus} do
      for wrong <- ["PING", :ping, %{}, ["GET" | "k"], ["GET", :k], ["GET", 1.5], ["GET", [256]]] do
        assert_raise ArgumentError, fn -> Connector.command(bus, wrong) end
        assert_raise ArgumentError, fn -> Connector.pipeline(bus, [wrong]) end
      end

      assert_raise ArgumentError, ~r/timeout/, fn -> Connector.command(bus, ["PING"], -1) end
      assert_raise ArgumentError, fn -> Connector.command(bus, [:wrong], 1_000) end
      assert mailbox() == []
    end
  end
end
