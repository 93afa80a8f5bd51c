"""Tokens: alone, in threads and loops, and tripped by other processes."""

import asyncio
import gc
import pickle
import threading
from datetime import timedelta

import echomq
import pytest
import valkey
from hearing import JOB, listening, refusal
from waiting import begun, wait_until

OTHER = "JOB000xY9Wvvce"
SOON = timedelta(seconds=60)
QUICK = {"reconnect_min": 5, "reconnect_max": 20}


def test_the_first_reason_stays():
    token = echomq.CancelToken()
    assert (token.check(), token.reason, token.watch_error) == (False, None, None)
    assert token.raise_if_cancelled() is None
    assert token.wait(timedelta(0)) is None
    assert repr(token) == "<echomq.CancelToken>"
    assert (token.cancel("first ü"), token.cancel("second")) == (True, False)
    assert (token.check(), token.reason, token.wait()) == (True, "first ü", "first ü")
    assert repr(token) == "<echomq.CancelToken(cancelled: first ü)>"
    with pytest.raises(echomq.Cancelled) as caught:
        token.raise_if_cancelled()
    assert (caught.value.reason, str(caught.value)) == ("first ü", "cancelled: first ü")
    assert not isinstance(caught.value, echomq.EchoMQError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.reason, str(again)) == (echomq.Cancelled, "first ü", "cancelled: first ü")


def test_what_is_no_reason():
    token = echomq.CancelToken()
    assert refusal(lambda: token.cancel("\udcff")) == ("invalid_option", "reason")
    for wrong in (b"x", None, 5):
        with pytest.raises(TypeError):
            token.cancel(wrong)
    assert not token.check()


def test_threads_wait_for_a_token():
    token, heard = echomq.CancelToken(), []
    threads = [threading.Thread(target=lambda: heard.append(token.wait(SOON))) for _ in range(4)]
    for thread in threads:
        thread.start()
    threading.Timer(0.02, token.cancel, ["why"]).start()
    assert token.wait() == "why"
    for thread in threads:
        thread.join()
    assert heard == ["why"] * 4


def test_tasks_of_several_loops_wait_for_a_token():
    token, heard = echomq.CancelToken(), []
    waiting = threading.Semaphore(0)

    async def wait():
        tasks = [asyncio.ensure_future(token) for _ in range(3)]
        given_up = await begun(token)
        given_up.cancel()
        waiting.release()
        heard.extend(await asyncio.gather(*tasks))
        return await token

    threads = [threading.Thread(target=lambda: heard.append(asyncio.run(wait()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in threads:
        waiting.acquire()
    token.cancel("why")
    for thread in threads:
        thread.join()
    assert heard == ["why"] * 12


async def test_a_wait_for_a_token_can_be_given_up():
    token = echomq.CancelToken()
    for _ in range(100):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(token, 0.0005)
    asyncio.get_running_loop().call_soon(token.cancel, "why")
    assert await token == "why"


async def test_work_and_its_token():
    async def work():
        await asyncio.get_running_loop().create_future()

    token = echomq.CancelToken()
    tasks = [asyncio.ensure_future(work()), asyncio.ensure_future(token)]
    threading.Timer(0.02, token.cancel, ["why"]).start()
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result() for task in done] == ["why"]
    for task in pending:
        task.cancel()


def test_a_cancelled_job_leaves_a_mark_and_an_event(either, ear, plain, name):
    mark = f"emq:{{{name}}}:cancel:{JOB}"
    assert either("cancel", JOB, "too late") == 1
    assert plain.get(mark) == b"too late"
    assert 86_300_000 < plain.execute_command("PTTL", mark) <= 86_400_000
    assert either("cancel", JOB, "again", timedelta(minutes=1)) == 1
    assert plain.get(mark) == b"again"
    assert 50_000 < plain.execute_command("PTTL", mark) <= 60_000
    assert either("cancel", OTHER, 'say "no"', ttl=timedelta(hours=1)) == 1
    assert ear.heard(3) == [
        b'{"event":"cancel","job":"JOB000xY9Wvvcd","reason":"too late"}',
        b'{"event":"cancel","job":"JOB000xY9Wvvcd","reason":"again"}',
        b'{"event":"cancel","job":"JOB000xY9Wvvce","reason":"say \\"no\\""}',
    ]


def test_what_cannot_be_cancelled(either, plain, name):
    for arguments, code in (
        (("x", "why"), "malformed_id"),
        ((JOB, "\udcff"), "invalid_option"),
        ((JOB, "why", timedelta(0)), "invalid_option"),
        ((JOB, "why", timedelta(microseconds=999)), "invalid_option"),
        ((JOB, "why", timedelta(seconds=-1)), "invalid_option"),
        ((JOB, "x" * (1 << 20)), "too_large"),
    ):
        assert refusal(lambda arguments=arguments: either("cancel", *arguments))[0] == code
    with pytest.raises(TypeError, match="ttl is a timedelta"):
        either("cancel", JOB, "why", 5)
    assert refusal(lambda: either("watch", "x")) == ("malformed_id", "job")
    assert plain.keys(f"emq:{{{name}}}:*") == []


def test_a_watched_job_is_cancelled_by_another_client(either, url, name):
    token, other = either("watch", JOB), either("watch", OTHER)
    assert not token.check()
    with echomq.Client(url) as elsewhere:
        assert elsewhere.events(name).cancel(JOB, "why") == 1
    assert token.wait() == "why"
    assert either("watch", JOB).reason == "why"
    assert not other.check()


async def test_a_watched_job_is_awaited(aio_events, events):
    token = await aio_events.watch(JOB)
    waiting = asyncio.ensure_future(token)
    await asyncio.to_thread(events.cancel, JOB, "why")
    assert await waiting == "why"
    assert await (await aio_events.watch(JOB)) == "why"


def test_a_mark_that_was_set_while_the_watcher_was_away(own_server):
    with echomq.Client(own_server.url, **QUICK) as client:
        token = client.events("q").watch(JOB)
        # In one step of the server's, so that nobody listens when it is published.
        with valkey.Valkey(port=own_server.port) as plain, plain.pipeline(transaction=True) as steps:
            steps.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            steps.execute_command("SET", f"emq:{{q}}:cancel:{JOB}", "while away", "PX", "60000")
            steps.execute_command("PUBLISH", "emq:{q}:events", f'{{"event":"cancel","job":"{JOB}","reason":"unheard"}}')
            assert steps.execute()[-1] == 0
        assert token.wait(SOON) == "while away"


def test_a_watch_ends_with_its_token(events, plain, channel):
    token, other = events.watch(JOB), events.watch(JOB)
    assert listening(plain, channel) == 1
    del token
    events.cancel(JOB, "why")
    assert other.wait(SOON) == "why"
    del other
    wait_until(lambda: listening(plain, channel) == 0, "the subscription ends")


async def test_a_watch_ends_with_its_token_after_a_wait(aio_events, plain, channel):
    token = await aio_events.watch(JOB)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(token, 0.001)
    del token
    gc.collect()
    await asyncio.to_thread(wait_until, lambda: listening(plain, channel) == 0, "the subscription ends")


def test_a_wait_ends_with_the_client(url, name):
    client = echomq.Client(url)
    token = client.events(name).watch(JOB)
    threading.Timer(0.02, client.close).start()
    with pytest.raises(echomq.ClosedError):
        token.wait()
    assert (token.check(), token.watch_error.code) == (False, "closed")
    with pytest.raises(echomq.ClosedError):
        token.wait(timedelta(0))
    token.cancel("by hand")
    assert token.wait() == "by hand"


async def test_a_wait_in_a_loop_ends_with_the_client(url, name):
    client = await echomq.aio.Client(url)
    token = await client.events(name).watch(JOB)
    waiting = await begun(token)
    await client.close()
    with pytest.raises(echomq.ClosedError):
        await waiting
    with pytest.raises(echomq.ClosedError):
        await token
    token.cancel("by hand")
    assert await token == "by hand"


def test_a_loop_that_was_closed_while_it_waited_for_a_token():
    token = echomq.CancelToken()

    async def give_up():
        task = await begun(token)
        assert not task.done()

    async def wait():
        return await token

    asyncio.run(give_up())
    threading.Timer(0.02, token.cancel, ["why"]).start()
    assert asyncio.run(wait()) == "why"
