"""Events: published, and heard by one listener that reads each one's name, beside the same with redis-py."""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import echomq.aio
import redis
import redis.asyncio
from payload import IN_FLIGHT

FLOOD = Path(__file__).with_name("flood.py")
QUEUE, CHANNEL = "bench", "emq:{bench}:events"
EVENT, JOB, EXTRA = "completed", "JOB000xY9Wvvcd", {"player": "PLR0NgWEfAEJfs", "points": "120"}


def payload():
    return json.dumps({"event": EVENT, "job": JOB, **EXTRA})


def measure(server, rates, size, only):
    """One round. A peer is measured with both protocols."""
    few, many, heard = 300 * size, 1_000 * size, 4_000 * size
    caller, in_flight = "publish, one caller", f"publish, asyncio, {IN_FLIGHT} in flight"
    waiting, in_loop = "hear, waiting", "hear, asyncio"
    with (
        echomq.Client(server.url) as ours,
        redis.Redis(port=server.port) as peer,
        redis.Redis(port=server.port, protocol=2) as old_peer,
    ):
        events = ours.events(QUEUE)
        contenders = [
            (caller, "echomq", few, lambda: repeat(lambda: events.publish(EVENT, JOB, EXTRA), few)),
            (caller, "redis-py", few, lambda: repeat(lambda: peer.publish(CHANNEL, payload()), few)),
            (caller, "redis-py, RESP2", few, lambda: repeat(lambda: old_peer.publish(CHANNEL, payload()), few)),
            (in_flight, "echomq", many, lambda: asyncio.run(publish_in_loop(server, many))),
            (in_flight, "redis.asyncio", many, lambda: asyncio.run(peer_publishes(server, many, 3))),
            (in_flight, "redis.asyncio, RESP2", many, lambda: asyncio.run(peer_publishes(server, many, 2))),
            (waiting, "echomq", heard, lambda: hear(server, events, heard)),
            (waiting, "redis-py", heard, lambda: hear_by_hand(server, peer, heard)),
            (waiting, "redis-py, RESP2", heard, lambda: hear_by_hand(server, old_peer, heard)),
            (waiting, "redis-py, get_message", heard, lambda: hear_by_asking(server, peer, heard)),
            (in_loop, "echomq", heard, lambda: asyncio.run(hear_in_loop(server, heard))),
            (in_loop, "redis.asyncio", heard, lambda: asyncio.run(peer_hears(server, heard, 3))),
            (in_loop, "redis.asyncio, RESP2", heard, lambda: asyncio.run(peer_hears(server, heard, 2))),
        ]
        for group, contender, count, run in contenders:
            if only in group:
                rates.add(group, contender, count, run())


class Flood:
    """Another process publishes so many events; it begins when this is made."""

    def __init__(self, server, count):
        program = [sys.executable, str(FLOOD), str(server.port), CHANNEL, payload(), str(count)]
        self.process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        self.started = time.perf_counter()

    def seconds(self):
        """How long it took until now."""
        seconds = time.perf_counter() - self.started
        assert self.process.wait() == 0
        self.process.stdin.close()
        self.process.stdout.close()
        return seconds


def repeat(call, times):
    """Each function answers how many seconds it took."""
    started = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - started


def hear(server, events, count):
    with events.listen() as listener, listener.subscribe(buffer=count) as subscriber:
        flood = Flood(server, count)
        for event in itertools.islice(subscriber, count):
            assert event.name == EVENT
        return flood.seconds()


def hear_by_hand(server, peer, count):
    with peer.pubsub(ignore_subscribe_messages=True) as ear:
        subscribed(ear)
        flood = Flood(server, count)
        for message in itertools.islice(ear.listen(), count):
            assert json.loads(message["data"])["event"] == EVENT
        return flood.seconds()


def hear_by_asking(server, peer, count):
    with peer.pubsub(ignore_subscribe_messages=True) as ear:
        subscribed(ear)
        flood, heard = Flood(server, count), 0
        while heard < count:
            if message := ear.get_message(timeout=60):
                assert json.loads(message["data"])["event"] == EVENT
                heard += 1
        return flood.seconds()


def subscribed(ear):
    ear.subscribe(CHANNEL)
    assert ear.get_message(timeout=60) is None


async def publish_in_loop(server, count):
    async with echomq.aio.Client(server.url) as client:
        events = client.events(QUEUE)
        return await together(lambda: events.publish(EVENT, JOB, EXTRA), count)


async def peer_publishes(server, count, protocol):
    async with redis.asyncio.Redis(port=server.port, protocol=protocol) as peer:
        return await together(lambda: peer.publish(CHANNEL, payload()), count)


async def together(call, count):
    async def worker(times):
        for _ in range(times):
            await call()

    await asyncio.gather(*(worker(1) for _ in range(IN_FLIGHT)))
    started = time.perf_counter()
    await asyncio.gather(*(worker(count // IN_FLIGHT) for _ in range(IN_FLIGHT)))
    return time.perf_counter() - started


async def hear_in_loop(server, count):
    async with (
        echomq.aio.Client(server.url) as client,
        client.events(QUEUE).listen() as listener,
        listener.subscribe(buffer=count) as subscriber,
    ):
        flood, heard = Flood(server, count), 0
        async for event in subscriber:
            assert event.name == EVENT
            heard += 1
            if heard == count:
                break
        return flood.seconds()


async def peer_hears(server, count, protocol):
    async with (
        redis.asyncio.Redis(port=server.port, protocol=protocol) as peer,
        peer.pubsub(ignore_subscribe_messages=True) as ear,
    ):
        await ear.subscribe(CHANNEL)
        assert await ear.get_message(timeout=60) is None
        flood, heard = Flood(server, count), 0
        async for message in ear.listen():
            assert json.loads(message["data"])["event"] == EVENT
            heard += 1
            if heard == count:
                break
        return flood.seconds()
