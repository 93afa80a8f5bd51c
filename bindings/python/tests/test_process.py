"""Whole programs: signals, forks, panics, and the end of the interpreter."""

import pickle
import signal

import echomq
import programs
import pytest
from waiting import wait_until


@pytest.mark.parametrize("call", ["append", "batch", "read", "command", "follow", "connect", "close"])
def test_ctrl_c_ends_a_wait(own_server, call):
    with programs.started("interrupted", own_server.url, call) as program:
        assert program.stdout.readline() == "ready\n"
        own_server.pause()
        program.stdin.write("go\n")
        program.stdin.flush()
        wait_until(own_server.has_unread_requests, "the call waits")
        if call == "close":
            program.stdin.write("and close\n")
            program.stdin.flush()
            assert program.stdout.readline() == "closing\n"
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == "KeyboardInterrupt\n"
        own_server.resume()
        output, errors = program.communicate("go\n", timeout=60)
        assert (program.returncode, output, errors) == (0, "on\n", "")


@pytest.mark.parametrize("way", ["fork", "multiprocessing"])
def test_a_fork_does_no_harm(url, name, way):
    said = programs.run("forked", url, name, way)
    assert said == "[0, 0, 0, 0, 0] {'parent'} ['parent', 'parent']\n"


@pytest.mark.parametrize("time", range(20))
def test_the_interpreter_ends_with_everything_left_open(url, name, time):
    assert programs.run("leave_open", url, name) == "end\n"


def test_a_client_works_while_the_interpreter_ends(url):
    assert programs.run("exit_in_handler", url) == "b'PONG' 0\n"


def test_a_panic_is_an_exception(url):
    with programs.started("panicking", url) as program:
        output, errors = program.communicate(timeout=60)
    assert (program.returncode, output) == (0, "pyo3_runtime PanicException a panic for tests\non\n")
    assert "a panic for tests" in errors


def test_a_client_is_no_argument_of_another_process(client, stream):
    consumer, tail = stream.consumer("g", start="new"), stream.tail("new")
    for value in (client, stream, stream.read(), consumer, consumer.notices(), tail):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(value)
    assert pickle.loads(pickle.dumps(echomq.ClosedError("why"))).code == "closed"
