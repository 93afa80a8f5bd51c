"""Waiting for a condition, never for a time."""

import time


def wait_until(condition, what):
    """Looks again and again until the condition holds; gives up after a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.002)
