"""A sub-interpreter is refused, before or after the main one has loaded the package, and does the main one no harm."""

import _xxsubinterpreters as interpreters
import sys

if sys.argv[1] == "after":
    import echomq

CODE = """
import sys
sys.path[:] = {path!r}
try:
    import echomq
except ImportError as refused:
    print(refused, flush=True)
"""

for _ in range(2):
    one = interpreters.create()
    interpreters.run_string(one, CODE.format(path=sys.path))
    interpreters.destroy(one)

import echomq  # noqa: E402

try:
    echomq.Keyspace("no spaces")
except echomq.EchoMQError as error:
    print(type(error).__name__, error)
