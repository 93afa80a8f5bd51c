"""Forks with a consumer and a tail in use; each child says what it could do, the parent goes on."""

import asyncio
import os
import sys
import warnings
from datetime import timedelta

import echomq

# Later versions of Python warn of what is tried here on purpose.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

url, name = sys.argv[1:]
client = echomq.Client(url, node_id=7)
stream = client.stream("tests", name)
stream.append_batch([{"of": "parent"}] * 10)
consumer = stream.consumer("g", start="head")
tail = stream.tail("head")
delivery = next(consumer)
aio_client = echomq.aio.Client(url, node_id=7)
aio_consumer = None


async def connect():
    global aio_consumer
    await aio_client
    aio_consumer = await aio_client.stream("tests", name).consumer("h", start="head")
    await anext(aio_consumer)


def code(call):
    try:
        return call()
    except echomq.EchoMQError as error:
        return error.code


async def inherited():
    try:
        return await anext(aio_consumer)
    except echomq.EchoMQError as error:
        return error.code


async def own():
    async with (
        echomq.aio.Client(url, node_id=9) as made,
        made.stream("tests", name + "-child").consumer("b", start="head") as mine,
    ):
        return (await anext(mine)).record.get("of")


def child():
    said = [
        code(lambda: next(consumer)),
        code(consumer.next_batch),
        code(lambda: consumer.run(print)),
        code(consumer.flush),
        code(consumer.stop),
        code(lambda: next(tail)),
        code(delivery.ack),
        code(lambda: delivery.fail("why")),
        code(delivery.extend),
        code(lambda: stream.consumer("g", start="head")),
        list(consumer.notices()),
        asyncio.run(inherited()),
    ]
    expected = ["closed"] * 4 + [0] + ["closed"] * 5 + [[], "closed"]
    assert said == expected, said
    with echomq.Client(url, node_id=8) as made:
        events = made.stream("tests", name + "-child")
        events.append({"of": "child"})
        with events.consumer("a", start="head") as mine:
            taken = next(mine)
            assert taken.record.get("of") == "child"
            taken.ack()
    assert asyncio.run(own()) == "child"


asyncio.run(connect())
outcomes = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        child()
        sys.stdout.flush()
        os._exit(0)
    outcomes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
delivery.ack()
for _ in range(9):
    next(consumer).ack()
left = consumer.stop(timedelta(hours=1))
print(outcomes, left, client.command("XPENDING", stream.key, "g")[0], next(tail).get("of"))
