"""What the tests share: one server for all that leave it whole, and streams and queues of their own."""

import asyncio

import echomq
import pytest
import valkey
from hearing import Ear, InLoop, Waiting
from server import Server

NODE = 7


@pytest.fixture(scope="session")
def server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def own_server():
    """A server that a test may pause and kill; it keeps what it has answered."""
    server = Server(durable=True)
    yield server
    server.stop()


@pytest.fixture
def url(server):
    return server.url


@pytest.fixture
def plain(server):
    """A plain client, which knows nothing of the bus and gives replies as they come."""
    with valkey.Valkey(port=server.port) as client:
        client.response_callbacks.clear()
        yield client


@pytest.fixture
def name(request):
    """The name of a stream that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-100:]


@pytest.fixture
def key(name):
    return f"emq:{{tests}}:stream:{name}"


@pytest.fixture
def client(url):
    with echomq.Client(url, node_id=NODE) as client:
        yield client


@pytest.fixture
def stream(client, name):
    return client.stream("tests", name)


@pytest.fixture
async def aio_client(url):
    async with echomq.aio.Client(url, node_id=NODE) as client:
        yield client


@pytest.fixture
def aio_stream(aio_client, name):
    return aio_client.stream("tests", name)


@pytest.fixture
def events(client, name):
    """The events of a queue that no other test uses."""
    return client.events(name)


@pytest.fixture
def aio_events(aio_client, name):
    return aio_client.events(name)


@pytest.fixture
def channel(name):
    return f"emq:{{{name}}}:events"


@pytest.fixture
def ear(plain, channel):
    """What a plain client hears on the channel."""
    with Ear(plain, channel) as ear:
        yield ear


@pytest.fixture(params=["waiting", "asyncio"])
def either(request, url, name):
    """The events of the queue by one client or the other, whose calls are made to their end."""
    if request.param == "waiting":
        with echomq.Client(url, node_id=NODE) as client:
            yield Waiting(client.events(name))
        return
    with asyncio.Runner() as runner:
        client = echomq.aio.Client(url, node_id=NODE)
        runner.run(InLoop.entered(client))
        yield InLoop(client.events(name), runner)
        runner.run(InLoop.left(client))
