"""Panics at an entry point and goes on."""

import sys

import echomq
from echomq import _echomq

try:
    _echomq.panic_for_tests()
except BaseException as raised:
    print(type(raised).__module__, type(raised).__name__, raised)
with echomq.Client(sys.argv[1]) as client:
    print(client.command("ECHO", "on").decode())
