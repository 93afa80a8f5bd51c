"""A listener in Python for the fault tests; see README.md."""

import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings" / "python" / "python"))

import echomq

given = dict(argument.split("=", 1) for argument in sys.argv[1:])
log = os.open(given["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def line(*words):
    os.write(log, (" ".join(map(str, words)) + "\n").encode())


def watch(token):
    token.wait()
    line("cancelled", token.reason)


with echomq.Client(given["url"]) as client:
    events = client.events("codemojex")
    listener = events.listen()
    subscriber = listener.subscribe()
    watching = threading.Thread(target=watch, args=(events.watch(given["job"]),))
    watching.start()
    signal.signal(signal.SIGTERM, lambda *_: listener.close())
    line("ready")
    for heard in subscriber:
        if isinstance(heard, echomq.EventGap):
            line("gap", heard.missed, str(heard.reconnected).lower())
        else:
            line("heard", heard.name, heard.get("n") or "-")
    watching.join()
