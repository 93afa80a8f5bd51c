"""The system gives no thread: each call says so by a typed error, and works once threads are there again."""

import asyncio
import os
import resource
import sys
import threading

import echomq

url, name = sys.argv[1:]

# The bound counts for users other than root; a number that nobody else has.
if os.getuid() == 0:
    os.setgid(54_321)
    os.setuid(54_321)
NONE, ALL = 1, resource.getrlimit(resource.RLIMIT_NPROC)[1]


def threads(bound):
    resource.setrlimit(resource.RLIMIT_NPROC, (bound, ALL))


def refused(call):
    """The code of the error that a call ends with while there are no threads."""
    threads(NONE)
    try:
        answer = call()
    except echomq.EchoMQError as error:
        return error.code
    finally:
        threads(ALL)
    raise AssertionError(f"it answered {answer!r}")


async def connected():
    async with echomq.aio.Client(url) as client:
        return await client.command("PING")


threads(NONE)
try:
    threading.Thread(target=print).start()
except RuntimeError:
    print("there are no threads")
threads(ALL)

by_name = url.replace("127.0.0.1", "localhost")
print(refused(lambda: echomq.Client(url)), refused(lambda: asyncio.run(connected())))
with echomq.Client(url) as client:
    stream = client.stream("tests", name)
    # The first consumer needs the runtime.
    print(refused(lambda: stream.consumer("g", start="head")), refused(lambda: stream.tail("new")))
    print(refused(lambda: client.events(name).listen()))
    stream.append({"n": "0"})
    with stream.consumer("g", start="head", concurrency=2) as consumer:
        print(refused(lambda: consumer.run(print)))
        delivery = next(consumer)
        delivery.ack()
        print(delivery.record.get("n"))
    with client.events(name).listen() as listener:
        print(refused(lambda: listener.reduce(lambda state, _: state, 0)))
    print(asyncio.run(connected()))


async def by_name_refused():
    """The runtime is there, and a name is looked up on a thread more."""
    client = echomq.aio.Client(by_name)
    threads(NONE)
    try:
        await client
    except echomq.EchoMQError as error:
        print(error.code)
    finally:
        threads(ALL)
    assert await client.command("PING") == b"PONG" if await client else None
    await client.close()


asyncio.run(by_name_refused())
