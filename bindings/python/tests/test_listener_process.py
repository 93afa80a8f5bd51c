"""Whole programs with listeners, reductions and tokens: signals, forks, and the end of the interpreter."""

import pickle
import signal

import echomq
import programs
import pytest
from hearing import JOB
from waiting import wait_until


@pytest.mark.parametrize("call", ["loop", "next", "watched token", "token", "join", "transition"])
def test_ctrl_c_ends_a_wait_for_events(url, name, call):
    with programs.started("listener_interrupted", url, name, call) as program:
        assert program.stdout.readline() == "ready\n"
        wait_until(lambda: programs.sleeps(program), "it waits")
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=60)
    assert (program.returncode, output, errors) == (0, "KeyboardInterrupt\n1 on 1 why\n", "")


@pytest.mark.parametrize("time", range(20))
@pytest.mark.parametrize("way", ["closed", "left open"])
def test_the_interpreter_ends_with_listeners(url, name, way, time):
    assert programs.run("listening_at_exit", url, name, way) == "end\n"


def test_a_fork_does_no_harm_to_a_listener(url, name):
    assert programs.run("listener_forked", url, name) == "[0, 0, 0] [2, 'added', 'added'] in the parent False\n"


def test_a_listener_is_no_argument_of_another_process(events):
    with events.listen() as listener, listener.reduce(print, None) as reduction:
        for value in (events, listener, listener.subscribe(), reduction, events.watch(JOB)):
            with pytest.raises(TypeError, match="pickle"):
                pickle.dumps(value)
    decided = echomq.Decided("done", None, echomq.ClosedError("why"))
    again = pickle.loads(pickle.dumps(decided))
    assert (again.verdict, again.published, again.error.code) == ("done", None, "closed")
