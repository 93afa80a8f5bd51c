"""The asyncio client, seen through a plain client and on several loops."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import echomq
import pytest
import uvloop
from echomq import _echomq

T = datetime(2025, 1, 1, tzinfo=UTC)


async def test_calls_leave_in_the_order_in_which_they_are_made(aio_stream, plain, key):
    ids = await asyncio.gather(*(aio_stream.append({"n": str(n)}) for n in range(500)))
    assert ids == sorted(set(ids))
    stored = plain.execute_command("XRANGE", key, "-", "+")
    assert [fields for _, fields in stored] == [[b"id", id.encode(), b"n", b"%d" % n] for n, id in enumerate(ids)]


async def test_every_call_answers_what_the_waiting_client_answers(aio_client, aio_stream, client, stream):
    assert aio_stream.key == stream.key
    first = await aio_stream.append_id("EVT09nSpDrNwci", [("n", "0"), ("n", b"\xff")])
    assert first == "EVT09nSpDrNwci"
    one, wrong = await aio_stream.append_batch([{"n": "1"}, {"id": "x"}])
    assert (type(one), wrong.code) == (str, "reserved_field")
    assert len(await aio_stream.append_batch([{"n": "2"}, {"n": "3"}], atomic=True)) == 2
    assert await aio_stream.append_batch([], atomic=True) == await aio_stream.append_batch([]) == []
    assert await aio_stream.read().all() == stream.read().all()
    assert await aio_stream.read_last(2).all() == stream.read_last(2).all()
    assert await aio_stream.read_window(T, T).all() == stream.read_window(T, T).all()
    assert len(await aio_stream.read_since(T + timedelta(milliseconds=1)).all()) == 3
    assert await aio_stream.trim(max_len=2, exact=True) == 2
    assert await aio_stream.trim(min_id=datetime.now(UTC) + timedelta(hours=1), exact=True) == 2
    assert echomq.Id(await aio_client.mint()) < echomq.Id(await aio_client.mint())
    assert await aio_client.command("ECHO", b"\xff") == b"\xff"
    answers = await aio_client.pipeline([["ECHO", "a"], ["NONSENSE"]])
    assert (answers[0], type(answers[1])) == (b"a", echomq.ServerError)
    assert aio_client.status() == client.status()
    assert repr(aio_client).startswith("<echomq.aio.Client")


async def test_readers_are_asynchronous_iterators(aio_stream):
    await aio_stream.append_batch([{"n": str(n)} for n in range(7)])
    assert [record.get("n") async for record in aio_stream.read(page_size=2)] == list("0123456")
    reader = aio_stream.read(page_size=3)
    async for record in reader:
        if record.get("n") == "1":
            break
    assert [record.get("n") for record in await reader.next_page()] == ["2"]
    assert (await anext(reader)).get("n") == "3"
    assert [record.get("n") for record in await reader.all()] == ["4", "5", "6"]
    assert await reader.next_page() is None
    assert await reader.all() == []
    with pytest.raises(StopAsyncIteration):
        await anext(reader)


async def test_errors_are_raised_where_the_future_is_awaited(aio_stream, plain, key):
    plain.set(key, "no stream")
    futures = [
        aio_stream.append({}),
        aio_stream.trim(max_len=1),
        aio_stream.read().all(),
        aio_stream.read().next_page(),
    ]
    for future in futures:
        with pytest.raises(echomq.WrongTypeError):
            await future
    with pytest.raises(echomq.WrongTypeError):
        _ = [record async for record in aio_stream.read()]
    with pytest.raises(echomq.ReservedFieldError):
        await aio_stream.append({"id": "x"})
    # Arguments of a wrong type are a mistake in the call itself.
    with pytest.raises(TypeError):
        aio_stream.append({"n": 1})
    with pytest.raises(echomq.MalformedIdError):
        aio_stream.read("EVT")


async def test_a_cancelled_future_gives_up_the_answer_only(own_server):
    async with echomq.aio.Client(own_server.url, node_id=7, timeout=timedelta(hours=1)) as client:
        stream = client.stream("q", "s")
        own_server.pause()
        futures = [stream.append({"n": str(n)}) for n in range(100)]
        assert all(future.cancel() for future in futures[::2])
        own_server.resume()
        ids = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(id, asyncio.CancelledError) for id in ids[::2])
        stored = await stream.read().all()
        assert [record.get("n") for record in stored] == [str(n) for n in range(100)]
        assert [record.id for record in stored[1::2]] == ids[1::2]


async def test_a_reader_loses_nothing_by_a_cancelled_wait(aio_stream):
    await aio_stream.append_batch([{"n": str(n)} for n in range(5)])
    reader = aio_stream.read(page_size=2)
    for wait in (lambda: anext(reader), reader.next_page, reader.all):
        waiting = asyncio.ensure_future(wait())
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert [record.get("n") for record in await reader.all()] == ["0", "1", "2", "3", "4"]


async def test_timeouts_of_asyncio_work(own_server):
    async with echomq.aio.Client(own_server.url, node_id=7, timeout=timedelta(hours=1)) as client:
        own_server.pause()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.command("PING")
        own_server.resume()
        assert await client.command("PING") == b"PONG"


async def test_a_client_is_connected_by_await_or_by_async_with(url):
    client = echomq.aio.Client(url)
    for call in (client.status, client.mint, lambda: client.stream("q", "s"), lambda: client.command("PING")):
        with pytest.raises(echomq.StateError, match="not connected"):
            call()
    assert await client.close() == 0
    assert await client is client
    assert await client is client
    assert await client.command("PING") == b"PONG"
    assert client.status().connected
    assert await client.close() == 0
    assert await client.close(timedelta(0)) == 0
    with pytest.raises(echomq.ClosedError):
        await client.command("PING")


async def test_two_that_connect_at_once_get_one_client(url):
    client = echomq.aio.Client(url)
    first, second = await asyncio.gather(client, client)
    assert first is second is client
    assert await client.command("PING") == b"PONG"
    await client.close()


async def test_options_are_checked_as_in_the_other_client(url):
    with pytest.raises(echomq.InvalidOptionError):
        echomq.aio.Client(url, timeout=0)
    with pytest.raises(echomq.InvalidOptionError):
        echomq.aio.Client("http://localhost")
    with pytest.raises(echomq.InvalidOptionError, match="TLS"):
        await echomq.aio.Client(url, tls_ca="/no/such/file")


def test_without_a_running_loop_there_is_a_clear_error(url):
    client = echomq.aio.Client(url)
    with pytest.raises(RuntimeError, match="no running event loop"):
        client.close()
    with pytest.raises(RuntimeError, match="no running event loop"):
        client.__await__()


async def work(client, name, count):
    stream = client.stream("tests", name)
    ids = await asyncio.gather(*(stream.append({"n": str(n)}) for n in range(count)))
    return [id for id, record in zip(ids, await stream.read(ids[0]).all(), strict=False) if record.id == id]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_both_loops(run, url, name):
    async def main():
        async with echomq.aio.Client(url, node_id=7) as client:
            return await work(client, name, 300)

    assert len(run(main())) == 300


def test_one_client_on_one_loop_after_another(url, name):
    client = echomq.aio.Client(url, node_id=7)

    async def connect():
        await client

    asyncio.run(connect())
    for run in (asyncio.run, uvloop.run, asyncio.run):
        assert len(run(work(client, name, 50))) == 50
    asyncio.run(close(client))


async def close(client):
    await client.close()


def test_one_client_on_several_loops_at_once(url, name):
    client = echomq.aio.Client(url, node_id=7)

    async def connect():
        await client

    asyncio.run(connect())
    found = []

    def thread(number):
        found.extend(asyncio.run(work(client, f"{name}-{number}", 200)))

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(set(found)) == 1_200
    asyncio.run(close(client))


def test_a_loop_that_ends_with_calls_under_way_harms_no_other(url, name):
    client = echomq.aio.Client(url, node_id=7)

    async def leave():
        await client
        stream = client.stream("tests", name)
        return [stream.append({"n": str(n)}) for n in range(100)]

    left = asyncio.run(leave())
    assert len(asyncio.run(work(client, name, 50))) == 50
    assert not [future for future in left if future.done() and not future.cancelled() and future.exception()]
    asyncio.run(close(client))


async def test_a_panic_in_the_runtime_ends_the_wait(aio_client):
    with pytest.raises(BaseException, match="panicked") as caught:
        await _echomq.panic_in_runtime_for_tests()
    assert type(caught.value).__name__ == "PanicException"
    assert await aio_client.command("PING") == b"PONG"


async def test_the_loop_goes_on_while_a_call_waits(own_server):
    async with echomq.aio.Client(own_server.url, node_id=7, timeout=timedelta(hours=1)) as client:
        own_server.pause()
        waiting = client.command("PING")
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert not waiting.done()
        own_server.resume()
        assert await waiting == b"PONG"
