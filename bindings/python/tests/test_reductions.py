"""Handlers that fold events into a state, of both kinds of listeners."""

import asyncio
import gc
import logging
import threading
from datetime import timedelta

import echomq
import pytest
import valkey
from hearing import JOB, listening
from waiting import wait_until

QUICK = {"reconnect_min": 5, "reconnect_max": 20}


def gathered(state, heard):
    """The next state: the names of all events."""
    return (*state, heard.name)


def fails_on_bad(state, heard):
    if heard.name == "bad":
        raise LookupError("bad")
    return (*state, heard.name)


def publish_all(events, *names):
    for name in names:
        events.publish(name, JOB)


def test_a_state_is_folded_and_can_be_read_at_any_time(events):
    with events.listen() as listener:
        reduction = listener.reduce(gathered, ())
        assert (reduction.state, reduction.failures, reduction.error) == ((), 0, None)
        for count, name in enumerate("abc", 1):
            events.publish(name, JOB)
            wait_until(lambda count=count: len(reduction.state) == count, "it is folded")
        assert reduction.state == ("a", "b", "c")
        text = f"<Reduction by <echomq.Subscriber({events.channel})>, state=('a', 'b', 'c'), failures=0>"
        assert repr(reduction) == text
        assert not reduction.join(timedelta(milliseconds=1))
        reduction.close()
        assert reduction.join()
        events.publish("d", JOB)
        assert reduction.state == ("a", "b", "c")


def test_what_was_heard_is_folded_before_the_end(events):
    held = threading.Event()

    def slow(count, _):
        held.wait()
        return count + 1

    with events.listen() as listener, listener.subscribe() as beside:
        with listener.reduce(slow, 0) as reduction:
            publish_all(events, *map(str, range(10)))
            for _ in range(10):
                next(beside)
            # Once anyone hears the next, everyone was handed those before.
            events.publish("last", JOB)
            next(beside)
            held.set()
        assert reduction.state in (10, 11)


def test_a_failing_handler_is_told_and_the_listener_lives(events):
    failed = []
    with events.listen() as listener:
        reduction = listener.reduce(fails_on_bad, (), on_failure=lambda error, heard: failed.append((error, heard)))
        publish_all(events, "a", "bad", "b", "bad", "c")
        wait_until(lambda: reduction.state == ("a", "b", "c"), "the others are folded")
        assert reduction.failures == 2
        assert [(type(error), heard.name) for error, heard in failed] == [(LookupError, "bad")] * 2


def test_the_logger_tells_a_failure_that_nobody_else_does(events, caplog):
    def broken(_error, _heard):
        raise ArithmeticError("the report failed")

    with events.listen() as listener:
        reductions = [listener.reduce(fails_on_bad, ()), listener.reduce(fails_on_bad, (), on_failure=broken)]
        publish_all(events, "bad", "a")
        wait_until(lambda: [each.state for each in reductions] == [("a",)] * 2, "the next is folded")
        told = [record for record in caplog.records if record.name == "echomq"]
        assert sorted(record.exc_info[0].__name__ for record in told) == ["ArithmeticError", "LookupError"]
        assert all(record.levelno == logging.ERROR for record in told)
        assert [each.failures for each in reductions] == [1, 1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_is_no_exception_ends_it(events):
    def handler(state, heard):
        if heard.name == "bad":
            raise KeyboardInterrupt
        return gathered(state, heard)

    reduction = events.listen().reduce(handler, ())
    publish_all(events, "a", "bad", "b")
    assert reduction.join()
    assert reduction.state == ("a",)


def test_a_coroutine_is_no_state_here(events):
    async def handler(_state, _heard):
        pytest.fail("nobody awaits it")

    failed = []
    with events.listen() as listener:
        with pytest.raises(TypeError, match=r"echomq\.aio"):
            listener.reduce(handler, None)
        reduction = listener.reduce(lambda *heard: handler(*heard), 5, on_failure=lambda *told: failed.append(told))
        events.publish("a", JOB)
        wait_until(lambda: failed, "it is told")
        assert (reduction.state, str(failed[0][0])) == (5, "the handler answered a coroutine, which nobody awaits here")


def test_a_handler_may_end_its_own_reduction(events):
    def handler(_, heard):
        reduction.close()
        assert not reduction.join()
        return heard.name

    with events.listen() as listener:
        reduction = listener.reduce(handler, None)
        events.publish("a", JOB)
        wait_until(lambda: reduction.state == "a", "it is folded")
        assert reduction.join()


def test_it_ends_when_nobody_has_it(events, plain):
    reduction = events.listen().reduce(gathered, ())
    threads = threading.active_count()
    assert listening(plain, events.channel) == 1
    del reduction
    gc.collect()
    wait_until(lambda: listening(plain, events.channel) == 0, "the subscription ends")
    wait_until(lambda: threading.active_count() < threads, "its thread ends")


def test_it_ends_with_its_client_and_says_why(url, name):
    client = echomq.Client(url)
    reduction = client.events(name).listen().reduce(gathered, ())
    client.close()
    assert reduction.join()
    assert (reduction.error.code, reduction.state) == ("closed", ())


def test_a_gap_is_for_the_handler_too(own_server):
    with echomq.Client(own_server.url, **QUICK) as client, client.events("q").listen() as listener:
        reduction = listener.reduce(lambda gaps, heard: [*gaps, heard], [])
        own_server.kill()
        own_server.restart()
        wait_until(lambda: reduction.state, "it is told")
        [gap] = reduction.state
        assert (type(gap), gap.missed, gap.reconnected) == (echomq.EventGap, 0, True)


async def until(condition):
    await asyncio.to_thread(wait_until, condition, "it is folded")


async def gathered_later(state, heard):
    return await asyncio.to_thread(gathered, state, heard)


@pytest.mark.parametrize("handler", [gathered, gathered_later])
async def test_a_state_is_folded_in_a_task(aio_events, handler):
    async with aio_events.listen() as listener, listener.reduce(handler, ()) as reduction:
        assert repr(reduction).startswith("<Reduction by <echomq.aio.Subscriber(emq:")
        names = [str(n) for n in range(200)]
        for name in names:
            await aio_events.publish(name, JOB)
        await until(lambda: len(reduction.state) == 200)
        assert (reduction.state, reduction.failures, reduction.error) == (tuple(names), 0, None)
    await reduction.join()


async def test_a_handler_that_fails_in_a_task(aio_events, caplog):
    async def handler(state, heard):
        if heard.name == "bad":
            raise LookupError("bad")
        if heard.name == "cancelled":
            never = asyncio.get_running_loop().create_future()
            never.cancel()
            await never
        return (*state, heard.name)

    failed = []
    async with aio_events.listen() as listener:
        silent = listener.reduce(handler, ())
        reduction = listener.reduce(handler, (), on_failure=lambda error, heard: failed.append((error, heard)))
        for name in ("a", "bad", "cancelled", "b"):
            await aio_events.publish(name, JOB)
        await until(lambda: silent.state == reduction.state == ("a", "b"))
        assert [(type(error), heard.name) for error, heard in failed] == [
            (LookupError, "bad"),
            (RuntimeError, "cancelled"),
        ]
        assert isinstance(failed[1][0].__cause__, asyncio.CancelledError)
        assert (silent.failures, reduction.failures) == (2, 2)
        assert len([record for record in caplog.records if record.name == "echomq"]) == 2


async def test_a_handler_ends_its_own_reduction_in_a_task(aio_events):
    async def handler(_, heard):
        reduction.close()
        await reduction.join()
        return heard.name

    async with aio_events.listen() as listener:
        reduction = listener.reduce(handler, None)
        await aio_events.publish("a", JOB)
        await reduction.join()
        assert reduction.state == "a"


async def test_a_reduction_in_a_task_ends_with_its_client_or_its_last_user(url, name, plain, channel):
    client = await echomq.aio.Client(url)
    dropped = (await client.events(name).listen()).reduce(gathered, ())
    assert listening(plain, channel) == 1
    del dropped
    await asyncio.to_thread(wait_until, lambda: listening(plain, channel) == 0, "the subscription ends")
    events = client.events(name)
    reduction = (await events.listen()).reduce(gathered, ())
    await events.publish("a", JOB)
    await until(lambda: reduction.state)
    await client.close()
    await reduction.join()
    assert reduction.error.code == "closed"


def test_a_loop_ends_with_a_reduction_open(url, name):
    async def main():
        client = await echomq.aio.Client(url)
        reduction = (await client.events(name).listen()).reduce(gathered, ())
        await client.events(name).publish("a", JOB)
        await until(lambda: reduction.state)
        return reduction

    assert asyncio.run(main()).state == ("a",)


async def test_a_gap_is_for_the_handler_of_a_task_too(own_server):
    async with echomq.aio.Client(own_server.url, **QUICK) as client, client.events("q").listen() as listener:
        reduction = listener.reduce(lambda heard, one: [*heard, one], [])
        own_server.kill()
        own_server.restart()
        await until(lambda: reduction.state)
        assert reduction.state[0].reconnected
        with valkey.Valkey(port=own_server.port) as plain:
            plain.publish(listener.channel, "raw")
        await until(lambda: len(reduction.state) == 2)
        assert reduction.state[1].payload == b"raw"
