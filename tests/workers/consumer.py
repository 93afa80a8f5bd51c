"""A consumer in Python for the fault tests; see README.md."""

import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings" / "python" / "python"))

import echomq

given = dict(argument.split("=", 1) for argument in sys.argv[1:])
log = os.open(given.pop("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def line(*words):
    os.write(log, (" ".join(map(str, words)) + "\n").encode())


def handle(delivery):
    line("begun", delivery.id, delivery.attempts)
    if delivery.record.get("die") is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    if (pause := delivery.record.get("pause")) is not None:
        time.sleep(int(pause) / 1000)
    line("handled", delivery.id, delivery.attempts)


def tell(notices):
    for notice in notices:
        line("notice", notice.kind, notice.id or "-")


client = echomq.Client(given.pop("url"), node_id=int(given.pop("node_id")), timeout=int(given.pop("timeout")))
with client:
    consumer = client.stream("codemojex", given.pop("stream")).consumer(given.pop("group"), **given)
    # The stop waits for the handler, which may run on this thread.
    stop = threading.Thread(target=lambda: line("stopped", consumer.stop(timedelta(seconds=20))))
    signal.signal(signal.SIGTERM, lambda *_: stop.start())
    telling = threading.Thread(target=tell, args=(consumer.notices(),))
    telling.start()
    line("ready")
    consumer.run(handle)
    stop.join()
    telling.join()
