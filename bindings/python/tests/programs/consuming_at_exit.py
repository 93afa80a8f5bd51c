"""Ends while consumers and tails run in threads and in a loop, with everything closed or nothing."""

import asyncio
import sys
import threading
from datetime import timedelta

import echomq

url, key, way = sys.argv[1:]
client = echomq.Client(url, node_id=7)
stream = client.stream("tests", key)
stream.append_batch([{"n": str(n)} for n in range(100)])
consumer = stream.consumer("g", start="head", concurrency=2)
handled = threading.Semaphore(0)
tail = stream.tail("head")


def handle(delivery):
    handled.release()


def follow():
    for _ in tail:
        handled.release()


threads = [
    threading.Thread(target=consumer.run, args=[handle], daemon=True),
    threading.Thread(target=follow, daemon=True),
]
for thread in threads:
    thread.start()
for _ in range(50):
    handled.acquire()


async def main():
    other = await echomq.aio.Client(url, node_id=8)
    events = other.stream("tests", key)
    reader = await events.consumer("h", start="head")
    run = asyncio.ensure_future(reader.run(lambda _: None))
    follower = events.tail("new")
    waiting = asyncio.ensure_future(anext(follower, None))
    await anext(events.consumer("i", start="head"))
    if way == "closed":
        await reader.stop()
        await run
        follower.close()
        await waiting
        await other.close()
    return other, reader, run, follower, waiting


left = asyncio.run(main())
if way == "closed":
    assert consumer.stop(timedelta(hours=1)) == 0
    tail.close()
    for thread in threads:
        thread.join()
    client.close()
print("end")
