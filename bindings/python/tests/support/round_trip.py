"""A round trip through an installed package, with nothing of the checkout but the server of the tests."""

import asyncio
import importlib.util
import sys
from pathlib import Path

import echomq

HERE = Path(__file__).resolve().parent


def server_of_the_tests():
    spec = importlib.util.spec_from_file_location("server", HERE / "server.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Server()


async def asynchronous(url):
    async with echomq.aio.Client(url, node_id=7) as client:
        events = client.stream("packages", "events")
        id = await events.append({"from": "asyncio"})
        return id, [record.get("from") async for record in events.read()]


def main():
    assert HERE.parents[1] not in Path(echomq.__file__).resolve().parents, echomq.__file__
    server = server_of_the_tests()
    try:
        with echomq.Client(server.url, node_id=7) as client:
            first = client.stream("packages", "events").append({"from": "threads", "raw": b"\xff"})
        second, found = asyncio.run(asynchronous(server.url))
    finally:
        server.stop()
    assert first < second, (first, second)
    assert found == ["threads", "asyncio"], found
    version, place = sys.version.split()[0], Path(echomq.__file__).parent
    print(f"echomq {echomq.__version__} from {place} on Python {version}: {first}, {second}")


main()
