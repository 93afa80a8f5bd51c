defmodule EchoMQ.WritersTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.{Connector, Events}
  alias EchoMQ.Stream, as: Bus

  @job "JOB000xY9Wvvcd"
  # Far behind the server's clock: what it mints never stands above what another has appended. A leased node would begin above
  # whatever its last holder minted, so it gets one of its own.
  @past 1_735_689_600_000

  setup do
    {:ok, near} = Connector.start_link(url: url())
    {:ok, behind} = Connector.start_link(url: url(), clock: @past, node_id: 1_000)
    %{near: near, behind: behind}
  end

  defp ids(plain, queue), do: for({_, ["id", id | _]} <- entries(plain, queue, "s"), do: id)

  test "a handle of one writer is refused where another is ahead", context do
    %{near: near, behind: behind, plain: plain, queue: queue} = context
    {:ok, first} = near |> Bus.new(queue, "s") |> Bus.append(n: "1")
    one = Bus.new(behind, queue, "s", writers: :one)
    assert code(Bus.append(one, n: "2")) == :nonmonotonic
    assert {:ok, [{:error, %Error{code: :nonmonotonic}}]} = Bus.append_batch(one, [[n: "2"]])
    assert code(Bus.append_batch(one, [[n: "2"]], atomic: true)) == :nonmonotonic
    assert code(Bus.append_and_publish(one, [n: "2"], "added", @job)) == :nonmonotonic
    assert {:error, %Error{retryable: false, cause: nil}} = Bus.append(one, n: "2")
    assert ids(plain, queue) == [first]
  end

  test "every append of a handle of many writers is sequenced", context do
    %{near: near, behind: behind, plain: plain, queue: queue} = context
    many = Bus.new(behind, queue, "s", writers: :many)
    {:ok, one} = near |> Bus.new(queue, "s", writers: :many) |> Bus.append(n: "1")
    {:ok, two} = Bus.append(many, n: "2")
    {:ok, results} = Bus.append_batch(many, [[n: "3"], [id: "4"], [n: "5"]])
    assert [{:ok, three}, {:error, %Error{code: :reserved_field}}, {:ok, five}] = results
    {:ok, [six]} = Bus.append_batch(many, [[n: "6"]], atomic: true)
    {:ok, [seven]} = Bus.append_batch(many, [[n: "7"]], sequenced: true)
    :ok = Events.subscribe(near, queue)
    {:ok, announced} = Bus.append_and_publish(many, [n: "8"], :added, @job, by: "ada")
    assert announced.published == {:ok, 1}
    assert_receive {:emq_event, "added", %{"stream" => "s", "id" => id, "by" => "ada"}}, 60_000
    assert id == announced.id
    {:ok, nine} = Events.append_sequenced_and_publish(behind, queue, "s", [n: "9"], :added, @job)
    assert ids(plain, queue) == [one, two, three, five, six, seven, id, nine.id]
    assert ids(plain, queue) == Enum.sort(ids(plain, queue))
    # An id of the caller's is what it is.
    assert code(Bus.append_id(many, one, n: "again")) == :nonmonotonic
  end

  test "several processes of several connectors take turns at one stream", %{plain: plain, queue: queue} do
    writers =
      for writer <- 1..4 do
        {:ok, bus} = Connector.start_link(url: url())
        stream = Bus.new(bus, queue, "s", writers: :many)

        for process <- 1..3 do
          Task.async(fn ->
            for n <- 1..50, do: {:ok, _} = Bus.append(stream, writer: "#{writer}.#{process}", n: "#{n}")
          end)
        end
      end

    answered = writers |> Enum.concat() |> Task.await_many(:infinity) |> Enum.concat()
    assert Enum.sort(for {:ok, id} <- answered, do: id) == ids(plain, queue)
    assert length(answered) == 600
  end

  test "what is no handle and no option is refused", %{near: near, queue: queue} do
    for wrong <- [[writers: :two], [writers: "many"], [writer: :many]] do
      assert_raise ArgumentError, fn -> Bus.new(near, queue, "s", wrong) end
    end

    assert code(near |> Bus.new("a:b", "s") |> Bus.append(n: "1")) == :invalid_name
    assert code(near |> Bus.new(queue, "s:t", writers: :many) |> Bus.append(n: "1")) == :invalid_name
    assert code(:nobody |> Bus.new(queue, "s") |> Bus.append(n: "1")) == :closed
  end

  test "who holds which node is told", %{queue: queue} do
    {:ok, reader} = Connector.start_link(url: url(), client_name: queue <> "-reader")
    {:ok, _} = Bus.read(reader, queue, "s")

    nodes =
      for n <- 1..3 do
        {:ok, bus} = Connector.start_link(url: url(), client_name: "#{queue}-#{n}")
        {:ok, id} = bus |> Bus.new(queue, "s", writers: :many) |> Bus.append(n: "#{n}")
        {:ok, leases} = Connector.nodes(bus)
        [lease] = Enum.filter(leases, &(&1.client_name == "#{queue}-#{n}"))
        assert lease.process == System.pid() and lease.left in 1..30_000 and byte_size(lease.owner) == 26
        assert lease.host == to_string(elem(:inet.gethostname(), 1))
        assert is_binary(id)
        if n == 3, do: assert({:ok, _} = Connector.close(bus, 60_000))
        lease.node
      end

    assert nodes == Enum.uniq(nodes)
    {:ok, leases} = Connector.nodes(reader)
    ours = for %{client_name: name} <- leases, String.starts_with?(name, queue <> "-"), do: name
    # One that only reads has none, and one that has ended has given it back.
    assert Enum.sort(ours) == ["#{queue}-1", "#{queue}-2"]
  end
end
