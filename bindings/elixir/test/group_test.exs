defmodule EchoMQ.GroupTest do
  use EchoMQ.Test.Case, async: true

  alias EchoMQ.{Group, PullConsumer}
  alias EchoMQ.Stream, as: Bus

  setup %{queue: queue} do
    bus = connect!()
    {:ok, ids} = Bus.append_batch(bus, queue, "s", for(n <- 1..5, do: [n: "#{n}"]), atomic: true)
    %{bus: bus, ids: ids}
  end

  test "looking at groups", %{bus: bus, queue: queue, ids: ids} do
    assert Group.list(bus, queue, "s") == {:ok, []}
    assert Group.list(bus, queue, "none") == {:ok, []}
    assert code(Group.get(bus, queue, "s", "g")) == :no_group
    assert Group.create(bus, queue, "s", "g", :head) == {:ok, true}
    assert Group.create(bus, queue, "s", "g", :new) == {:ok, false}

    {:ok, consumer} =
      PullConsumer.start(bus, queue, "s", group: "g", group_start: :head, consumer: "c1", count: 2)

    {:ok, [_]} = PullConsumer.take(consumer, 1)
    PullConsumer.suspend(consumer)

    {:ok, group} = Group.get(bus, queue, "s", "g")
    {:ok, last} = EchoMQ.Stream.Id.to_entry(Enum.at(ids, group.pending - 1))
    assert %Group{name: "g", last_delivered: ^last, consumers: [%Group.Consumer{name: "c1"} = c1]} = group
    assert {c1.pending, group.lag} == {group.pending, 5 - group.pending}
    assert is_integer(c1.idle) and c1.idle >= 0
    assert {:ok, [%Group{name: "g"}]} = Group.list(bus, queue, "s")
  end

  test "a lag that is not known is nil", %{bus: bus, queue: queue, ids: ids} do
    {:ok, true} = Group.create(bus, queue, "s", "g", Enum.at(ids, 2))
    assert {:ok, %Group{lag: nil}} = Group.get(bus, queue, "s", "g")
  end

  test "moving a group", %{bus: bus, queue: queue, ids: ids} do
    {:ok, true} = Group.create(bus, queue, "s", "g", :new)
    assert Group.seek(bus, queue, "s", "g", Enum.at(ids, 3)) == :ok
    {:ok, consumer} = PullConsumer.start(bus, queue, "s", group: "g", group_start: :head)
    {:ok, [message]} = PullConsumer.take(consumer, 10)
    assert message.id == List.last(ids)
    assert Group.seek(bus, queue, "s", "g", ~U[2020-01-01 00:00:00Z]) == :ok
    {:ok, [again | _]} = PullConsumer.take(consumer, 10)
    assert again.id == hd(ids)
    assert code(Group.seek(bus, queue, "s", "none", :new)) == :no_group
    assert code(Group.seek(bus, queue, "s", "g", "middle")) == :malformed_id
    assert_raise ArgumentError, fn -> Group.seek(bus, queue, "s", "g", 5) end
  end

  test "removing consumers and groups", %{bus: bus, queue: queue, plain: plain} do
    {:ok, true} = Group.create(bus, queue, "s", "g", :head)
    key = "emq:{#{queue}}:stream:s"

    for name <- ["idle", "busy"] do
      1 = Plain.command(plain, ["XGROUP", "CREATECONSUMER", key, "g", name])
    end

    Plain.command(plain, ["XREADGROUP", "GROUP", "g", "busy", "COUNT", 2, "STREAMS", key, ">"])

    assert {:error, %Error{code: :state, message: message}} =
             Group.remove_consumer(bus, queue, "s", "g", "busy")

    assert message =~ "2"
    assert code(Group.remove_consumer(bus, queue, "s", "g", "none")) == :gone
    assert code(Group.remove_consumer(bus, queue, "s", "none", "busy")) == :no_group
    assert Group.sweep_consumers(bus, queue, "s", "g", 3_600_000) == {:ok, []}
    swept = Wait.until(fn -> with {:ok, []} <- Group.sweep_consumers(bus, queue, "s", "g", 0), do: nil end)
    assert swept == {:ok, ["idle"]}
    {:ok, group} = Group.get(bus, queue, "s", "g")
    assert [%{name: "busy", pending: 2}] = group.consumers
    Plain.command(plain, ["XGROUP", "CREATECONSUMER", key, "g", "idle"])
    assert Group.remove_consumer(bus, queue, "s", "g", "idle") == :ok
    assert Group.remove(bus, queue, "s", "g") == {:ok, true}
    assert Group.remove(bus, queue, "s", "g") == {:ok, false}
    assert Plain.command(plain, ["XINFO", "GROUPS", key]) == []
    assert code(Group.create(bus, queue, "s", "a:b", :new)) == :invalid_name
    assert_raise ArgumentError, fn -> Group.sweep_consumers(bus, queue, "s", "g", -1) end
  end
end
