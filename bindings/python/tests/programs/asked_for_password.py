"""Functions for the password that answer, answer wrongly, and never answer; a forked child asks its own."""

import os
import sys
import threading

import echomq

[url] = sys.argv[1:]
never = threading.Event()


def code(**options):
    try:
        return echomq.Client(url, **options).command("PING").decode()
    except echomq.EchoMQError as error:
        return error.code


said = [
    code(password=lambda: "first"),
    code(password=lambda: "wrong"),
    code(password=never.wait, connect_timeout=50),
]
client = echomq.Client(url, password=lambda: "first")
pid = os.fork()
if pid == 0:
    assert code(password=lambda: "first") == "PONG"
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print(*said, "forked", client.command("PING").decode())
