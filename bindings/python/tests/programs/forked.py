"""Forks with clients open and in use; each child says what it could do, the parent goes on."""

import asyncio
import multiprocessing
import os
import sys
import threading
import warnings

import echomq

# Later versions of Python warn of what is tried here on purpose.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

url, name, way = sys.argv[1:]
client = echomq.Client(url, node_id=7)
stream = client.stream("tests", name)
reader = stream.read()
aio_client = echomq.aio.Client(url, node_id=7)
aio_stream = None


async def connect():
    global aio_stream
    await aio_client
    aio_stream = aio_client.stream("tests", name + "-aio")
    await aio_stream.append({"of": "parent"})


def code(call):
    try:
        return call()
    except echomq.EchoMQError as error:
        return error.code


async def inherited():
    try:
        return await aio_stream.append({"of": "child"})
    except echomq.EchoMQError as error:
        return error.code


async def own():
    async with echomq.aio.Client(url, node_id=9) as made:
        return await made.stream("tests", name + "-child-aio").append({"of": "child"})


def child():
    said = [
        code(lambda: stream.append({"of": "child"})),
        code(lambda: client.command("PING")),
        code(lambda: next(reader)),
        code(client.mint),
        client.close(),
        asyncio.run(inherited()),
    ]
    assert said == ["closed", "closed", "closed", "node_lease_lost", 0, "closed"], said
    with echomq.Client(url, node_id=8) as made:
        assert made.command("PING") == b"PONG"
        events = made.stream("tests", name + "-child")
        [record] = events.read(events.append({"of": "child"}))
        assert record.get("of") == "child"
    assert asyncio.run(own()).startswith("EVT")


def by_fork():
    pid = os.fork()
    if pid == 0:
        child()
        sys.stdout.flush()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def by_multiprocessing():
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    return process.exitcode


def keep_busy(until):
    while not until.is_set():
        stream.append({"of": "parent"})


asyncio.run(connect())
stop = threading.Event()
busy = threading.Thread(target=keep_busy, args=(stop,))
busy.start()
outcomes = [{"fork": by_fork, "multiprocessing": by_multiprocessing}[way]() for _ in range(5)]
stop.set()
busy.join()


async def go_on():
    await aio_stream.append({"of": "parent"})
    return [record.get("of") async for record in aio_stream.read()]


print(outcomes, {record.get("of") for record in stream.read()}, asyncio.run(go_on()))
