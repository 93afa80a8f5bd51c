"""Notices: each kind, told beside the deliveries."""

from datetime import timedelta

import echomq
import pytest
import valkey
from consuming import append, numbered, pending
from echomq import _echomq
from waiting import wait_until

HOUR = timedelta(hours=1)
QUICK = {"reconnect_min": 5, "reconnect_max": 20}


def of_kind(consumer, kind):
    return next(notice for notice in consumer.notices() if notice.kind == kind)


def test_failed_and_dead_letter(stream):
    id = stream.append({})
    with stream.consumer("g", start="head", max_attempts=1) as consumer:
        next(consumer).fail("why")
        first, second = of_kind(consumer, "failed"), of_kind(consumer, "dead_letter")
    for notice in (first, second):
        assert (notice.id, notice.entry_id, notice.attempts) == (id, echomq.Id(id).entry_id, 1)
        assert notice.code is None
    [letter] = stream.dead_letters()
    assert (first.message, letter.id in second.message) == ("why", True)
    assert str(first) == f"failed: why ({first.entry_id})"
    assert first != second
    assert list(consumer.notices()) == []


def test_lost(stream, plain, key):
    """K6: what was trimmed away while it was pending is told, and not handed out."""
    ids = stream.append_batch(numbered(3))
    stream.create_group("g", "head")
    plain.execute_command("XREADGROUP", "GROUP", "g", "c", "STREAMS", key, ">")
    stream.trim(max_len=1, exact=True)
    with stream.consumer("g", start="head", consumer="c") as consumer:
        delivery = next(consumer)
        assert (delivery.id, delivery.attempts) == (ids[2], 2)
        delivery.ack()
        notices = consumer.notices()
        lost = [next(notices) for _ in range(2)]
        wait_until(lambda: pending(plain, key, "g") == [], "all are acknowledged")
    assert [(notice.kind, notice.id) for notice in lost] == [("lost", id) for id in ids[:2]]


def test_foreign(stream, plain, key):
    [entry_id] = append(plain, key, "x")
    with stream.consumer("g", start="head", on_foreign="skip") as consumer:
        assert of_kind(consumer, "foreign").entry_id == entry_id


def test_group_recreated(stream, plain, key):
    """K1."""
    with stream.consumer("g", start="head", beat=20) as consumer:
        stream.append({})
        next(consumer).ack()
        consumer.flush()
        plain.execute_command("DEL", key)
        assert of_kind(consumer, "group_recreated").entry_id is None
        ids = stream.append_batch(numbered(3))
        assert [next(consumer).id for _ in range(3)] == ids


def test_disconnected_and_reconnected(own_server):
    """C14: a consumer goes on after a restart of the server."""
    with echomq.Client(own_server.url, node_id=7, timeout=HOUR, **QUICK) as client:
        stream = client.stream("q", "s")
        with stream.consumer("g", start="head", beat=50) as consumer:
            for _ in range(3):
                ids = stream.append_batch(numbered(20))
                for _ in ids:
                    next(consumer).ack()
                consumer.flush()
                own_server.kill()
                notice = of_kind(consumer, "disconnected")
                assert notice.code == "disconnected"
                own_server.restart()
                of_kind(consumer, "reconnected")
            with valkey.Valkey(port=own_server.port) as plain:
                plain.response_callbacks.clear()
                assert pending(plain, stream.key, "g") == []


def test_trouble(own_server):
    with echomq.Client(own_server.url, node_id=7, timeout=2_000, **QUICK) as client:
        stream = client.stream("q", "s")
        stream.append({})
        with stream.consumer("g", start="head") as consumer:
            delivery = next(consumer)
            own_server.pause()
            delivery.ack()
            notice = of_kind(consumer, "trouble")
            assert notice.code in ("timeout", "disconnected", "unknown_outcome")
            own_server.resume()
            stream.append({})
            next(consumer).ack()

            def arrived():
                try:
                    consumer.flush()
                except echomq.EchoMQError:
                    return False
                return True

            wait_until(arrived, "the verdicts arrive")
            assert client.command("XPENDING", stream.key, "g")[0] == 0


def test_missed(stream):
    stream.append({})
    with stream.consumer("g", start="head", retry=0) as consumer:
        for _ in range(1_026):
            next(consumer).fail("why")
        notices = consumer.notices()
        first = next(notices)
        assert first.kind == "missed"
        assert first.message.startswith("2 ")
        assert next(notices).attempts == 3


async def test_notices_of_asyncio(aio_stream):
    ids = await aio_stream.append_batch(numbered(2))
    async with aio_stream.consumer("g", start="head", max_attempts=1) as consumer:
        notices = consumer.notices()
        first = anext(notices)
        (await anext(consumer)).fail("why")
        assert ((await first).kind, (await anext(notices)).kind) == ("failed", "dead_letter")
        (await anext(consumer)).fail("why")
        assert (await anext(notices)).id == ids[1]
        await consumer.flush()
    assert [notice.kind async for notice in notices] == ["dead_letter"]


def test_every_kind_is_documented():
    documented = echomq.Notice.__doc__.split("is one of", 1)[1].split(";", 1)[0]
    assert documented.replace(" and ", ", ").split("``")[1::2] == _echomq.NOTICE_KINDS


@pytest.mark.parametrize("value", ["kind", "message", "entry_id", "id", "attempts", "code"])
def test_a_notice_is_read_only(stream, value):
    stream.append({})
    with stream.consumer("g", start="head") as consumer:
        next(consumer).fail("why")
        with pytest.raises(AttributeError):
            setattr(next(consumer.notices()), value, "x")


def test_a_client_tells_of_its_connection_until_it_is_closed(url):
    client = echomq.Client(url)
    notices = client.notices()
    assert next(notices).kind == "connected"
    client.close()
    assert list(notices) == []


async def test_a_client_of_asyncio_tells_too(url):
    client = await echomq.aio.Client(url)
    notices = client.notices()
    assert (await anext(notices)).kind == "connected"
    await client.close()
    assert [notice async for notice in notices] == []


def test_the_same_trouble_is_told_once_a_second_with_how_many_it_stands_for(own_server):
    with (
        echomq.Client(own_server.url, **QUICK) as client,
        valkey.Valkey(port=own_server.port) as plain,
    ):
        plain.response_callbacks.clear()
        stream = client.stream("q", "s")
        stream.append({})
        with stream.consumer("g", start="head", beat=10) as consumer:
            delivery = next(consumer)
            plain.execute_command("ACL", "SETUSER", "default", "-xack")
            delivery.ack()
            first = of_kind(consumer, "trouble")
            assert (first.code, first.times) == ("auth", 1)
            next_one = of_kind(consumer, "trouble")
            assert next_one.code == "auth"
            assert next_one.times > 1
            assert f"({next_one.times} times)" in str(next_one)
            plain.execute_command("ACL", "SETUSER", "default", "+xack")
            wait_until(lambda: pending(plain, stream.key, "g") == [], "the verdict arrives")


def test_a_client_that_does_nothing_tells_that_its_server_is_gone(own_server):
    with echomq.Client(own_server.url, **QUICK) as client:
        own_server.kill()
        notices = client.notices()
        assert [next(notices).kind for _ in range(2)] == ["connected", "disconnected"]
        own_server.restart()
        client.command("PING")
        assert next(notices).kind == "connected"
