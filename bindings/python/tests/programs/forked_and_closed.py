"""A child that closes every descriptor it inherited, as daemons do; it uses a client and a consumer of its own."""

import asyncio
import os
import socket
import sys
import warnings

import echomq

# Later versions of Python warn of what is tried here on purpose.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

url, name, reuse = sys.argv[1:]

# A client with a runtime, a consumer and an event loop: whatever a parent can have.
parent = echomq.Client(url)
held = parent.stream("tests", name).consumer("parent", start="new")


async def waited():
    async with echomq.aio.Client(url) as client:
        return await client.command("PING")


asyncio.run(waited())


def child():
    os.closerange(3, 1_024)
    # The application has the numbers for sockets of its own, and what arrives there is for nobody else.
    pairs = [socket.socketpair() for _ in range(100)] if reuse == "reused" else []
    for _, theirs in pairs:
        theirs.send(b"for the application")
    with echomq.Client(url) as client:
        stream = client.stream("tests", name + "-child")
        stream.append_batch([{"n": str(n)} for n in range(5)])
        with stream.consumer("g", start="head") as consumer:
            for delivery in consumer:
                print(delivery.record.get("n"), flush=True)
                delivery.ack()
                if delivery.record.get("n") == "4":
                    break
    assert asyncio.run(waited()) == b"PONG"
    assert all(ours.recv(100) == b"for the application" for ours, _ in pairs)
    for ours, _ in pairs:
        ours.setblocking(False)
        try:
            more = ours.recv(100)
        except BlockingIOError:
            continue
        raise AssertionError(f"the application heard {more!r}")
    for pair in pairs:
        for end in pair:
            end.close()


pid = os.fork()
if pid == 0:
    try:
        child()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if sys.exc_info()[0] else 0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert parent.command("PING") == b"PONG"
print("and the parent goes on")
