"""What becomes of calls when the server goes away."""

import asyncio
import itertools
import socket
import threading
from datetime import timedelta

import echomq
import pytest
import valkey
from server import free_port
from waiting import wait_until

LONG = timedelta(minutes=5)
QUICK = {"reconnect_min": 5, "reconnect_max": 20}


def stored(server, key):
    with valkey.Valkey(port=server.port) as plain:
        plain.response_callbacks.clear()
        return [fields[1].decode() for _, fields in plain.execute_command("XRANGE", key, "-", "+")]


def test_appends_of_threads_survive_a_killed_server(own_server):
    key = "emq:{q}:stream:s"
    with echomq.Client(own_server.url, node_id=7, timeout=LONG, **QUICK) as client:
        stream = client.stream("q", "s")
        answered, stop = [[] for _ in range(4)], threading.Event()

        def work(ids):
            while not stop.is_set():
                ids.append(stream.append({"n": str(len(ids))}))

        threads = [threading.Thread(target=work, args=(ids,)) for ids in answered]
        for thread in threads:
            thread.start()
        for _ in range(3):
            reached = sum(map(len, answered))
            wait_until(lambda reached=reached: sum(map(len, answered)) > reached + 50, "appends go on")
            own_server.kill()
            own_server.restart()
        reached = sum(map(len, answered))
        wait_until(lambda: sum(map(len, answered)) > reached + 50, "appends go on")
        stop.set()
        for thread in threads:
            thread.join()
        assert stored(own_server, key) == sorted(itertools.chain(*answered))
        assert client.status().connected
        assert client.status().reconnects >= 3


async def test_calls_under_way_and_calls_that_wait_are_all_settled(own_server):
    async with echomq.aio.Client(own_server.url, node_id=7, timeout=LONG, **QUICK) as client:
        stream = client.stream("q", "s")
        await stream.append({"n": "before"})
        own_server.pause()
        sent = [stream.append({"n": str(n)}) for n in range(100)]
        await asyncio.sleep(0)
        own_server.kill()
        await asyncio.to_thread(wait_until, lambda: not client.status().connected, "the connection is gone")
        waiting = [stream.append({"n": str(n)}) for n in range(100, 200)]
        own_server.restart()
        ids = await asyncio.gather(*sent, *waiting)
        assert stored(own_server, "emq:{q}:stream:s")[1:] == ids
        assert client.status().reconnects == 1


def test_the_same_client_goes_on_after_a_restart(own_server):
    with echomq.Client(own_server.url, node_id=7, timeout=LONG, **QUICK) as client:
        stream = client.stream("q", "s")
        first = stream.append({"n": "1"})
        own_server.kill()
        own_server.restart()
        second = stream.append({"n": "2"})
        assert [record.id for record in stream.read()] == [first, second]
        status = client.status()
        assert (status.connected, status.reconnects) == (True, 1)
        assert repr(status) == "Status(connected=True, reconnects=1, error=None)"


def test_no_server_at_the_start():
    url = f"redis://127.0.0.1:{free_port()}"
    with pytest.raises(echomq.DisconnectedError):
        echomq.Client(url)

    async def main():
        with pytest.raises(echomq.DisconnectedError):
            await echomq.aio.Client(url)
        with pytest.raises(echomq.DisconnectedError):
            async with echomq.aio.Client(url):
                pass

    asyncio.run(main())


def test_a_server_that_does_not_answer_at_the_start():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(echomq.DisconnectedError):
            echomq.Client(url, connect_timeout=50)


def test_deadlines_hold_while_the_server_is_silent_or_gone(own_server):
    with echomq.Client(own_server.url, node_id=7, timeout=2_000, **QUICK) as client:
        stream = client.stream("q", "s")
        client.mint()  # It has its node, so that an append is sent.
        own_server.pause()
        with pytest.raises(echomq.UnknownOutcomeError) as caught:
            stream.append({"n": "1"})
        assert echomq.Id(caught.value.id).node == 7
        with pytest.raises((echomq.TimeoutError, echomq.DisconnectedError)):
            stream.read().all()
        own_server.kill()
        with pytest.raises(echomq.DisconnectedError):
            stream.append({"n": "2"})
        own_server.restart()
        # The id of the open question answers it.
        assert stream.append_id(caught.value.id, {"n": "1"}) == caught.value.id
        assert stored(own_server, "emq:{q}:stream:s") == [caught.value.id]


async def test_too_many_calls_are_refused_at_once(own_server):
    async with echomq.aio.Client(own_server.url, node_id=7, timeout=LONG, max_in_flight=10) as client:
        stream = client.stream("q", "s")
        own_server.pause()
        futures = [stream.append({"n": str(n)}) for n in range(15)]
        assert [future.done() for future in futures] == [False] * 10 + [True] * 5
        for future in futures[10:]:
            with pytest.raises(echomq.OverloadedError):
                await future
        own_server.resume()
        ids = await asyncio.gather(*futures[:10])
        assert stored(own_server, "emq:{q}:stream:s") == ids


def test_close_reports_what_it_gave_up(own_server):
    client = echomq.Client(own_server.url, node_id=7, timeout=LONG, client_name="closing")
    client.mint()  # It has its node, so that an append is sent.
    stream = client.stream("q", "s")
    raised = []

    def work():
        with pytest.raises(echomq.UnknownOutcomeError) as caught:
            stream.append({"n": "1"})
        raised.append(caught.value.id)

    with valkey.Valkey(port=own_server.port) as plain:
        plain.execute_command("CLIENT PAUSE", 600_000, "WRITE")
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: [c for c in plain.client_list() if c["name"] == "closing" and "b" in c["flags"]], "it waits")
        assert client.close(timedelta(milliseconds=50)) == 1
        assert client.close() == 0
        thread.join()
        plain.execute_command("CLIENT UNPAUSE")
    assert [echomq.Id(id).node for id in raised] == [7]
    with pytest.raises(echomq.ClosedError):
        stream.append({})


async def test_close_of_the_asyncio_client_reports_what_it_gave_up(own_server):
    client = await echomq.aio.Client(own_server.url, node_id=7, timeout=LONG)
    stream = client.stream("q", "s")
    own_server.pause()
    futures = [stream.append({"n": str(n)}) for n in range(20)]
    assert await client.close(timedelta(milliseconds=50)) == 20
    assert await client.close() == 0
    for future in futures:
        with pytest.raises((echomq.ClosedError, echomq.UnknownOutcomeError)):
            await future
    own_server.resume()


def test_a_closed_client_says_so(url):
    client = echomq.Client(url, node_id=7)
    stream = client.stream("tests", "closed")
    assert client.close() == 0
    assert client.close(timedelta(seconds=1)) == 0
    for call in (lambda: stream.append({}), stream.read().all, lambda: client.command("PING")):
        with pytest.raises(echomq.ClosedError):
            call()
    with pytest.raises(echomq.InvalidOptionError):
        client.close(timedelta(seconds=-1))
    with pytest.raises(TypeError):
        client.close(1)
