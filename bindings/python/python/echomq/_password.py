"""Asks a function for a password, on a thread that is there for this question only."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from inspect import isawaitable
from typing import Any, Protocol

_STEP = 0.1
"""How long a thread waits for an awaitable before it looks whether anybody still waits for the answer, in seconds."""


class Question(Protocol):
    """Who waits for a password."""

    def answer(self, password: object, /) -> None: ...
    def fail(self, reason: str, /) -> None: ...
    def is_abandoned(self) -> bool: ...


def answer(ask: Callable[[], Any], event_loop: asyncio.AbstractEventLoop | None, question: Question) -> None:
    """Answers the question by what ``ask`` answers.

    What it raises may hold a secret, so that only its type is told.
    """
    try:
        password = ask()
        if isawaitable(password) and event_loop is not None:
            password = _awaited(password, event_loop, question)
        question.answer(password)
        _discard(password)
    except BaseException as error:
        question.fail(f"it raised {type(error).__name__}")


def _awaited(awaitable: Awaitable[Any], event_loop: asyncio.AbstractEventLoop, question: Question) -> object:
    coroutine = _result(awaitable)
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, event_loop)
    except BaseException:
        # The loop is closed.
        _discard(coroutine)
        _discard(awaitable)
        raise
    while not wait([future], _STEP).done:
        if question.is_abandoned():
            future.cancel()
    return future.result()


async def _result(awaitable: Awaitable[Any]) -> object:
    return await awaitable


def _discard(value: object) -> None:
    """Has no warning follow of a coroutine that nobody awaits."""
    if asyncio.iscoroutine(value):
        value.close()
