"""Waits for entries that do not come until a signal does; says how the wait ended, and that the reader goes on."""

import sys
import threading
from datetime import timedelta

import echomq

url, name, call = sys.argv[1:]
HOURS = timedelta(hours=1)
client = echomq.Client(url, node_id=7)
stream = client.stream("tests", name)
options = {"start": "new", "max_n": 2, "max_wait": HOURS, "concurrency": 3 if call == "run in threads" else 1}
consumer = stream.consumer("g", **options)
tail = stream.tail("new")
notices = consumer.notices()
never = threading.Event()


def stop():
    """Waits for the entry in hand."""
    stream.append({"n": "in hand"})
    delivery = next(consumer)
    print("waits", flush=True)
    consumer.stop(HOURS)
    return delivery


def loop():
    for _ in consumer:
        pass


def handle(_):
    print("in hand", flush=True)
    never.wait()


def run_a_handler():
    stream.append({"n": "in hand"})
    consumer.run(handle)


CALLS = {
    "loop": loop,
    "next": consumer.next,
    "batch": consumer.next_batch,
    "run": lambda: consumer.run(print),
    "run in threads": lambda: consumer.run(print),
    "run batches": lambda: consumer.run_batches(print),
    "handler": run_a_handler,
    "tail": lambda: next(tail),
    "notices": lambda: next(notices),
    "stop": stop,
}
try:
    print("ready", flush=True)
    CALLS[call]()
except KeyboardInterrupt as raised:
    print(type(raised).__name__, flush=True)
if call != "stop":
    id = stream.append({"n": "on"})
    print(next(consumer).id == id, next(record for record in tail if record.get("n") == "on").id == id)
client.close()
