"""The consumer of asyncio: waits, cancellation, tasks, loops."""

import asyncio
import gc
from datetime import timedelta

import echomq
import pytest
import uvloop
from consuming import numbered, pending, values
from waiting import wait_until

HOUR = timedelta(hours=1)


async def until(condition, what):
    await asyncio.to_thread(wait_until, condition, what)


async def test_every_entry_once_and_in_order(aio_stream, plain, key):
    ids = await aio_stream.append_batch(numbered(250))
    found = []
    async with aio_stream.consumer("g", start="head", consumer="c") as consumer:
        assert (consumer.group, consumer.name) == ("g", "c")
        async for delivery in consumer:
            found.append((delivery.id, delivery.attempts, delivery.record.get("n")))
            delivery.ack()
            if len(found) == 250:
                break
        await consumer.flush()
        assert pending(plain, key, "g") == []
    assert found == [(id, 1, str(n)) for n, id in enumerate(ids)]
    with pytest.raises(StopAsyncIteration):
        await anext(consumer)
    assert await anext(consumer, None) is None
    assert await consumer.next_batch() == []


async def test_it_starts_by_await_by_async_with_or_by_the_first_wait(aio_stream, plain, key):
    consumer = aio_stream.consumer("g", start="head")
    for call in (lambda: consumer.name, consumer.pause, consumer.resume, consumer.flush, consumer._workers):
        with pytest.raises(echomq.StateError, match="not been started"):
            call()
    assert await consumer.stop() == 0
    assert repr(consumer) == "<echomq.aio.Consumer, not started, g>"
    assert plain.execute_command("EXISTS", key) == 0
    assert await consumer is consumer
    assert await consumer is consumer
    id = await aio_stream.append({})
    assert (await anext(consumer)).id == id
    assert (await anext(aio_stream.consumer("h", start="head"))).id == id
    async with aio_stream.consumer("i", start="head") as third:
        assert (await anext(third)).id == id
    async with aio_stream.consumer("j", start="head"):
        pass
    assert await consumer.stop() == 0
    assert repr(consumer).startswith("<echomq.aio.Consumer(")


async def test_what_cannot_start_fails_where_it_is_awaited(aio_stream, plain, key):
    plain.set(key, "no stream")
    with pytest.raises(echomq.WrongTypeError):
        await aio_stream.consumer("g", start="head")
    with pytest.raises(echomq.WrongTypeError):
        async with aio_stream.consumer("g", start="head"):
            pass
    consumer = aio_stream.consumer("g", start="head")
    for wait in (lambda: anext(consumer), consumer.next_batch, lambda: anext(consumer.notices())):
        with pytest.raises(echomq.WrongTypeError):
            await wait()
    with pytest.raises(echomq.WrongTypeError):
        await consumer.run(print)
    with pytest.raises(echomq.InvalidOptionError):
        aio_stream.consumer("g")
    with pytest.raises(echomq.InvalidOptionError):
        await aio_stream.consumer("g", start="head", count=0)


async def test_what_is_there_costs_no_turn_of_the_loop(aio_stream):
    await aio_stream.append_batch(numbered(10))
    async with aio_stream.consumer("g", start="head") as consumer:
        assert (await anext(consumer)).record.get("n") == "0"
        turns = []
        asyncio.get_running_loop().call_soon(turns.append, "turn")
        for _ in range(9):
            await anext(consumer)
        assert turns == []
        # With nothing there, a wait is a future of the loop.
        waiting = anext(consumer).__await__()
        assert isinstance(next(waiting), asyncio.Future)
        waiting.close()


async def test_other_tasks_run_while_entries_are_there(aio_stream):
    await aio_stream.append_batch(numbered(5_000))
    turns = 0

    async def other():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.ensure_future(other())
    async with aio_stream.consumer("g", start="head", count=5_000) as consumer:
        for _ in range(5_000):
            (await anext(consumer)).ack()
    task.cancel()
    assert turns >= 5_000 // 64


async def test_a_cancelled_wait_loses_nothing(aio_stream, plain, key):
    async with aio_stream.consumer("g", start="head", min_idle=HOUR) as consumer:
        for number in range(50):
            for wait in (lambda: anext(consumer), consumer.next_batch):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(wait(), 0.0005)
            await aio_stream.append({"n": str(number)})
            delivery = await anext(consumer)
            assert (delivery.record.get("n"), delivery.attempts) == (str(number), 1)
            delivery.ack()
        await consumer.flush()
    assert pending(plain, key, "g") == []


async def test_waits_that_are_cancelled_while_entries_come(aio_stream, plain, key):
    """Each entry goes to somebody who still waits, or stays pending: none is lost, none acknowledged."""
    found, count = set(), 400

    async def write():
        for number in range(count):
            await aio_stream.append({"n": str(number)})

    async with aio_stream.consumer("g", start="head", min_idle=50, beat=10) as consumer:
        writing = asyncio.ensure_future(write())
        tries = 0
        while len(found) < count:
            waiting = asyncio.ensure_future(anext(consumer))
            for _ in range(tries % 4):
                await asyncio.sleep(0)
            tries += 1
            if tries % 5:
                waiting.cancel()
            [delivery] = await asyncio.gather(waiting, return_exceptions=True)
            if isinstance(delivery, echomq.Delivery):
                found.add(delivery.record.get("n"))
                delivery.ack()
            else:
                assert isinstance(delivery, asyncio.CancelledError)
        await writing
        await consumer.flush()
    assert found == {str(n) for n in range(count)}
    assert pending(plain, key, "g") == []


async def test_many_tasks_wait_for_one_consumer(aio_stream):
    async with aio_stream.consumer("g", start="head") as consumer:
        found = []

        async def work():
            async for delivery in consumer:
                found.append(delivery.record.get("n"))
                delivery.ack()

        tasks = [asyncio.ensure_future(work()) for _ in range(20)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        await aio_stream.append_batch(numbered(500))
        await until(lambda: len(found) == 500, "all were handled")
        await consumer.stop(HOUR)
        await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(found, key=int) == [str(n) for n in range(500)]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("concurrency", [1, 5])
async def test_handlers(aio_stream, plain, key, kind, concurrency):
    """K2: what a handler does instead of returning is a failure, and the consumer goes on."""
    await aio_stream.append_batch(numbered(20))
    seen, stops = [], []
    consumer = aio_stream.consumer("g", start="head", retry=0, concurrency=concurrency)

    def see(delivery):
        seen.append((delivery.record.get("n"), delivery.attempts))
        if len(seen) == 22:
            stops.append(consumer.stop())
        if seen[-1] == ("2", 1):
            raise ValueError("no")

    async def handle(delivery):
        await asyncio.sleep(0)
        see(delivery)
        if seen[-1] == ("5", 1):
            cancelled = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled

    def handle_at_once(delivery):
        see(delivery)
        if seen[-1] == ("5", 1):
            raise StopAsyncIteration

    await consumer.run(handle if kind == "async" else handle_at_once)
    assert sorted(seen) == sorted([(str(n), 1) for n in range(20)] + [("2", 2), ("5", 2)])
    assert pending(plain, key, "g") == []
    told = {notice.message async for notice in consumer.notices() if notice.kind == "failed"}
    assert told == {"ValueError: no", "asyncio.exceptions.CancelledError" if kind == "async" else "StopAsyncIteration"}


async def test_batches(aio_stream, plain, key):
    await aio_stream.append_batch(numbered(30))
    sizes = []
    consumer = aio_stream.consumer("g", start="head", max_n=10, max_wait=20)

    async def handle(batch):
        sizes.append(len(batch))
        assert values(batch) == [str(n) for n in range(sum(sizes[:-1]), sum(sizes))]
        if sum(sizes) == 30:
            await consumer.stop()

    await consumer.run_batches(handle)
    assert max(sizes) <= 10
    assert pending(plain, key, "g") == []


async def test_a_cancelled_run_leaves_entries_pending(aio_stream, plain, key):
    ids = await aio_stream.append_batch(numbered(3))
    begun, never = asyncio.Semaphore(0), asyncio.Event()

    async def handle(_):
        begun.release()
        await never.wait()

    async with aio_stream.consumer("g", start="head", concurrency=2, count=2, min_idle=HOUR) as consumer:
        run = asyncio.ensure_future(consumer.run(handle))
        await begun.acquire()
        await begun.acquire()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        # It goes on with what was not begun.
        assert (await anext(consumer)).id == ids[2]
    assert [row[0] for row in pending(plain, key, "g")] == [echomq.Id(id).entry_id for id in ids]


async def test_a_stop_lets_what_is_in_hand_finish(aio_stream, plain, key):
    """K22."""
    ids = await aio_stream.append_batch(numbered(50))
    begun, go_on = asyncio.Event(), asyncio.Event()
    consumer = aio_stream.consumer("g", start="head", count=50, min_idle=HOUR)

    async def handle(_):
        begun.set()
        await go_on.wait()

    run = asyncio.ensure_future(consumer.run(handle))
    await begun.wait()
    stop = consumer.stop(HOUR)
    await asyncio.sleep(0)
    go_on.set()
    assert await stop == 0
    await run
    async with aio_stream.consumer("g", start="head", min_idle=HOUR, beat=10) as other:
        assert sorted([(await anext(other)).id for _ in range(49)]) == ids[1:]


async def test_one_that_is_dropped_stops(aio_stream):
    await aio_stream.append_batch(numbered(3))
    consumer = await aio_stream.consumer("g", start="head", min_idle=HOUR)
    (await anext(consumer)).ack()
    del consumer
    gc.collect()
    async with aio_stream.consumer("g", start="head", min_idle=HOUR, beat=10) as other:
        assert sorted(values([await anext(other), await anext(other)])) == ["1", "2"]


async def test_a_wait_keeps_what_it_waits_for(aio_stream, aio_events):
    """Nobody else has to hold it meanwhile."""
    listener = await aio_events.listen()
    waits = [
        asyncio.ensure_future(wait)
        for wait in (
            anext(await aio_stream.consumer("g", start="head")),
            (await aio_stream.consumer("h", start="head", max_n=1)).next_batch(),
            anext(aio_stream.consumer("i", start="head")),
            anext(await aio_stream.tail("new")),
            anext(listener.subscribe()),
        )
    ]
    gc.collect()
    id = await aio_stream.append({})
    await aio_events.publish("added", "JOB000xY9Wvvcd")
    one, [several], late, record, event = await asyncio.gather(*waits)
    assert [one.id, several.id, late.id, record.id, event.name] == [id] * 4 + ["added"]


async def test_a_consumer_ends_with_its_client(url, name):
    client = await echomq.aio.Client(url, node_id=7)
    stream = client.stream("tests", name)
    await stream.append({})
    consumer = await stream.consumer("g", start="head")
    delivery = await anext(consumer)
    waiting = asyncio.ensure_future(anext(consumer, None))
    await asyncio.sleep(0)
    assert await client.close() == 0
    assert await waiting is None
    assert delivery.attempts == 1
    with pytest.raises(echomq.ClosedError):
        await stream.consumer("g", start="head")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_one_consumer_on_one_loop_after_another(run, url, name):
    client = echomq.aio.Client(url, node_id=7)

    async def begin():
        await client
        consumer = await client.stream("tests", name).consumer("g", start="head")
        # This wait ends with its loop.
        waiting = asyncio.ensure_future(anext(consumer))
        await asyncio.sleep(0)
        return consumer, waiting

    async def go_on(consumer):
        stream = client.stream("tests", name)
        waiting = asyncio.ensure_future(anext(consumer))
        await asyncio.sleep(0)
        id = await stream.append({})
        assert (await waiting).id == id

    async def end():
        await client.close()

    consumer, _waiting = run(begin())
    for _ in range(3):
        run(go_on(consumer))
    run(end())
