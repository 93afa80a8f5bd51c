"""The calls of asyncio, with one and with many under way."""

import asyncio
import time

import echomq.aio
import redis.asyncio
from glide import GlideClient, GlideClientConfiguration, NodeAddress
from payload import FIELDS, IN_FLIGHT, PAIRS


async def measure(server, rates, size, only):
    """One round."""
    ours = await echomq.aio.Client(server.url, node_id=7)
    stream = ours.stream("bench", "events")
    peer = redis.asyncio.Redis(port=server.port)
    pooled = redis.asyncio.Redis.from_pool(
        redis.asyncio.BlockingConnectionPool(port=server.port, max_connections=10, timeout=60)
    )
    glide = await GlideClient.create(GlideClientConfiguration([NodeAddress("127.0.0.1", server.port)]))
    appends = {
        "echomq": lambda: stream.append(FIELDS),
        "redis.asyncio": lambda: peer.xadd("events", FIELDS),
        "redis.asyncio, 10 connections": lambda: pooled.xadd("events", FIELDS),
        "valkey-glide": lambda: glide.xadd("events", PAIRS),
    }
    try:
        for in_flight, count in ((1, 300 * size), (IN_FLIGHT, 1_000 * size)):
            group = f"asyncio, {in_flight} in flight"
            for name, append in appends.items():
                if only not in group:
                    continue
                await ours.command("FLUSHALL")
                await calls(append, 100, in_flight)
                started = time.perf_counter()
                await calls(append, count, in_flight)
                rates.add(group, name, count, time.perf_counter() - started)
    finally:
        await ours.close()
        await peer.aclose()
        await pooled.aclose()
        await glide.close()


async def calls(call, count, in_flight):
    """Makes calls so that always this many are under way."""

    async def worker():
        for _ in range(count // in_flight):
            await call()

    await asyncio.gather(*(worker() for _ in range(in_flight)))
