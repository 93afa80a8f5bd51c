"""Uses all that can be closed or forgotten, again and again; says how many more objects, and bytes, there are then."""

import asyncio
import gc
import sys
from datetime import timedelta
from pathlib import Path

import echomq
from hearing import JOB

url, name, way = sys.argv[1:]


def count(so_far, _):
    return so_far + 1


def waiting(times):
    with echomq.Client(url, node_id=7) as client:
        events, stream = client.events(name), client.stream("tests", name)
        for _ in range(times):
            with events.listen() as listener, listener.subscribe() as subscriber:
                reduction, token, notices = listener.reduce(count, 0), events.watch(JOB), listener.notices()
                events.publish("added", JOB)
                next(subscriber)
                token.wait(timedelta(0))
                reduction.close()
                reduction.join()
            list(notices)
            with stream.consumer("g", start="head") as consumer:
                stream.append({"k": "v"})
                next(consumer).ack()
                # One that is forgotten.
                stream.tail("new")
            stream.trim(max_len=0)


async def in_a_loop(times):
    async with echomq.aio.Client(url, node_id=7) as client:
        events, stream = client.events(name), client.stream("tests", name)
        for _ in range(times):
            async with events.listen() as listener, listener.subscribe() as subscriber:
                reduction, token, notices = listener.reduce(count, 0), await events.watch(JOB), listener.notices()
                heard, tripped = asyncio.ensure_future(anext(subscriber)), asyncio.ensure_future(token)
                await events.publish("added", JOB)
                await heard
                tripped.cancel()
                reduction.close()
                await reduction.join()
            assert [notice async for notice in notices] == []
            async with stream.consumer("g", start="head") as consumer:
                await stream.append({"k": "v"})
                (await anext(consumer)).ack()
                await stream.tail("new")
            await stream.trim(max_len=0)


def size():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return len(gc.get_objects()), pages * 4096


USES = {"waiting": waiting, "asyncio": lambda times: asyncio.run(in_a_loop(times))}
USES[way](200)
objects, memory = size()
USES[way](500)
objects_after, memory_after = size()
print(objects_after - objects, memory_after - memory)
