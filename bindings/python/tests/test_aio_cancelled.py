"""Waits of asyncio that are cancelled at any moment: what they wait for goes to the next wait, once and in order."""

import asyncio
import contextlib
import gc
import random
from datetime import timedelta

import echomq
import pytest
import uvloop
from consuming import numbered, pending

HOUR = timedelta(hours=1)
COUNT = 3_000

RUNS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


async def write(append, count=COUNT, size=5):
    """Appends numbered records, some at a time, while others wait."""
    for first in range(0, count, size):
        await append([{"n": str(number)} for number in range(first, first + size)])
        await asyncio.sleep(random.uniform(0, 0.002))


async def cancelled_at_random(wait, take, writing):
    """Waits again and again, each for 0 to 2 ms, as long as somebody writes."""
    cancelled = 0
    while not writing.done():
        try:
            async with asyncio.timeout(random.uniform(0, 0.002)):
                got = await wait()
        except TimeoutError:
            cancelled += 1
        else:
            take(got)
    await writing
    assert cancelled > 20


async def to_the_end(wait, take, is_last):
    """Takes what is left, and what was written last."""
    while True:
        got = await asyncio.wait_for(wait(), 60)
        take(got)
        if is_last(got):
            return


def by_timeout(reader):
    return lambda: anext(reader)


def by_wait_for(reader):
    return lambda: asyncio.wait_for(anext(reader), random.uniform(0, 0.002))


WAYS = pytest.mark.parametrize("way", [by_timeout, by_wait_for])


@RUNS
@WAYS
def test_a_tail_gives_every_record_once_and_in_order(run, way, url, name):
    async def main():
        found = []
        async with echomq.aio.Client(url, node_id=7) as client:
            stream = client.stream("tests", name)
            async with stream.tail("new") as tail:
                writing = asyncio.ensure_future(write(stream.append_batch))
                await cancelled_at_random(way(tail), found.append, writing)
                await stream.append({"n": "last"})
                await to_the_end(lambda: anext(tail), found.append, lambda record: record.get("n") == "last")
        assert [one.get("n") for one in found if isinstance(one, echomq.Record)] == [*map(str, range(COUNT)), "last"]

    run(main())


@RUNS
@WAYS
def test_a_consumer_gives_every_entry_once_and_in_order(run, way, url, name, plain, key):
    """No handler saw an entry that was not handed out, so none of them becomes a dead letter."""

    async def main():
        found, told = [], []

        def take(delivery):
            found.append((delivery.record.get("n"), delivery.attempts))
            delivery.ack()

        async with echomq.aio.Client(url, node_id=7) as client:
            stream = client.stream("tests", name)
            options = {"max_attempts": 1, "min_idle": 200, "beat": 20}
            async with stream.consumer("g", start="head", consumer="c", **options) as consumer:
                writing = asyncio.ensure_future(write(stream.append_batch))
                await cancelled_at_random(way(consumer), take, writing)
                await stream.append({"n": "last"})
                await to_the_end(lambda: anext(consumer), take, lambda delivery: delivery.record.get("n") == "last")
                await consumer.flush()
            told = [notice.kind async for notice in consumer.notices()]
            assert await stream.dead_letters().all() == []
        assert found == [(n, 1) for n in [*map(str, range(COUNT)), "last"]]
        assert pending(plain, key, "g") == []
        assert not {"dead_letter", "failed"} & set(told)

    run(main())


@RUNS
@WAYS
def test_a_subscriber_hears_every_event_once_and_in_order(run, way, url, name):
    async def main():
        found = []
        async with echomq.aio.Client(url, node_id=7) as client:
            events = client.events(name)

            async def publish(batch):
                await asyncio.gather(*(events.publish("progress", "JOB000xY9Wvvcd", record) for record in batch))

            async with events.listen() as listener, listener.subscribe(buffer=COUNT) as subscriber:
                publishing = asyncio.ensure_future(write(publish))
                await cancelled_at_random(way(subscriber), found.append, publishing)
                await publish([{"n": "last"}])
                await to_the_end(lambda: anext(subscriber), found.append, lambda event: event.get("n") == "last")
        assert [one.get("n") for one in found if isinstance(one, echomq.Event)] == [*map(str, range(COUNT)), "last"]

    run(main())


@RUNS
def test_a_reader_gives_every_record_once_and_in_order(run, url, name):
    async def main():
        found = []
        async with echomq.aio.Client(url, node_id=7) as client:
            stream = client.stream("tests", name)
            await stream.append_batch(numbered(COUNT))
            reader = stream.read(page_size=7)

            def take(got):
                found.extend(got if isinstance(got, list) else [got])

            ways = [lambda: anext(reader), reader.next_page]
            for _ in range(400):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(random.uniform(0, 0.001)):
                        take(await random.choice(ways)())
            # What a cancelled wait for all of it has read is left to the others.
            for _ in range(20):
                waiting = asyncio.ensure_future(reader.all())
                for _ in range(random.randrange(4)):
                    await asyncio.sleep(0)
                if waiting.cancel():
                    await asyncio.wait([waiting])
                if not waiting.cancelled():
                    found.extend(waiting.result())
            found.extend(await reader.all())
        assert [record.get("n") for record in found] == [str(n) for n in range(COUNT)]

    run(main())


@RUNS
def test_every_notice_is_given_once_and_in_order(run, url, name):
    count = 300

    async def main():
        found = []
        async with echomq.aio.Client(url, node_id=7) as client:
            stream = client.stream("tests", name)
            async with stream.consumer("g", start="head", min_idle=HOUR) as consumer:

                async def fail():
                    async for delivery in consumer:
                        delivery.fail(delivery.record.get("n"))

                failing = asyncio.ensure_future(fail())
                writing = asyncio.ensure_future(write(stream.append_batch, count))
                notices = consumer.notices()
                await cancelled_at_random(by_timeout(notices), found.append, writing)
                await stream.append({"n": "last"})
                await to_the_end(lambda: anext(notices), found.append, lambda notice: notice.message == "last")
                failing.cancel()
        assert [(notice.kind, notice.message) for notice in found] == [
            ("failed", n) for n in [*map(str, range(count)), "last"]
        ]

    run(main())


@RUNS
def test_batches_lose_nothing(run, url, name, plain, key):
    async def main():
        found = []

        def take(batch):
            for delivery in batch:
                found.append((delivery.record.get("n"), delivery.attempts))
                delivery.ack()

        async with echomq.aio.Client(url, node_id=7) as client:
            stream = client.stream("tests", name)
            async with stream.consumer("g", start="head", min_idle=HOUR, max_n=7, max_wait=1) as consumer:
                writing = asyncio.ensure_future(write(stream.append_batch))
                await cancelled_at_random(consumer.next_batch, take, writing)
                await stream.append({"n": "last"})
                await to_the_end(consumer.next_batch, take, lambda batch: batch[-1].record.get("n") == "last")
                await consumer.flush()
        assert found == [(n, 1) for n in [*map(str, range(COUNT)), "last"]]
        assert pending(plain, key, "g") == []

    run(main())


@pytest.mark.parametrize("way", ["cancelled", "closed", "dropped"])
async def test_a_wait_that_was_woken_and_ends_wakes_the_next(aio_stream, way):
    async with aio_stream.tail("new") as tail:

        async def wait():
            return (await anext(tail)).get("n")

        for number in range(20):
            # Driven by hand up to its wait, it stands before the task, and goes on only when it is told to.
            coroutine = wait()
            woken = coroutine.send(None)
            assert asyncio.isfuture(woken)
            waiting = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            await aio_stream.append({"n": str(number)})
            await asyncio.wait_for(woken, 60)
            assert not waiting.done()
            if way == "cancelled":
                with pytest.raises(asyncio.CancelledError):
                    coroutine.throw(asyncio.CancelledError())
            elif way == "closed":
                coroutine.close()
            del coroutine
            gc.collect()
            assert await asyncio.wait_for(waiting, 60) == str(number)


async def test_what_is_there_stays_when_nobody_awaits_it(aio_stream):
    """Asking takes nothing, and neither does a task that is cancelled before it begins."""
    await aio_stream.append_batch(numbered(3))
    async with aio_stream.tail("head") as tail:
        first = await anext(tail)
        anext(tail)
        task = asyncio.ensure_future(anext(tail))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(tail), 0)
        second = await anext(tail)
        gone = anext(tail)
        gone.close()
        with pytest.raises(RuntimeError, match="already"):
            await gone
        assert [one.get("n") for one in (first, second, await anext(tail))] == ["0", "1", "2"]


async def test_what_is_thrown_in_comes_out(aio_stream):
    async with aio_stream.tail("new") as tail:
        for thrown in (ValueError("why"), ValueError):
            wait = anext(tail).__await__()
            assert asyncio.isfuture(wait.send(None))
            with pytest.raises(ValueError, match=r"^(why)?$"):
                wait.throw(thrown)
            with pytest.raises(RuntimeError):
                wait.send(None)
        await aio_stream.append({"n": "0"})
        assert (await anext(tail)).get("n") == "0"


async def test_tasks_share_a_reader(aio_stream):
    await aio_stream.append_batch(numbered(500))
    reader, found = aio_stream.read(page_size=7), []

    async def work():
        async for record in reader:
            found.append(record.get("n"))

    await asyncio.gather(*(work() for _ in range(5)))
    assert sorted(found, key=int) == [str(n) for n in range(500)]


async def test_a_cancelled_run_begins_nothing_that_it_does_not_handle(aio_stream, plain, key):
    """Handlers are cancelled at random; whatever one began stays pending, and everything else comes once."""
    begun, count = [], 1_000

    async def handle(delivery):
        begun.append((delivery.record.get("n"), delivery.attempts))

    async with aio_stream.consumer("g", start="head", min_idle=HOUR) as consumer:
        writing = asyncio.ensure_future(write(aio_stream.append_batch, count))
        while len(begun) < count:
            try:
                async with asyncio.timeout(random.uniform(0, 0.002)):
                    await consumer.run(handle)
            except TimeoutError:
                pass
        await writing
        await consumer.flush()
    assert begun == [(str(n), 1) for n in range(count)]
    assert pending(plain, key, "g") == []
