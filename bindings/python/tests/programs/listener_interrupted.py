"""Waits for events that do not come until a signal does; says how the wait ended, and that the listener goes on."""

import sys
import threading

import echomq
from hearing import JOB

url, name, call = sys.argv[1:]
client = echomq.Client(url)
events = client.events(name)
listener = events.listen()
subscriber = listener.subscribe()
reduction = listener.reduce(lambda _, heard: heard.name, None)
token, local = events.watch(JOB), echomq.CancelToken()
never = threading.Event()


def loop():
    for _ in subscriber:
        pass


def decide():
    never.wait()


CALLS = {
    "loop": loop,
    "next": subscriber.next,
    "watched token": token.wait,
    "token": local.wait,
    "join": reduction.join,
    "transition": lambda: events.after_verdict(decide, "completed", JOB),
}
try:
    print("ready", flush=True)
    CALLS[call]()
except KeyboardInterrupt as raised:
    print(type(raised).__name__, flush=True)
print(events.publish("on", JOB), next(subscriber).name, events.cancel(JOB, "why"), token.wait())
client.close()
