"""A password that a function is asked for: at each connection, and in each way to fail."""

import asyncio
import contextlib
import traceback
from datetime import timedelta

import echomq
import pytest
import valkey
from programs import run
from server import Server
from waiting import wait_until

QUICK = {"reconnect_min": 1, "reconnect_max": 20, "timeout": 60_000}


class Guarded:
    """A server with a password that changes."""

    def __init__(self, server):
        self.url = server.url
        self.plain = valkey.Valkey(port=server.port)
        self.plain.ping()
        self.asked = 0
        self.password = None

    def rotate(self, password):
        """Has the server take only this password from now on, also of those that are connected."""
        self.plain.config_set("requirepass", password)
        self.plain.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def answer(self):
        self.asked += 1
        return self.password


@pytest.fixture
def guarded():
    server = Server()
    guarded = Guarded(server)
    guarded.rotate("first")
    guarded.password = "first"
    yield guarded
    guarded.plain.close()
    server.stop()


async def until(condition, what):
    await asyncio.to_thread(wait_until, condition, what)


def test_it_is_asked_at_each_connection(guarded):
    for ask in (guarded.answer, lambda: guarded.answer().encode()):
        with echomq.Client(guarded.url, password=ask, **QUICK) as client:
            for password in ("second", "third", "first"):
                asked = guarded.asked
                guarded.password = password
                guarded.rotate(password)
                assert client.command("ECHO", password) == password.encode()
                assert guarded.asked > asked
                assert client.status().error is None


def test_it_is_asked_by_asyncio(guarded):
    async def later():
        await asyncio.sleep(0)
        return guarded.answer()

    async def main(ask):
        async with echomq.aio.Client(guarded.url, password=ask, **QUICK) as client:
            for turn, password in enumerate(("second", "third", "first"), 1):
                asked = guarded.asked
                guarded.password = password
                guarded.rotate(password)
                # A command that leaves before the end is noticed may be lost.
                await until(lambda turn=turn: client.status().reconnects >= turn, "it is connected again")
                assert await client.command("ECHO", password) == password.encode()
                assert guarded.asked > asked

    for ask in (guarded.answer, later):
        asyncio.run(main(ask))


def raising(error):
    def ask():
        raise error

    return ask


async def coroutine():
    return "s3cret"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (raising(ValueError("s3cret")), "it raised ValueError"),
        (raising(SystemExit("s3cret")), "it raised SystemExit"),
        (raising(KeyboardInterrupt("s3cret")), "it raised KeyboardInterrupt"),
        (lambda: None, "it answered NoneType, not str or bytes"),
        (lambda: 7, "it answered int, not str or bytes"),
        (lambda: b"\xffs3cret", "it answered bytes that are no UTF-8"),
        (lambda: "\ud800s3cret", "it answered a str that is no Unicode text"),
        (coroutine, "it answered coroutine, not str or bytes"),
        (lambda needed: needed, "it raised TypeError"),
    ],
)
def test_what_is_no_password_is_an_error_without_a_secret(guarded, ask, said):
    with pytest.raises(echomq.AuthError, match=said) as caught:
        echomq.Client(guarded.url, password=ask, **QUICK)
    assert caught.value.subject == "password"
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


async def refused():
    raise ValueError("s3cret")


@pytest.mark.parametrize("ask", [refused, raising(ValueError("s3cret"))])
def test_asyncio_is_told_too(guarded, ask):
    async def main():
        with pytest.raises(echomq.AuthError, match="it raised ValueError") as caught:
            await echomq.aio.Client(guarded.url, password=ask, **QUICK)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))

    asyncio.run(main())


def test_an_option_of_another_kind_is_refused(url):
    for made in (echomq.Client, echomq.aio.Client):
        with pytest.raises(TypeError, match="the option password is a str, an int or a function"):
            made(url, password=[])


def test_a_wrong_one_is_what_the_status_says_until_it_is_right_again(guarded):
    with echomq.Client(guarded.url, password=guarded.answer, **QUICK) as client:
        guarded.rotate("other")
        with pytest.raises(echomq.AuthError) as caught:
            client.command("PING")
        assert not caught.value.retryable
        status = client.status()
        assert not status.connected
        assert isinstance(status.error, echomq.AuthError)
        assert "AuthError" in repr(status)
        guarded.password = "other"
        assert client.command("PING") == b"PONG"
        assert client.status().error is None

    async def main():
        async with echomq.aio.Client(guarded.url, password=guarded.answer, **QUICK) as client:
            guarded.rotate("first")
            await until(lambda: not client.status().connected, "it is not connected")
            with pytest.raises(echomq.AuthError):
                await client.command("PING")
            assert isinstance(client.status().error, echomq.AuthError)
            guarded.password = "first"
            await until(lambda: client.status().connected, "it is connected again")
            assert client.status().error is None

    asyncio.run(main())


def test_one_that_never_answers_ends_with_the_time_to_connect(guarded):
    never = asyncio.Event()

    async def main():
        with pytest.raises(echomq.DisconnectedError, match="asked for the password"):
            await echomq.aio.Client(guarded.url, password=never.wait, connect_timeout=100)
        # Its task was cancelled, since nobody waits for it any longer.
        loop = asyncio.get_running_loop()
        await until(lambda: len(asyncio.all_tasks(loop)) == 1, "only this task is left")

    asyncio.run(main())


def test_programs_end_whatever_became_of_the_question(guarded):
    assert run("asked_for_password", guarded.url) == "PONG auth disconnected forked PONG\n"


def test_a_loop_that_has_ended_is_an_error(guarded):
    """The client outlives the loop that it was connected in, which would await the answer."""

    async def ask():
        return guarded.answer()

    async def connect():
        return await echomq.aio.Client(guarded.url, password=ask, **QUICK)

    async def call(client):
        guarded.rotate("first")
        await until(lambda: not client.status().connected, "it is not connected")
        with pytest.raises(echomq.AuthError, match="it raised RuntimeError"):
            await client.command("PING")
        with contextlib.suppress(echomq.EchoMQError):
            await client.close(timedelta(0))

    client = asyncio.run(connect())
    asyncio.run(call(client))
