"""Handlers: what their outcomes do, for both kinds of consumers."""

import asyncio
import itertools
import threading
from datetime import timedelta

import echomq
import pytest
from consuming import numbered, pending
from waiting import wait_until

HOUR = timedelta(hours=1)
# A machine may stand still for two seconds without another consumer taking what is in hand.
KEPT_ALIVE = {"start": "head", "min_idle": 3_000, "beat": 20}


def wait_until_kept_alive(plain, key, delivery):
    """Waits until the idle time of an entry in hand has fallen twice, while it stays with its consumer."""
    idles, consumers = [], set()

    def kept_alive():
        [(consumer, idle, times)] = [entry[1:] for entry in pending(plain, key, "g") if entry[0] == delivery.entry_id]
        consumers.add(consumer)
        assert (len(consumers), times) == (1, delivery.attempts)
        idles.append(idle)
        return sum(later < earlier for earlier, later in itertools.pairwise(idles)) >= 2

    wait_until(kept_alive, "it was kept alive twice")


class Seen:
    """What handlers were given, and the end of a consumer once that was enough."""

    def __init__(self, enough):
        self.values, self.enough, self.lock = [], enough, threading.Lock()

    def add(self, consumer, delivery):
        with self.lock:
            self.values.append((delivery.record.get("n"), delivery.attempts))
            if len(self.values) == self.enough:
                consumer.stop()


def test_a_handler_that_fails_does_not_end_the_consumer(stream, plain, key):
    """K2, for everything that a handler can do instead of returning."""
    stream.append_batch(numbered(5))
    failures = {
        ("1", 1): ValueError("two\nlines"),
        ("2", 1): StopIteration(),
        ("3", 1): Exception("\udc00 surrogate"),
    }
    seen = Seen(8)
    consumer = stream.consumer("g", start="head", retry=0)

    def handle(delivery):
        seen.add(consumer, delivery)
        if failure := failures.get((delivery.record.get("n"), delivery.attempts)):
            raise failure
        return "anything"

    consumer.run(handle)
    assert sorted(seen.values) == [("0", 1), ("1", 1), ("1", 2), ("2", 1), ("2", 2), ("3", 1), ("3", 2), ("4", 1)]
    assert pending(plain, key, "g") == []
    told = [notice.message for notice in consumer.notices() if notice.kind == "failed"]
    assert told == ["ValueError: two\nlines", "StopIteration", "Exception: \\udc00 surrogate"]


def test_a_coroutine_is_no_answer_here(stream, plain, key):
    async def handle(_):
        pytest.fail("nobody awaits it")

    stream.append({"n": "0"})
    with stream.consumer("g", start="head", max_attempts=1) as consumer:
        for run in (consumer.run, consumer.run_batches):
            with pytest.raises(TypeError, match=r"echomq\.aio"):
                run(handle)

        def hidden(delivery):
            threading.Thread(target=consumer.stop, args=(HOUR,)).start()
            return handle(delivery)

        consumer.run(hidden)
    [letter] = stream.dead_letters()
    assert letter.get("error").startswith("TypeError: the handler answered a coroutine")


def test_a_handler_may_give_the_verdict_itself(stream, plain, key):
    stream.append_batch(numbered(3))
    seen = Seen(4)
    consumer = stream.consumer("g", start="head", min_idle=HOUR)

    def handle(delivery):
        seen.add(consumer, delivery)
        if seen.values[-1] == ("0", 1):
            delivery.fail("later", delay=timedelta(milliseconds=5))
        elif seen.values[-1] == ("1", 1):
            delivery.ack()
            raise ValueError("too late to matter")

    consumer.run(handle)
    assert sorted(seen.values) == [("0", 1), ("0", 2), ("1", 1), ("2", 1)]
    assert pending(plain, key, "g") == []


def test_what_is_no_exception_ends_the_call_and_leaves_the_entry_pending(stream, plain, key):
    ids = stream.append_batch(numbered(3))

    def handle(delivery):
        if delivery.record.get("n") == "1":
            raise SystemExit(3)

    with stream.consumer("g", start="head", min_idle=HOUR) as consumer:
        with pytest.raises(SystemExit):
            consumer.run(handle)
        consumer.run(lambda _: consumer.stop())
    assert [row[0] for row in pending(plain, key, "g")] == [echomq.Id(ids[1]).entry_id]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_as_many_threads_as_told(stream, plain, key, concurrency):
    stream.append_batch(numbered(40))
    seen, threads = Seen(40), set()
    together = threading.Barrier(concurrency)
    consumer = stream.consumer("g", start="head", concurrency=concurrency)

    def handle(delivery):
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            together.wait()
        seen.add(consumer, delivery)

    consumer.run(handle)
    assert len(threads) == concurrency
    assert threading.get_ident() in threads
    assert sorted(seen.values) == sorted((str(n), 1) for n in range(40))
    if concurrency == 1:
        assert seen.values == [(str(n), 1) for n in range(40)]


def test_the_failure_of_one_thread_ends_the_others(stream):
    stream.append_batch(numbered(100))
    with stream.consumer("g", start="head", concurrency=4) as consumer:

        def handle(delivery):
            if threading.current_thread() is not threading.main_thread():
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            consumer.run(handle)


@pytest.mark.parametrize("way", ["threads", "tasks"])
def test_order_is_kept_for_each_value_of_a_field(stream, url, name, way):
    stream.append_batch([{"n": str(n), "player": f"p{n % 7}"} for n in range(210)])
    options = {"start": "head", "concurrency": 8, "order_by": "player", "count": 50}
    seen = []

    def see(delivery):
        seen.append((delivery.record.get("player"), int(delivery.record.get("n"))))
        return len(seen) == 210

    def in_threads():
        consumer = stream.consumer("g", **options)
        consumer.run(lambda delivery: see(delivery) and consumer.stop())

    async def in_tasks():
        async with echomq.aio.Client(url, node_id=7) as client:
            consumer = client.stream("tests", name).consumer("g", **options)

            async def handle(delivery):
                await asyncio.sleep(0)
                if see(delivery):
                    await consumer.stop()

            await consumer.run(handle)

    if way == "threads":
        in_threads()
    else:
        asyncio.run(in_tasks())
    for player in range(7):
        assert [n for name, n in seen if name == f"p{player}"] == list(range(player, 210, 7))


def test_batches_are_handled_as_one(stream, plain, key):
    stream.append_batch(numbered(30))
    sizes = []
    consumer = stream.consumer("g", start="head", max_n=10, max_attempts=1)

    def handle(batch):
        sizes.append(len(batch))
        if sum(sizes) == 30:
            consumer.stop()
        if len(sizes) == 1:
            batch[0].ack()
            raise ValueError("all but the first")

    consumer.run_batches(handle)
    assert max(sizes) <= 10
    assert pending(plain, key, "g") == []
    assert len(stream.dead_letters().all()) == sizes[0] - 1


def test_a_handler_that_takes_long_keeps_its_entry(stream, plain, key):
    """K10: the entry is kept alive, and neither this consumer nor another takes it away."""
    stream.append({"n": "0"})
    seen = Seen(1)
    consumer = stream.consumer("g", consumer="slow", **KEPT_ALIVE)

    def handle(delivery):
        with stream.consumer("g", consumer="quick", **KEPT_ALIVE) as quick:
            wait_until_kept_alive(plain, key, delivery)
            assert quick.next(timedelta(0)) is None
        seen.add(consumer, delivery)

    consumer.run(handle)
    assert seen.values == [("0", 1)]
    assert pending(plain, key, "g") == []


def test_the_interpreter_lock_is_shared(stream, plain, key):
    """P3: appends, consumers, a handler that takes long, and a thread that hogs the interpreter, all at once."""
    written, handled, kept, stop = [stream.append({})], [], threading.Event(), threading.Event()

    def hog():
        while not stop.is_set():
            sum(range(3_000_000))

    def publish():
        while not stop.is_set():
            written.append(stream.append({}))

    def handle(delivery):
        handled.append((delivery.id, delivery.attempts))
        if delivery.id == written[0]:
            wait_until_kept_alive(plain, key, delivery)
            kept.set()

    consumers = [stream.consumer("g", **KEPT_ALIVE) for _ in range(3)]
    running = [threading.Thread(target=consumer.run, args=(handle,)) for consumer in consumers]
    busy = [threading.Thread(target=hog), *(threading.Thread(target=publish) for _ in range(3))]
    for thread in (*running, *busy):
        thread.start()
    wait_until(lambda: kept.is_set() and len(handled) > 300, "300 were handled, and the first of them kept alive")
    stop.set()
    for thread in busy:
        thread.join()
    # Nothing is left that a consumer could give to another when it stops.
    wait_until(lambda: len(handled) == len(written), "all were handled")
    for consumer in consumers:
        assert consumer.stop(HOUR) == 0
    for thread in running:
        thread.join()
    # None was taken from its consumer.
    assert sorted(handled) == [(id, 1) for id in sorted(written)]
