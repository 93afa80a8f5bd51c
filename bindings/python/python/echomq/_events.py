"""What of the events runs code of Python: transitions, and the handlers that fold events into a state."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, TypeVar

from ._echomq import Event, EventGap, made_once
from ._handlers import start_thread
from .errors import EchoMQError

if TYPE_CHECKING:
    from datetime import timedelta

    from ._echomq import AioEvents, AioListener, AioSubscriber, Events, Listener, Subscriber
    from ._types import Fields

_T = TypeVar("_T")
_State = TypeVar("_State")

_Heard: TypeAlias = Event | EventGap

_log = logging.getLogger("echomq")


@dataclass(frozen=True)
class Announced:
    """A record that was appended, and what became of its event."""

    id: str
    """The record's branded id. It is in the stream, whatever became of the event."""

    published: int | None
    """How many listened; ``None`` where the event was not published."""

    error: EchoMQError | None
    """Why the event was not published; ``None`` where it was."""


@dataclass(frozen=True)
class Decided(Generic[_T]):
    """The verdict of a transition, and what became of its event."""

    verdict: _T
    """What the transition answered."""

    published: int | None
    """How many listened; ``None`` where the event was not published. The transition has happened all the same."""

    error: EchoMQError | None
    """Why the event was not published; ``None`` where it was."""


def after_verdict(
    self: Events, transition: Callable[[], _T | None], event: str, job: str, extra: Fields | None = None
) -> Decided[_T] | None:
    """Runs a transition, and publishes an event when it has decided: when it answers a verdict.

    Where it answers ``None`` it has not decided: nothing is published, and the answer is ``None``. What it raises
    passes through. Whatever is wrong with the event is raised before the transition runs, as by ``publish``; what
    becomes of publishing afterwards is told by the answer.

    >>> with echomq.Client(url) as client:
    ...     events = client.events("codemojex")
    ...     def finish():
    ...         return "won"
    ...     events.after_verdict(finish, "completed", "JOB000xY9Wvvcd", {"result": "won"})
    ...     events.after_verdict(lambda: None, "completed", "JOB000xY9Wvvcd") is None
    Decided(verdict='won', published=0, error=None)
    True
    """
    signal = self._signal(event, job, extra)
    verdict = _not_a_coroutine(transition(), "the transition")
    if verdict is None:
        return None
    try:
        return Decided(verdict, self._publish(signal), None)
    except EchoMQError as error:
        return Decided(verdict, None, error)


async def after_verdict_async(
    self: AioEvents,
    transition: Callable[[], Awaitable[_T | None]] | Callable[[], _T | None],
    event: str,
    job: str,
    extra: Fields | None = None,
) -> Decided[_T] | None:
    """Runs a transition, a function or an ``async def``, and publishes an event when it has decided; see
    ``echomq.Events.after_verdict``.

    >>> async def main():
    ...     async with echomq.aio.Client(url) as client:
    ...         async def finish():
    ...             return "won"
    ...         return await client.events("codemojex").after_verdict(finish, "completed", "JOB000xY9Wvvcd")
    >>> asyncio.run(main())
    Decided(verdict='won', published=0, error=None)
    """
    signal = self._signal(event, job, extra)
    answer = transition()
    verdict = await answer if inspect.isawaitable(answer) else answer
    if verdict is None:
        return None
    try:
        return Decided(verdict, await self._publish(signal), None)
    except EchoMQError as error:
        return Decided(verdict, None, error)


# Where this module is loaded again, the classes of answers are those of the first time.
globals().update(made_once("answers", lambda: {"Announced": Announced, "Decided": Decided}))


class _Fold(Generic[_State]):
    """A state and what its handler did, which outlives the reduction that shows it."""

    def __init__(self, state: _State, on_failure: Callable[[Exception, _Heard], object] | None) -> None:
        self.state = state
        self.failures = 0
        self.error: EchoMQError | None = None
        self._on_failure = on_failure

    def failed(self, error: Exception, heard: _Heard) -> None:
        self.failures += 1
        if self._on_failure is None:
            _log.error("a handler failed on %r", heard, exc_info=error)
            return
        try:
            self._on_failure(error, heard)
        except Exception:
            _log.exception("the report of a failed handler failed on %r", heard)


class _Folded(Generic[_State]):
    """What the reductions of both kinds have."""

    def __init__(self, subscriber: Subscriber | AioSubscriber, fold: _Fold[_State]) -> None:
        self._subscriber, self._fold = subscriber, fold
        weakref.finalize(self, subscriber.close)

    @property
    def state(self) -> _State:
        """The state as it is now."""
        return self._fold.state

    @property
    def failures(self) -> int:
        """How often the handler failed."""
        return self._fold.failures

    @property
    def error(self) -> EchoMQError | None:
        """Why it ended, where its listener could not go on; ``None`` otherwise."""
        return self._fold.error

    def close(self) -> None:
        """Ends it, at once. What was heard already is folded still, and the state stays."""
        self._subscriber.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} by {self._subscriber!r}, state={self.state!r}, failures={self.failures}>"


class Reduction(_Folded[_State]):
    """A state that a handler folds a listener's events into, made by ``Listener.reduce``.

    It ends when it is closed, with its listener, or when nobody has it any longer. ``with`` closes it at the end and
    waits until everything that was heard is folded.
    """

    def __init__(self, subscriber: Subscriber, fold: _Fold[_State], thread: threading.Thread) -> None:
        super().__init__(subscriber, fold)
        self._thread = thread

    def join(self, within: timedelta | None = None) -> bool:
        """Waits until it has ended and everything that was heard is folded; ``False`` where that was not so ``within``
        that time. A handler does not wait for itself.
        """
        if self._thread is not threading.current_thread():
            self._thread.join(None if within is None else within.total_seconds())
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
        self.join()


class AioReduction(_Folded[_State]):
    """A state that a handler folds a listener's events into, made by ``Listener.reduce``; see ``echomq.Reduction``."""

    def __init__(self, subscriber: AioSubscriber, fold: _Fold[_State], task: asyncio.Task[None]) -> None:
        super().__init__(subscriber, fold)
        self._task = task

    async def join(self) -> None:
        """Waits until it has ended and everything that was heard is folded. A handler does not wait for itself."""
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.close()
        await self.join()


def reduce(
    self: Listener,
    handler: Callable[[_State, _Heard], _State],
    state: _State,
    *,
    buffer: int | None = None,
    on_failure: Callable[[Exception, _Heard], object] | None = None,
) -> Reduction[_State]:
    """Folds everything that is heard from now on into a state, which can be read at any time.

    The handler gets the state and what was heard, an ``Event`` or an ``EventGap``, and answers the next state, as with
    ``functools.reduce``. It runs in a thread of its own, one event after the other. One that raises an ``Exception``
    leaves the state as it was, is counted, and goes on with the next event; ``on_failure`` gets the exception and what
    was heard, and without one the logger ``echomq`` tells it. ``buffer`` is that of ``subscribe``.

    Whatever else a handler raises ends the reduction. The thread does not keep the interpreter from ending.

    >>> with echomq.Client(url) as client:
    ...     events = client.events("codemojex")
    ...     def count(counts, event):
    ...         return {**counts, event.name: counts.get(event.name, 0) + 1}
    ...     with events.listen() as listener:
    ...         counts = listener.reduce(count, {})
    ...         for event in ("added", "completed", "completed"):
    ...             heard = events.publish(event, "JOB000xY9Wvvcd")
    ...         while counts.state.get("completed") != 2:
    ...             time.sleep(0.001)
    ...         counts.state
    {'added': 1, 'completed': 2}
    """
    _refuse_coroutine_functions(handler)
    subscriber = self.subscribe(buffer=buffer)
    fold = _Fold(state, on_failure)
    thread = threading.Thread(target=_fold_in_thread, args=(subscriber, fold, handler), daemon=True, name="echomq")
    try:
        start_thread(thread)
    except BaseException:
        subscriber.close()
        raise
    return Reduction(subscriber, fold, thread)


def reduce_async(
    self: AioListener,
    handler: Callable[[_State, _Heard], Awaitable[_State]] | Callable[[_State, _Heard], _State],
    state: _State,
    *,
    buffer: int | None = None,
    on_failure: Callable[[Exception, _Heard], object] | None = None,
) -> AioReduction[_State]:
    """Folds everything that is heard from now on into a state, at once; see ``echomq.Listener.reduce``.

    The handler is a function, or one whose answer is awaited: an ``async def``. It runs in a task of the running loop.

    >>> async def main():
    ...     async with echomq.aio.Client(url) as client:
    ...         events = client.events("codemojex")
    ...         async with events.listen() as listener:
    ...             reduction = listener.reduce(lambda names, event: [*names, event.name], [])
    ...             await events.publish("added", "JOB000xY9Wvvcd")
    ...             while not reduction.state:
    ...                 await asyncio.sleep(0.001)
    ...             return reduction.state
    >>> asyncio.run(main())
    ['added']
    """
    subscriber = self.subscribe(buffer=buffer)
    fold = _Fold(state, on_failure)
    task = asyncio.get_running_loop().create_task(_fold_in_task(subscriber, fold, handler), name="echomq")
    return AioReduction(subscriber, fold, task)


def _fold_in_thread(subscriber: Subscriber, fold: _Fold[_State], handler: Callable[[_State, _Heard], _State]) -> None:
    try:
        for heard in subscriber:
            try:
                fold.state = _not_a_coroutine(handler(fold.state, heard), "the handler")
            except Exception as error:
                fold.failed(error, heard)
    except EchoMQError as error:
        fold.error = error
    finally:
        subscriber.close()


async def _fold_in_task(
    subscriber: AioSubscriber,
    fold: _Fold[_State],
    handler: Callable[[_State, _Heard], Awaitable[_State]] | Callable[[_State, _Heard], _State],
) -> None:
    try:
        async for heard in subscriber:
            try:
                fold.state = await _awaited(handler(fold.state, heard))
            except Exception as error:
                fold.failed(error, heard)
    except EchoMQError as error:
        fold.error = error
    finally:
        subscriber.close()


async def _awaited(answer: Awaitable[_State] | _State) -> _State:
    if not inspect.isawaitable(answer):
        return answer
    try:
        return await answer
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("something that the handler awaited was cancelled") from cancelled


def _refuse_coroutine_functions(function: object) -> None:
    if inspect.iscoroutinefunction(function):
        raise TypeError("nobody awaits a coroutine here: use echomq.aio")


def _not_a_coroutine(answer: _T, whose: str) -> _T:
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError(f"{whose} answered a coroutine, which nobody awaits here")
    return answer


def attach(
    events: type[Events], aio_events: type[AioEvents], listener: type[Listener], aio_listener: type[AioListener]
) -> None:
    """Makes the functions methods; see ``echomq._handlers.attach``."""
    for of, name, function in (
        (events, "after_verdict", after_verdict),
        (aio_events, "after_verdict", after_verdict_async),
        (listener, "reduce", reduce),
        (aio_listener, "reduce", reduce_async),
    ):
        function.__name__, function.__qualname__ = name, f"{of.__name__}.{name}"
        setattr(of, name, function)
    for public, module in (
        (Announced, "echomq"),
        (Decided, "echomq"),
        (Reduction, "echomq"),
        (AioReduction, "echomq.aio"),
    ):
        public.__module__ = module
    AioReduction.__name__ = AioReduction.__qualname__ = "Reduction"
