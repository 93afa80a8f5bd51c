"""Waits on threads that end at any moment: what they wait for goes to the next wait."""

import contextlib
import random
import threading
import time
from datetime import timedelta

from consuming import pending

COUNT = 2_000


def write(append):
    for first in range(0, COUNT, 5):
        append([{"n": str(number)} for number in range(first, first + 5)])
        time.sleep(random.uniform(0, 0.002))


@contextlib.contextmanager
def written(append):
    writing = threading.Thread(target=write, args=(append,))
    writing.start()
    yield writing
    writing.join()


def waited_at_random(reader, writing):
    """What comes through many waits, each for 0 to 2 ms, and then through longer ones up to the last."""
    found, ended = [], 0
    while not found or found[-1].get("n") != "last":
        within = random.uniform(0, 0.002) if writing.is_alive() else 60
        got = reader.next(timedelta(seconds=within))
        if got is None:
            assert within < 60
            ended += 1
            continue
        if hasattr(got, "ack"):
            assert got.attempts == 1
            got.ack()
            got = got.record
        found.append(got)
    assert ended > 20
    return [one.get("n") for one in found]


ALL = [*map(str, range(COUNT)), "last"]


def append_all(stream):
    def append(records):
        stream.append_batch(records)
        if records[-1]["n"] == str(COUNT - 1):
            stream.append({"n": "last"})

    return append


def test_a_tail(stream):
    with stream.tail("new") as tail, written(append_all(stream)) as writing:
        assert waited_at_random(tail, writing) == ALL


def test_a_consumer(stream, plain, key):
    with stream.consumer("g", start="head", max_attempts=1, min_idle=200, beat=20) as consumer:
        with written(append_all(stream)) as writing:
            assert waited_at_random(consumer, writing) == ALL
        consumer.flush()
    assert pending(plain, key, "g") == []
    assert stream.dead_letters().all() == []


def test_a_subscriber(client, name):
    events = client.events(name)

    def publish(records):
        for record in [*records, *([{"n": "last"}] if records[-1]["n"] == str(COUNT - 1) else [])]:
            events.publish("progress", "JOB000xY9Wvvcd", record)

    with events.listen() as listener, listener.subscribe(buffer=2 * COUNT) as subscriber, written(publish) as writing:
        assert waited_at_random(subscriber, writing) == ALL
