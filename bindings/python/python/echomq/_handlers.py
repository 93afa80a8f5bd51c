"""How the outcome of a handler becomes the verdict on its entry: the loops behind ``run`` and ``run_batches``."""

from __future__ import annotations

import asyncio
import inspect
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from .errors import StateError

if TYPE_CHECKING:
    from ._echomq import AioConsumer, Consumer, Delivery, Worker
    from .aio import Worker as AioWorker


def run(self: Consumer, handler: Callable[[Delivery], object]) -> None:
    """Calls a handler with each ``Delivery`` until the consumer stops.

    It runs on the caller's thread; with a ``concurrency`` above 1 on as many threads, that one among them. A handler
    that returns has handled its entry, whatever it returns. One that raises an ``Exception`` has not: the entry comes
    back, or becomes a dead letter, with the exception's text as the reason, and the consumer goes on. A handler may
    give the verdict itself, a failure with a delay for example. When the call ends, all verdicts are on the server.

    Ctrl-C and whatever else is no ``Exception`` end the call at once; the entry in hand stays pending, and handlers on
    other threads finish theirs. Otherwise it fails as the loop does.

    >>> with echomq.Client(url, node_id=7) as client:
    ...     events = client.stream("codemojex", "handlers")
    ...     ids = events.append_batch([{"n": "1"}, {"n": "2"}])
    ...     consumer = events.consumer("adder", start="head")
    ...     def handle(delivery):
    ...         print(delivery.record.get("n"))
    ...         if delivery.id == ids[-1]:
    ...             consumer.stop()
    ...     consumer.run(handle)
    1
    2
    """
    _refuse_coroutine_functions(handler)

    def work(worker: Worker) -> None:
        for delivery in worker:
            delivery._settle(_called(handler, delivery))

    _in_threads(self._workers(), work)
    self.flush()


def run_batches(self: Consumer, handler: Callable[[list[Delivery]], object]) -> None:
    """Calls a handler with lists of up to ``max_n`` deliveries, after waiting ``max_wait`` for more than are there;
    otherwise as ``run``. The verdict is on all of the batch, but for those that the handler gave one itself.
    """
    _refuse_coroutine_functions(handler)

    def work(worker: Worker) -> None:
        while batch := worker.next_batch():
            reason = _called(handler, batch)
            for delivery in batch:
                delivery._settle(reason)

    _in_threads(self._workers(), work)
    self.flush()


async def run_async(self: AioConsumer, handler: Callable[[Delivery], Awaitable[object] | object]) -> None:
    """Calls a handler with each delivery until the consumer stops; see ``echomq.Consumer.run``.

    The handler is a function, or one whose answer is awaited: an ``async def``. With a ``concurrency`` above 1 as many
    tasks call it. Cancelling the call cancels the handlers; their entries stay pending.

    >>> async def main():
    ...     async with echomq.aio.Client(url, node_id=7) as client:
    ...         events = client.stream("codemojex", "aio-handlers")
    ...         ids = await events.append_batch([{"n": "1"}, {"n": "2"}])
    ...         consumer = await events.consumer("adder", start="head")
    ...         async def handle(delivery):
    ...             print(delivery.record.get("n"))
    ...             if delivery.id == ids[-1]:
    ...                 await consumer.stop()
    ...         await consumer.run(handle)
    >>> asyncio.run(main())
    1
    2
    """

    async def work(worker: AioWorker) -> None:
        async for delivery in worker:
            delivery._settle(await _awaited(handler, delivery))

    await self
    await _in_tasks([work(worker) for worker in self._workers()])
    await self.flush()


async def run_batches_async(self: AioConsumer, handler: Callable[[list[Delivery]], Awaitable[object] | object]) -> None:
    """Calls a handler with lists of deliveries; see ``run`` and ``echomq.Consumer.run_batches``."""

    async def work(worker: AioWorker) -> None:
        while batch := await worker.next_batch():
            reason = await _awaited(handler, batch)
            for delivery in batch:
                delivery._settle(reason)

    await self
    await _in_tasks([work(worker) for worker in self._workers()])
    await self.flush()


def attach(consumer: type[Consumer], aio_consumer: type[AioConsumer]) -> None:
    """Makes them methods: in functions of Python a thread ends well with the interpreter, which others would not."""
    for of, name, function in (
        (consumer, "run", run),
        (consumer, "run_batches", run_batches),
        (aio_consumer, "run", run_async),
        (aio_consumer, "run_batches", run_batches_async),
    ):
        function.__name__, function.__qualname__ = name, f"{of.__name__}.{name}"
        setattr(of, name, function)


def _refuse_coroutine_functions(handler: object) -> None:
    if inspect.iscoroutinefunction(handler):
        raise TypeError("nobody awaits a coroutine here: give the handler to a consumer of echomq.aio")


def _called(handler: Callable[[Any], object], argument: object) -> bytes | None:
    """Calls a handler: why it failed, or nothing."""
    try:
        answer = handler(argument)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("the handler answered a coroutine, which nobody awaits here")
    except Exception as raised:
        return _reason(raised)
    return None


async def _awaited(handler: Callable[[Any], object], argument: object) -> bytes | None:
    """Calls a handler and awaits its answer: why it failed, or nothing."""
    try:
        answer = handler(argument)
        if answer is not None and inspect.isawaitable(answer):
            await answer
    except Exception as raised:
        return _reason(raised)
    except asyncio.CancelledError as raised:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # It was something within the handler that was cancelled.
        return _reason(raised)
    return None


def _reason(raised: BaseException) -> bytes:
    return "".join(traceback.format_exception_only(raised)).strip().encode("utf-8", "backslashreplace")


def _in_threads(workers: list[Worker], work: Callable[[Worker], None]) -> None:
    """Has each worker work, the first one on this thread; all leave when one fails."""
    first, *others = workers
    failures: list[BaseException] = []

    def guarded(worker: Worker) -> None:
        try:
            work(worker)
        except BaseException as raised:
            failures.append(raised)
            worker.leave()

    threads = [threading.Thread(target=guarded, args=(worker,), daemon=True, name="echomq") for worker in others]
    try:
        for thread in threads:
            start_thread(thread)
        work(first)
        for thread in threads:
            thread.join()
    finally:
        # Nobody waits for a handler on another thread when this one is interrupted.
        first.leave()
    if failures:
        raise failures[0]


def start_thread(thread: threading.Thread) -> None:
    """Starts a thread; fails with ``StateError`` when the system gives none."""
    try:
        thread.start()
    except RuntimeError as refused:
        raise StateError(f"the system gives no thread: {refused}") from refused


async def _in_tasks(works: list[Coroutine[Any, Any, None]]) -> None:
    """Has each worker work, alone in this task or in one of its own; all are cancelled when one fails."""
    first, *others = works
    if not others:
        return await first
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
