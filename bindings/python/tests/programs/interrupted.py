"""Waits for a server that does not answer until a signal comes; says how the wait ended."""

import contextlib
import sys
import threading
from datetime import timedelta

import echomq

url, call = sys.argv[1:]
HOURS = timedelta(hours=1)
client = echomq.Client(url, node_id=7, timeout=HOURS)
stream = client.stream("tests", "interrupted")
other = echomq.Client(url, node_id=7, timeout=HOURS)
single = echomq.Client(url, timeout=HOURS, max_in_flight=1)


def follow():
    """Waits while another thread is the one that talks to the server."""
    threading.Thread(target=other.command, args=["PING"], daemon=True).start()
    other.command("PING")


def close():
    """Waits for the call of another thread; a third one sees when that wait has begun."""
    threading.Thread(target=be_given_up, daemon=True).start()
    sys.stdin.readline()
    threading.Thread(target=see_that_it_closes, daemon=True).start()
    single.close()


def be_given_up():
    with contextlib.suppress(echomq.UnknownOutcomeError):
        single.command("PING")


def see_that_it_closes():
    while True:
        try:
            single.command("PING")
        except echomq.OverloadedError:
            pass
        except echomq.ClosedError:
            break
    print("closing", flush=True)


CALLS = {
    "append": lambda: stream.append({"n": "1"}),
    "batch": lambda: stream.append_batch([{"n": "1"}] * 10),
    "read": lambda: list(stream.read()),
    "command": lambda: client.command("SET", "k", "v"),
    "follow": follow,
    "connect": lambda: echomq.Client(url, connect_timeout=HOURS),
    "close": close,
}
print("ready", flush=True)
sys.stdin.readline()
try:
    CALLS[call]()
except KeyboardInterrupt as raised:
    print(type(raised).__name__, flush=True)
# The client goes on, and so does the server by now.
sys.stdin.readline()
print(client.command("ECHO", "on").decode())
