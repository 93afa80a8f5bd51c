"""One writer of a stream, or many."""

import asyncio

import echomq
import pytest

JOB = "JOB000xY9Wvvcd"
AHEAD_MS = 20_000


def put_top(client, stream):
    """Another writer's record, so far ahead that no id made here is above it."""
    seconds, _ = client.command("TIME")
    client.command("XADD", stream.key, str(int(seconds) * 1000 + AHEAD_MS), "k", "foreign")


def test_a_stream_of_many_writers_has_all_its_appends_sequenced(client, name):
    one, many = client.stream("tests", name), client.stream("tests", name, writers="many")
    put_top(client, one)
    for append in (
        lambda stream: stream.append({"n": "1"}),
        lambda stream: stream.append_and_publish({"n": "2"}, "noted", JOB).id,
        lambda stream: stream.append_batch([{"n": "3"}], atomic=True)[0],
    ):
        with pytest.raises(echomq.NonmonotonicError, match="many"):
            append(one)
        assert echomq.Id(append(many)).node == 1023
    refused, kept = many.append_batch([{"id": "x"}, {"n": "4"}])
    assert isinstance(refused, echomq.ReservedFieldError)
    assert echomq.Id(kept).node == 1023
    assert [record.get("n") for record in one.read() if record.id] == ["1", "2", "3", "4"]


def test_the_same_in_an_event_loop(client, url, name):
    put_top(client, client.stream("tests", name))

    async def appended():
        async with echomq.aio.Client(url) as own:
            stream = own.stream("tests", name, writers="many")
            announced = await stream.append_and_publish({}, "noted", JOB)
            return [await stream.append({}), announced.id, *await stream.append_batch([{}, {}])]

    assert [echomq.Id(id).node for id in asyncio.run(appended())] == [1023] * 4


def test_other_writers_are_refused(client, name):
    with pytest.raises(echomq.InvalidOptionError, match="`one` or `many`"):
        client.stream("tests", name, writers="two")
