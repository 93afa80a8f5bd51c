"""Forks with listeners, reductions and tokens in use; each child says what it could do, the parent goes on."""

import asyncio
import os
import sys
import warnings
from datetime import timedelta

import echomq
from hearing import JOB
from waiting import wait_until

# Later versions of Python warn of what is tried here on purpose.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

url, name = sys.argv[1:]
client = echomq.Client(url)
events = client.events(name)
listener = events.listen()
subscriber = listener.subscribe()
reduction = listener.reduce(lambda count, _: count + 1, 0)
token, local = events.watch(JOB), echomq.CancelToken()
aio_client = echomq.aio.Client(url)
aio = {}


async def connect():
    await aio_client
    aio["events"] = aio_client.events(name)
    aio["listener"] = await aio["events"].listen()
    aio["subscriber"] = aio["listener"].subscribe()
    aio["token"] = await aio["events"].watch(JOB)


def code(call):
    try:
        return call()
    except echomq.EchoMQError as error:
        return error.code


def in_loop(make):
    async def call():
        return await make()

    return code(lambda: asyncio.run(call()))


def child():
    said = [
        code(lambda: events.publish("added", JOB)),
        code(lambda: events.cancel(JOB, "why")),
        code(events.listen),
        code(lambda: events.watch(JOB)),
        code(lambda: next(subscriber)),
        code(lambda: subscriber.next(timedelta(hours=1))),
        code(listener.subscribe),
        code(lambda: listener.reduce(print, None)),
        code(token.wait),
        token.watch_error.code,
        in_loop(lambda: aio["events"].publish("added", JOB)),
        in_loop(lambda: aio["events"].listen()),
        in_loop(lambda: anext(aio["subscriber"])),
        code(aio["listener"].subscribe),
        in_loop(lambda: aio["token"]),
        in_loop(lambda: token),
    ]
    assert said == ["closed"] * 16, said
    # Nothing is there to be ended, and a token of its own works.
    reduction.close()
    assert (reduction.join(), reduction.state) == (True, 0)
    for each in (subscriber, listener, aio["subscriber"], aio["listener"]):
        each.close()
    assert local.cancel("in the child")
    assert local.wait() == in_loop(lambda: local) == "in the child"
    with echomq.Client(url) as made, made.events(name + "-child").listen() as mine, mine.subscribe() as heard:
        assert made.events(name + "-child").publish("added", JOB) == 1
        assert next(heard).name == "added"


asyncio.run(connect())
outcomes = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        child()
        sys.stdout.flush()
        os._exit(0)
    outcomes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
heard = [events.publish("added", JOB), next(subscriber).name, in_loop(lambda: anext(aio["subscriber"])).name]
wait_until(lambda: reduction.state == 1, "it is folded")
events.cancel(JOB, "in the parent")
print(outcomes, heard, token.wait(), local.check())
