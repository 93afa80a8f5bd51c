"""A Valkey of the tests' own: on a free port, in a folder that goes with it."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def free_port():
    """A port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Runs from the moment it is made until ``stop``. With ``durable`` it loses nothing that it has answered."""

    def __init__(self, *arguments, durable=False):
        self._folder = tempfile.TemporaryDirectory(prefix="echomq-python-")
        self._arguments = ["--save", "", *(["--appendonly", "yes", "--appendfsync", "always"] if durable else [])]
        self._arguments += arguments
        self._process = None
        while self._process is None:
            self.port = free_port()
            self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        """Starts it again on its port; another program may have taken that one, and then it does not run."""
        log = Path(self._folder.name, "log")
        with log.open("ab") as output:
            process = subprocess.Popen(
                [_program(), "--port", str(self.port), "--bind", "127.0.0.1", *self._arguments],
                cwd=self._folder.name,
                stdout=output,
                stderr=output,
            )
        while not _answers(self.port):
            if process.poll() is not None:
                return
            time.sleep(0.005)
        self._process = process

    def restart(self):
        self.start()
        assert self._process is not None, "the port of the server was taken"

    def kill(self):
        """Ends it with nothing saved and no connection closed."""
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self):
        """Keeps its connections open and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def has_unread_requests(self):
        """Whether a request has arrived that a paused server did not take."""
        rows = [row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
        here = f":{self.port:04X}"
        return any(row[1].endswith(here) and row[3] == "01" and int(row[4].split(":")[1], 16) > 0 for row in rows)

    def stop(self):
        if self._process is not None:
            self.kill()
        self._folder.cleanup()


def _program():
    program = os.environ.get("ECHOMQ_VALKEY_SERVER")
    assert program, "ECHOMQ_VALKEY_SERVER names no server: source scripts/env"
    return program


def _answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
