"""Tails, of both kinds."""

import asyncio
import threading
from datetime import timedelta

import echomq
import pytest
from consuming import numbered

SOON = timedelta(seconds=60)


@pytest.mark.parametrize("way", ["new", "head", "id", "instant"])
def test_a_tail_begins_where_it_is_told_and_goes_on(stream, way):
    stream.append_id("EVT09nSpDrNwci", {"n": "0"})
    second = stream.append({"n": "1"})
    start = {"new": "new", "head": "head", "id": "EVT09nSpDrNwci", "instant": echomq.Id(second).instant}[way]
    with stream.tail(start) as tail:
        stream.append_batch([{"n": "2"}, {"n": "3"}])
        expected = {"new": "23", "head": "0123", "id": "123", "instant": "123"}[way]
        assert "".join(next(tail).get("n") for _ in expected) == expected
        assert tail.next(timedelta(milliseconds=1)) is None
        threading.Timer(0.02, stream.append, [{"n": "4"}]).start()
        assert tail.next(SOON).get("n") == "4"
    assert list(tail) == []
    assert tail.next() is None


def test_a_gap_is_told_in_its_place(stream):
    ids = stream.append_batch(numbered(10))
    stream.trim(max_len=4, exact=True)
    with stream.tail(ids[1]) as tail:
        gap, record = next(tail), next(tail)
    assert isinstance(gap, echomq.Gap)
    assert (gap.from_, gap.to) == (echomq.Id(ids[1]).entry_id, echomq.Id(ids[6]).entry_id)
    assert repr(gap) == f"Gap(from_='{gap.from_}', to='{gap.to}')"
    assert record.id == ids[6]
    with stream.tail(ids[1]) as again:
        assert next(again) == gap


def test_what_is_no_place_to_begin(stream, plain, key):
    for start, error in (("$", echomq.MalformedIdError), ("JOB09nSpDrfawy", echomq.KindError), (5, TypeError)):
        with pytest.raises(error):
            stream.tail(start)
    plain.set(key, "no stream")
    with pytest.raises(echomq.WrongTypeError):
        stream.tail("head")


async def test_an_asynchronous_tail(aio_stream):
    tail = aio_stream.tail("head")
    assert repr(tail) == "<echomq.aio.Tail, not started>"
    await aio_stream.append_batch(numbered(200))
    found = []
    async for record in tail:
        found.append(record.get("n"))
        if len(found) == 200:
            break
    assert found == [str(n) for n in range(200)]
    for number in range(200, 220):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(tail), 0.0005)
        await aio_stream.append({"n": str(number)})
        assert (await anext(tail)).get("n") == str(number)
    waiting = asyncio.ensure_future(anext(tail, None))
    await asyncio.sleep(0)
    tail.close()
    assert await waiting is None
    ids = [record.id async for record in aio_stream.read()]
    await aio_stream.trim(max_len=1, exact=True)
    async with aio_stream.tail(ids[0]) as again:
        gap, record = await anext(again), await anext(again)
        assert (gap.from_, gap.to, record.id) == (
            echomq.Id(ids[0]).entry_id,
            echomq.Id(ids[-1]).entry_id,
            ids[-1],
        )
    with pytest.raises(StopAsyncIteration):
        await anext(again)


async def test_an_asynchronous_tail_that_cannot_start(aio_stream, plain, key):
    plain.set(key, "no stream")
    with pytest.raises(echomq.WrongTypeError):
        await aio_stream.tail("head")
    with pytest.raises(echomq.WrongTypeError):
        await anext(aio_stream.tail("head"))
    with pytest.raises(echomq.MalformedIdError):
        aio_stream.tail("0")


def test_a_tail_ends_with_its_client(url, name):
    client = echomq.Client(url)
    tail = client.stream("tests", name).tail("head")
    client.close()
    with pytest.raises(echomq.ClosedError):
        next(tail)
    assert list(tail) == []
