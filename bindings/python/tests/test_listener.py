"""Listeners and their subscribers, of both kinds."""

import asyncio
import threading
from datetime import timedelta

import echomq
import pytest
import uvloop
import valkey
from hearing import JOB, listening, names, refusal
from waiting import begun, wait_until

SOON = timedelta(seconds=60)
QUICK = {"reconnect_min": 5, "reconnect_max": 20}


def numbers(events, first, last):
    for number in range(first, last):
        events.publish(str(number), JOB)


def test_a_subscriber_hears_from_now_on(events, plain, channel):
    events.publish("before", JOB)
    with events.listen() as listener, listener.subscribe() as subscriber:
        assert listening(plain, channel) == 1
        assert (listener.channel, repr(listener)) == (channel, f"<echomq.Listener({channel})>")
        assert repr(subscriber) == f"<echomq.Subscriber({channel})>"
        numbers(events, 0, 3)
        assert names(subscriber, 3) == ["0", "1", "2"]
        assert subscriber.next(timedelta(milliseconds=1)) is None
        threading.Timer(0.02, events.publish, ["3", JOB]).start()
        assert subscriber.next(SOON).name == "3"
        threading.Timer(0.02, events.publish, ["4", JOB]).start()
        assert names(subscriber, 1) == ["4"]
        status = listener.status()
        assert (status.connected, status.resubscriptions, status.error) == (True, 0, None)
        assert repr(status) == "ListenerStatus(connected=True, resubscriptions=0, error=None)"
    assert list(subscriber) == []
    assert subscriber.next() is None
    wait_until(lambda: listening(plain, channel) == 0, "the subscription ends")


def test_what_an_event_says(events, plain, channel):
    with events.listen() as listener, listener.subscribe() as subscriber:
        payload = b' {"progress" : "5\\/10", "n":7, "job":"JOB000xY9Wvvcd","event":"progress"}'
        plain.publish(channel, payload)
        plain.publish(channel, payload)
        event, same = next(subscriber), next(subscriber)
        assert (event.name, event.job, event.payload) == ("progress", JOB, payload)
        assert list(event.members.items()) == [("progress", "5/10"), ("n", "7"), ("job", JOB), ("event", "progress")]
        assert (event.get("progress"), event.get("n"), event.get("x"), event.get("x", 5)) == ("5/10", "7", None, 5)
        assert event.get("\udcff") is None
        assert (event == same, event == payload, event is same) == (True, False, False)
        for payload in (b"", b"hello", b"\xff\x00", b"[1]", b'{"job":"x"}'):
            plain.publish(channel, payload)
            event = next(subscriber)
            assert event != same
            assert (event.name, event.job, event.payload) == ("unknown", None, payload)
            assert repr(event) == f"Event({payload!r})"
            assert event.members == ({"job": "x"} if b"job" in payload else {})


def test_many_subscribers_of_one_subscription(events, plain, channel):
    with events.listen() as listener:
        subscribers = [listener.subscribe() for _ in range(1_000)]
        assert events.publish("0", JOB) == 1
        numbers(events, 1, 20)
        expected = [str(n) for n in range(20)]
        assert [names(subscriber, 20) for subscriber in subscribers] == [expected] * 1_000
        assert listening(plain, channel) == 1


def test_a_slow_one_among_ten(events):
    with events.listen() as listener:
        slow, *fast = [listener.subscribe(buffer=5), *(listener.subscribe() for _ in range(10))]
        numbers(events, 0, 500)
        assert [names(subscriber, 500) for subscriber in fast] == [[str(n) for n in range(500)]] * 10
        # Once the others hear the next, this one was told of all before.
        events.publish("next", JOB)
        assert [names(subscriber, 1) for subscriber in fast] == [["next"]] * 10
        assert names(slow, 5) == ["0", "1", "2", "3", "4"]
        gap = next(slow)
        assert gap.missed in (495, 496)
        assert not gap.reconnected
        assert repr(gap) == f"EventGap(missed={gap.missed}, reconnected=False)"
        events.publish("on", JOB)
        assert names(slow, 497 - gap.missed) == ["next", "on"][gap.missed - 495 :]


def test_threads_share_a_subscriber(events):
    heard, lock = [], threading.Lock()
    with events.listen() as listener, listener.subscribe(buffer=1_000) as subscriber:

        def take():
            for event in subscriber:
                with lock:
                    heard.append(event.name)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        numbers(events, 0, 300)
        wait_until(lambda: len(heard) == 300, "all are heard")
        subscriber.close()
        for thread in threads:
            thread.join()
    assert sorted(heard, key=int) == [str(n) for n in range(300)]


@pytest.mark.parametrize("buffer", [0, -1, 2**64])
def test_a_buffer_without_room(events, buffer):
    with events.listen() as listener:
        assert refusal(lambda: listener.subscribe(buffer=buffer)) == ("invalid_option", "buffer")
        for wrong in ("5", 1.5):
            with pytest.raises(TypeError, match="buffer is an int"):
                listener.subscribe(buffer=wrong)


def test_a_restarted_server_is_a_gap_for_each(own_server):
    with echomq.Client(own_server.url, **QUICK) as client, client.events("q").listen() as listener:
        events = client.events("q")
        subscribers, notices = [listener.subscribe() for _ in range(3)], listener.notices()
        for time in range(1, 6):
            own_server.kill()
            lost = next(notices)
            assert (lost.kind, lost.code) == ("disconnected", "disconnected")
            assert not listener.status().connected
            assert listener.status().error.code == "disconnected"
            own_server.restart()
            assert next(notices).kind == "reconnected"
            assert listener.status().resubscriptions == time
            gaps = [next(subscriber) for subscriber in subscribers]
            assert [(gap.missed, gap.reconnected) for gap in gaps] == [(0, True)] * 3
            assert gaps[0] == gaps[1]
            assert events.publish(str(time), JOB) == 1
            assert [next(subscriber).name for subscriber in subscribers] == [str(time)] * 3
        listener.close()
        assert list(notices) == []


def test_the_reason_is_told_once_when_a_listener_cannot_go_on(plain, url, name, channel):
    plain.execute_command("ACL", "SETUSER", "leaving", "on", ">known", "~*", "+@all", "resetchannels", f"&{channel}")
    with echomq.Client(url.replace("redis://", "redis://leaving:known@"), **QUICK) as client:
        listener = client.events(name).listen()
        subscriber = listener.subscribe()
        # The server cuts off who listens where it may no longer.
        plain.execute_command("ACL", "SETUSER", "leaving", "resetchannels")
        with pytest.raises(echomq.AuthError, match=f"&{channel}"):
            next(subscriber)
        assert list(subscriber) == []
    plain.execute_command("ACL", "DELUSER", "leaving")


def test_a_subscriber_ends_with_its_client(url, name):
    client = echomq.Client(url)
    listener = client.events(name).listen()
    subscriber = listener.subscribe()
    client.events(name).publish("last", JOB)
    wait_until(lambda: subscriber.next(timedelta(0)) is not None, "it hears")
    client.close()
    with pytest.raises(echomq.ClosedError):
        next(subscriber)
    assert list(subscriber) == []
    late = listener.subscribe()
    with pytest.raises(echomq.ClosedError):
        next(late)


def test_a_listener_ends_with_its_last_user(events, plain, channel):
    subscriber = events.listen().subscribe()
    events.publish("heard", JOB)
    assert names(subscriber, 1) == ["heard"]
    del subscriber
    wait_until(lambda: listening(plain, channel) == 0, "the subscription ends")
    listener = events.listen()
    assert listening(plain, channel) == 1
    listener.close()
    wait_until(lambda: listening(plain, channel) == 0, "the subscription ends")
    assert list(listener.subscribe()) == []


async def test_an_asynchronous_subscriber(aio_events, plain, channel):
    listener = aio_events.listen()
    assert repr(listener) == f"<echomq.aio.Listener, not started, {channel}>"
    for call in (listener.subscribe, listener.status, lambda: listener.reduce(print, None)):
        assert refusal(call) == ("state", None)
    assert await listener is listener
    assert repr(listener) == f"<echomq.aio.Listener({channel})>"
    async with listener, listener.subscribe() as subscriber:
        assert repr(subscriber) == f"<echomq.aio.Subscriber({channel})>"
        assert await asyncio.gather(*(aio_events.publish(str(n), JOB) for n in range(200))) == [1] * 200
        heard = []
        async for event in subscriber:
            heard.append(event.name)
            if len(heard) == 200:
                break
        assert heard == [str(n) for n in range(200)]
        for number in range(20):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(subscriber), 0.0005)
            await aio_events.publish(str(number), JOB)
            assert (await anext(subscriber)).name == str(number)
        waiting = await begun(anext(subscriber, None))
        assert listener.status().connected
    assert await waiting is None
    with pytest.raises(StopAsyncIteration):
        await anext(subscriber)
    await asyncio.to_thread(wait_until, lambda: listening(plain, channel) == 0, "the subscription ends")


async def test_many_asynchronous_subscribers_and_a_slow_one(aio_events):
    async with aio_events.listen() as listener:
        slow, subscribers = listener.subscribe(buffer=2), [listener.subscribe() for _ in range(1_000)]

        async def hear(subscriber):
            return [(await anext(subscriber)).name for _ in range(10)]

        hearing = asyncio.gather(*map(hear, subscribers))
        for number in range(10):
            assert await aio_events.publish(str(number), JOB) == 1
        assert await hearing == [[str(n) for n in range(10)]] * 1_000
        await aio_events.publish("next", JOB)
        assert (await anext(subscribers[-1])).name == "next"
        assert [(await anext(slow)).name for _ in range(2)] == ["0", "1"]
        assert (await anext(slow)).missed in (8, 9)


def test_another_loop(url, name):
    async def main():
        async with echomq.aio.Client(url) as client, client.events(name).listen() as listener:
            subscriber, token = listener.subscribe(), await client.events(name).watch(JOB)
            waiting = [asyncio.ensure_future(anext(subscriber)), asyncio.ensure_future(token)]
            await client.events(name).cancel(JOB, "why")
            event, reason = await asyncio.gather(*waiting)
            return event.get("reason"), reason

    assert uvloop.run(main()) == ("why", "why")


async def test_a_restarted_server_is_a_gap_in_a_loop(own_server):
    async with echomq.aio.Client(own_server.url, **QUICK) as client, client.events("q").listen() as listener:
        first, second, notices = listener.subscribe(), listener.subscribe(), listener.notices()
        waiting, told = await begun(anext(first)), await begun(anext(notices))
        own_server.kill()
        assert (await told).kind == "disconnected"
        own_server.restart()
        assert (await anext(notices)).kind == "reconnected"
        assert (await waiting).reconnected
        assert (await anext(second)).reconnected
        with valkey.Valkey(port=own_server.port) as plain:
            plain.publish("emq:{q}:events", "raw")
        assert (await anext(first)).payload == (await anext(second)).payload == b"raw"
        listener.close()
        assert [notice async for notice in notices] == []


async def test_a_listener_that_was_not_started_has_no_notices(aio_events):
    with pytest.raises(echomq.StateError):
        aio_events.listen().notices()


async def test_an_asynchronous_subscriber_ends_with_its_client(url, name):
    client = await echomq.aio.Client(url)
    subscriber = (await client.events(name).listen()).subscribe()
    waiting = await begun(anext(subscriber))
    await client.close()
    with pytest.raises(echomq.ClosedError):
        await waiting
    assert [event async for event in subscriber] == []


def test_a_loop_that_was_closed_while_it_waited(url, name, plain, channel):
    """What nobody took there is taken in another loop."""
    client = echomq.aio.Client(url)
    left = []

    async def begin():
        await client
        subscriber = (await client.events(name).listen()).subscribe()
        # One is cancelled with its loop, and nobody ends the other.
        left.append(await begun(anext(subscriber)))
        left.append(anext(subscriber))
        return subscriber

    async def go_on(subscriber):
        event = await anext(subscriber)
        await client.close()
        return event.payload

    subscriber = asyncio.run(begin())
    assert left[0].done()
    plain.publish(channel, "on")
    assert asyncio.run(go_on(subscriber)) == b"on"
