"""Whole programs, each in an interpreter of its own."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "programs"
PATHS = [HERE.parents[1] / "python", HERE]

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(map(str, PATHS)),
    "PYTHONFAULTHANDLER": "1",
    "RUST_BACKTRACE": "0",
}

# A shell that starts the tests in the background has them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def started(name, *arguments):
    """``programs/<name>.py`` while it runs; it is ended at the latest when the test is over."""
    command = [sys.executable, "-W", "error", str(FOLDER / f"{name}.py"), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT) as program:
        try:
            yield program
        finally:
            program.kill()


def run(name, *arguments):
    """Runs a program to its end and gives what it printed; it must end by itself, with 0, saying nothing else."""
    with started(name, *arguments) as program:
        output, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (0, ""), f"{name} ended with {program.returncode}: {errors}"
    return output


def sleeps(program):
    """Whether the main thread of a program waits for something."""
    return Path(f"/proc/{program.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "S"
