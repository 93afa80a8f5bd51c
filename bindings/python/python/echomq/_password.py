"""Asks a function for a password, on a thread that is there for this question only."""

import asyncio
from concurrent.futures import wait
from inspect import isawaitable

_STEP = 0.1
"""How long a thread waits for an awaitable before it looks whether anybody still waits for the answer, in seconds."""


def answer(ask, event_loop, question):
    """Answers the question by what ``ask`` answers.

    What it raises may hold a secret, so that only its type is told.
    """
    try:
        password = ask()
        if isawaitable(password) and event_loop is not None:
            password = _awaited(password, event_loop, question)
        question.answer(password)
        _discard(password)
    except BaseException as error:  # noqa: BLE001
        question.fail(f"it raised {type(error).__name__}")


def _awaited(awaitable, event_loop, question):
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


async def _result(awaitable):
    return await awaitable


def _discard(value):
    """Has no warning follow of a coroutine that nobody awaits."""
    if asyncio.iscoroutine(value):
        value.close()
