"""Whole programs with consumers and tails: signals, forks, an unreachable server, and the end of the interpreter."""

import signal
from datetime import timedelta

import echomq
import programs
import pytest
from consuming import pending
from waiting import wait_until

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    "call", ["loop", "next", "batch", "run", "run in threads", "run batches", "handler", "tail", "notices", "stop"]
)
def test_ctrl_c_ends_a_wait_for_entries(url, name, plain, key, call):
    """P5: and what was in hand stays pending."""
    with programs.started("reader_interrupted", url, name, call) as program:
        assert program.stdout.readline() == "ready\n"
        if call in ("handler", "stop"):
            assert program.stdout.readline() in ("in hand\n", "waits\n")
        wait_until(lambda: programs.sleeps(program), "it waits")
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=60)
    said = "KeyboardInterrupt\n" if call == "stop" else "KeyboardInterrupt\nTrue True\n"
    assert (program.returncode, output, errors) == (0, said, "")
    assert len(pending(plain, key, "g")) == {"handler": 2}.get(call, 1)


@pytest.mark.parametrize("time", range(50))
@pytest.mark.parametrize("way", ["closed", "left open"])
def test_the_interpreter_ends_with_consumers(url, name, way, time):
    assert programs.run("consuming_at_exit", url, name, way) == "end\n"


def test_a_fork_does_no_harm_to_a_consumer(url, name):
    """P1."""
    assert programs.run("consumer_forked", url, name) == "[0, 0, 0] 0 0 parent\n"


def test_closing_without_a_server(own_server):
    """K23: a close ends by its deadline, and a second one does nothing."""
    client = echomq.Client(own_server.url, node_id=7, timeout=HOUR)
    stream = client.stream("q", "s")
    stream.append_batch([{}, {}])
    consumer = stream.consumer("g", start="head")
    delivery = next(consumer)
    own_server.kill()
    delivery.ack()
    assert consumer.stop(timedelta(milliseconds=50)) >= 1
    assert client.close(timedelta(milliseconds=50)) >= 0
    assert client.close() == 0
    assert list(consumer) == []
