"""Draining a stream, beside hand-written loops: ``XREADGROUP COUNT 100`` and one ``XACK`` a batch."""

import asyncio
import time

import echomq
import redis
import redis.asyncio
from payload import BATCH, COUNT, FIELDS

KEY = echomq.Keyspace("bench").stream("events")
WAITING, ASYNCIO = "consume, waiting", "consume, asyncio"


def measure(server, rates, size, only):
    """One round."""
    records = 2_000 * size
    with echomq.Client(server.url, node_id=7) as client, redis.Redis(port=server.port) as peer:
        contenders = {
            (WAITING, "echomq"): lambda: drain(client, records),
            (WAITING, "echomq, run"): lambda: drain_by_handler(client, records),
            (WAITING, "redis-py"): lambda: drain_by_hand(peer, records),
            (ASYNCIO, "echomq"): lambda: asyncio.run(drain_in_loop(server, records, by_handler=False)),
            (ASYNCIO, "echomq, run"): lambda: asyncio.run(drain_in_loop(server, records, by_handler=True)),
            (ASYNCIO, "redis.asyncio"): lambda: asyncio.run(drain_by_hand_in_loop(server, records)),
        }
        chosen = {key: run for key, run in contenders.items() if only in key[0]}
        if chosen:
            client.command("FLUSHALL")
            stream = client.stream("bench", "events")
            for _ in range(records // BATCH):
                stream.append_batch([FIELDS] * BATCH)
        for (group, contender), run in chosen.items():
            rates.add(group, contender, records, run())
            pending = client.command("XPENDING", KEY, "g")[0]
            assert pending == 0, f"{contender} left {pending} pending"
            client.command("XGROUP", "DESTROY", KEY, "g")


def drain(client, records):
    """Each function answers how many seconds it took, from the start of the group to the last acknowledgement."""
    started = time.perf_counter()
    with client.stream("bench", "events").consumer("g", start="head", count=COUNT) as consumer:
        for number, delivery in enumerate(consumer, 1):
            delivery.ack()
            if number == records:
                break
        consumer.flush()
        return time.perf_counter() - started


def drain_by_handler(client, records):
    started, handled = time.perf_counter(), 0
    consumer = client.stream("bench", "events").consumer("g", start="head", count=COUNT)

    def handle(_):
        nonlocal handled
        handled += 1
        if handled == records:
            consumer.stop()

    consumer.run(handle)
    return time.perf_counter() - started


def drain_by_hand(peer, records):
    started, handled = time.perf_counter(), 0
    peer.xgroup_create(KEY, "g", "0")
    while handled < records:
        [[_, entries]] = peer.xreadgroup("g", "c", {KEY: ">"}, count=COUNT)
        for _ in entries:
            handled += 1
        peer.xack(KEY, "g", *[entry_id for entry_id, _ in entries])
    return time.perf_counter() - started


async def drain_in_loop(server, records, *, by_handler):
    async with echomq.aio.Client(server.url, node_id=8) as client:
        started, handled = time.perf_counter(), 0
        consumer = await client.stream("bench", "events").consumer("g", start="head", count=COUNT)

        async def handle(_):
            nonlocal handled
            handled += 1
            if handled == records:
                await consumer.stop()

        if by_handler:
            await consumer.run(handle)
        else:
            async for delivery in consumer:
                delivery.ack()
                handled += 1
                if handled == records:
                    break
            await consumer.flush()
        seconds = time.perf_counter() - started
        await consumer.stop()
        return seconds


async def drain_by_hand_in_loop(server, records):
    peer = redis.asyncio.Redis(port=server.port)
    started, handled = time.perf_counter(), 0
    await peer.xgroup_create(KEY, "g", "0")
    while handled < records:
        [[_, entries]] = await peer.xreadgroup("g", "c", {KEY: ">"}, count=COUNT)
        for _ in entries:
            handled += 1
        await peer.xack(KEY, "g", *[entry_id for entry_id, _ in entries])
    seconds = time.perf_counter() - started
    await peer.aclose()
    return seconds
