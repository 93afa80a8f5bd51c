"""Ends while threads and a loop listen, fold and wait for tokens, with everything closed or nothing."""

import asyncio
import contextlib
import sys
import threading

import echomq
from hearing import JOB

url, name, way = sys.argv[1:]
client = echomq.Client(url)
events = client.events(name)
listener = events.listen()
subscriber, idle = listener.subscribe(), listener.subscribe()
heard = threading.Semaphore(0)
token = events.watch(JOB)


def hear():
    for _ in subscriber:
        heard.release()


def fold(count, _):
    heard.release()
    return count + 1


def wait_for_the_token():
    with contextlib.suppress(echomq.ClosedError):
        token.wait()


def publish():
    with contextlib.suppress(echomq.ClosedError):
        while True:
            events.publish("added", JOB)


reductions = [listener.reduce(fold, 0) for _ in range(3)]
threads = [threading.Thread(target=work, daemon=True) for work in (hear, idle.next, wait_for_the_token, publish)]
for thread in threads:
    thread.start()
for _ in range(100):
    heard.acquire()


async def main():
    other = await echomq.aio.Client(url)
    ear = await other.events(name).listen()
    reduction = ear.reduce(fold, 0)
    follower = ear.subscribe()
    watched = await other.events(name).watch(JOB)
    waiting = [asyncio.ensure_future(anext(follower, None)), asyncio.ensure_future(watched)]
    await anext(ear.subscribe(), None)
    if way == "closed":
        reduction.close()
        await reduction.join()
        follower.close()
        await waiting[0]
        waiting[1].cancel()
        await other.close()
    return other, ear, reduction, follower, waiting


left = asyncio.run(main())
if way == "closed":
    for reduction in reductions:
        reduction.close()
        reduction.join()
    listener.close()
    client.close()
    for thread in threads:
        thread.join()
print("end")
