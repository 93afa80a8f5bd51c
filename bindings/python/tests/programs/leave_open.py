"""Ends with everything left open: a client, calls under way in daemon threads and in a loop, a consumer of a page."""

import asyncio
import sys
import threading

import echomq

url, key = sys.argv[1:]
client = echomq.Client(url, node_id=7)
stream = client.stream("tests", key)
under_way = threading.Barrier(4)


def work():
    stream.append({"n": "0"})
    under_way.wait()
    while True:
        stream.append({"n": "1"})


for _ in range(3):
    threading.Thread(target=work, daemon=True).start()


async def main():
    other = await echomq.aio.Client(url, node_id=8)
    pending = other.stream("tests", key + "-aio")
    reader = aiter(pending.read())
    return (
        other,
        reader,
        [pending.append({"n": str(n)}) for n in range(100)],
        asyncio.ensure_future(anext(reader, None)),
    )


left = asyncio.run(main())
under_way.wait()
print("end")
