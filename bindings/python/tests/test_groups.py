"""Groups and dead letters, seen through a plain client, with both kinds of streams."""

import asyncio
from datetime import timedelta

import echomq
import pytest
from consuming import numbered
from waiting import wait_until

HOUR = timedelta(hours=1)


@pytest.fixture(params=["waiting", "asyncio"])
def call(request, url, name):
    """Calls a method of a stream of either kind."""
    if request.param == "waiting":
        with echomq.Client(url, node_id=7) as client:
            stream = client.stream("tests", name)
            yield lambda method, *arguments, **options: getattr(stream, method)(*arguments, **options)
        return
    with asyncio.Runner() as runner:
        client = echomq.aio.Client(url, node_id=7)

        async def asynchronous(method, arguments, options):
            await client
            return await getattr(client.stream("tests", name), method)(*arguments, **options)

        yield lambda method, *arguments, **options: runner.run(asynchronous(method, arguments, options))
        runner.run(asynchronous_close(client))


async def asynchronous_close(client):
    await client.close()


def test_making_looking_and_removing(call, plain, key):
    assert call("groups") == []
    with pytest.raises(echomq.NoGroupError):
        call("group", "g")
    assert call("create_group", "g", "head") is True
    assert call("create_group", "g", "new") is False
    first, second = call("append_batch", numbered(2))
    plain.execute_command("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", key, ">")
    [group] = call("groups")
    again = call("group", "g")
    assert (again.name, again.pending, again.lag, again.last_delivered) == ("g", 1, 1, group.last_delivered)
    assert (group.name, group.pending, group.lag) == ("g", 1, 1)
    assert group.last_delivered == echomq.Id(first).entry_id
    [consumer] = group.consumers
    assert (consumer.name, consumer.pending) == ("c", 1)
    assert timedelta(0) <= consumer.idle < HOUR
    assert repr(consumer).startswith("ConsumerInfo(name='c', pending=1, idle=datetime.timedelta(")
    assert call("remove_group", "g") is True
    assert call("remove_group", "g") is False
    assert plain.execute_command("XINFO", "GROUPS", key) == []
    # A group that begins in the middle has a lag that the server cannot tell.
    call("append", {})
    assert call("create_group", "m", first) is True
    assert call("group", "m").lag in (2, None)
    assert second > first


def test_moving(call, plain, key):
    ids = call("append_batch", numbered(3))
    call("create_group", "g", "new")
    for start, position in (
        ("head", "0-0"),
        (ids[1], echomq.Id(ids[1]).entry_id),
        ("new", echomq.Id(ids[2]).entry_id),
        (echomq.Id(ids[0]).instant, f"{echomq.Id(ids[0]).unix_ms - 1}-18446744073709551615"),
    ):
        assert call("seek", "g", start) is None
        assert call("group", "g").last_delivered == position
    with pytest.raises(echomq.NoGroupError):
        call("seek", "none", "head")


def test_removing_consumers(call, plain, key):
    call("append", {})
    call("create_group", "g", "head")
    plain.execute_command("XREADGROUP", "GROUP", "g", "busy", "STREAMS", key, ">")
    for name in ("idle", "other"):
        plain.execute_command("XGROUP", "CREATECONSUMER", key, "g", name)
    with pytest.raises(echomq.StateError, match="1"):
        call("remove_consumer", "g", "busy")
    with pytest.raises(echomq.GoneError):
        call("remove_consumer", "g", "nobody")
    assert call("remove_consumer", "g", "idle") is None
    assert call("sweep_consumers", "g", HOUR) == []
    wait_until(lambda: call("sweep_consumers", "g", timedelta(0)) == ["other"], "it was idle for a millisecond")
    assert [consumer.name for consumer in call("group", "g").consumers] == ["busy"]
    for wrong, error in ((timedelta(seconds=-1), echomq.InvalidOptionError), (5, TypeError)):
        with pytest.raises(error):
            call("sweep_consumers", "g", wrong)


def test_names_are_checked(call, plain, key):
    for method, arguments in (
        ("group", ("a:b",)),
        ("create_group", ("streams", "head")),
        ("seek", ("", "head")),
        ("remove_consumer", ("g", "no spaces")),
        ("sweep_consumers", ("{g}", HOUR)),
        ("remove_group", ("\udcff",)),
    ):
        with pytest.raises(echomq.InvalidNameError):
            call(method, *arguments)
    assert plain.execute_command("EXISTS", key) == 0


def test_dead_letters(call, stream, plain, key):
    id = call("append_sequenced", {"kind": "guessed", "raw": b"\xff"})
    with stream.consumer("g", start="head", max_attempts=1) as consumer:
        next(consumer).fail("no such address")
        consumer.flush()
    [letter] = stream.dead_letters()
    assert letter.raw[0] == (b"origin", id.encode())
    assert [letter.get(name) for name in ("group", "attempts", "error")] == ["g", "1", "no such address"]
    assert letter.raw[-2:] == [(b"kind", b"guessed"), (b"raw", b"\xff")]
    assert stream.dead_letters("(" + letter.id).all() == []
    again = call("put_back", letter.id)
    [record] = stream.read("(" + id)
    assert (record.id, record.raw) == (again, [(b"kind", b"guessed"), (b"raw", b"\xff")])
    assert plain.execute_command("XLEN", f"{key}:dead") == 0
    with pytest.raises(echomq.GoneError):
        call("put_back", letter.id)
    for wrong, error in (("EVT", echomq.MalformedIdError), ("JOB09nSpDrfawy", echomq.KindError)):
        with pytest.raises(error):
            call("put_back", wrong)


async def test_dead_letters_of_asyncio(aio_stream):
    await aio_stream.append({})
    async with aio_stream.consumer("g", start="head", max_attempts=1) as consumer:
        (await anext(consumer)).fail("why")
        await consumer.flush()
    assert [letter.get("error") async for letter in aio_stream.dead_letters(limit=5)] == ["why"]


def test_several_writers(call, stream, url, name):
    """An id that is not above the stream's top is made by the sequencer, just above it."""
    with echomq.Client(url, node_id=4, clock=1_735_689_600_001) as late:
        top = call("append", {"n": "0"})
        events = late.stream("tests", name)
        with pytest.raises(echomq.NonmonotonicError):
            events.append({"n": "1"})
        second = events.append_sequenced({"n": "1"})
        third, fourth = events.append_batch(numbered(2), sequenced=True)
        assert top < second < third < fourth
        assert {echomq.Id(id).node for id in (second, third, fourth)} == {1023}
    ids = call("append_batch", numbered(3), sequenced=True, atomic=True)
    assert [record.id for record in stream.read()] == [top, second, third, fourth, *ids]
    with pytest.raises(echomq.ReservedFieldError):
        call("append_batch", [{}, {"id": "x"}], sequenced=True)
    assert call("append_batch", [], sequenced=True) == []
    assert len(stream.read().all()) == 7
