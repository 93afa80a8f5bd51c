"""A Valkey of the tests' own: on a free port, in a folder that goes with it."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def free_port():
    """A port that nobody listens to, and that no outgoing connection is given while its server is down."""
    range_of_outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    outgoing = int(range_of_outgoing.split()[0])
    while True:
        # Where that leaves too little room, the kernel picks.
        port = random.randrange(10_000, outgoing) if outgoing > 12_000 else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
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
        # Another program may answer on a port that this one failed to get: only its own answer counts.
        while not _answers(self.port, process.pid):
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


def _answers(port, pid):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection, connection.makefile("rb") as reply:
            connection.sendall(b"INFO server\r\n")
            length = int(reply.readline().removeprefix(b"$"))
            return b"process_id:%d\r\n" % pid in reply.read(length)
    except (OSError, ValueError):
        return False
