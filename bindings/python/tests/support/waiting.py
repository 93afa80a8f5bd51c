"""Waiting for a condition, never for a time."""

import asyncio
import time


def wait_until(condition, what):
    """Looks again and again until the condition holds; gives up after a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.002)


async def begun(awaitable):
    """A task that waits for something, once it has begun to."""
    begins = asyncio.Event()

    async def wait():
        begins.set()
        return await awaitable

    task = asyncio.create_task(wait())
    await begins.wait()
    return task
