"""What the process is like: threads, descriptors, interpreters, and who has patched the standard library."""

import importlib.util
import sys
import types

import echomq
import programs
import pytest


@pytest.mark.parametrize("how", ["closed", "reused"])
def test_a_child_may_close_whatever_it_inherited(url, name, how):
    assert programs.run("forked_and_closed", url, name, how) == "0\n1\n2\n3\n4\nand the parent goes on\n"


def test_without_threads_calls_fail_by_a_typed_error_and_work_once_there_are_some(url, name):
    assert programs.run("without_threads", url, name).splitlines() == [
        "there are no threads",
        "state state",
        "state state",
        "state",
        "state",
        "0",
        "state",
        "b'PONG'",
        "state",
    ]


@pytest.mark.parametrize("way", ["reload", "import"])
def test_a_package_that_is_loaded_twice(url, name, way):
    said = programs.run("loaded_twice", url, name, way)
    assert said == "cancelled: over\ninvalid_name invalid_name invalid_name\n"


@pytest.mark.skipif(not importlib.util.find_spec("_xxsubinterpreters"), reason="this Python names them otherwise")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sub_interpreter_is_refused(when):
    refused, again, error = programs.run("subinterpreter", when).splitlines()
    assert refused == again
    assert "main interpreter" in refused
    assert error.startswith("InvalidNameError ")


@pytest.mark.parametrize(
    ("module", "asked", "patched"),
    [
        ("gevent.monkey", "is_module_patched", "threading"),
        ("gevent.monkey", "is_module_patched", "socket"),
        ("eventlet.patcher", "is_monkey_patched", "thread"),
        ("eventlet.patcher", "is_monkey_patched", "socket"),
    ],
)
def test_a_patched_standard_library_is_refused(url, monkeypatch, module, asked, patched):
    patcher = types.ModuleType(module)
    names = {patched}
    setattr(patcher, asked, names.__contains__)
    monkeypatch.setitem(sys.modules, module, patcher)
    for client in (echomq.Client, echomq.aio.Client):
        with pytest.raises(echomq.StateError, match="has patched the standard library") as caught:
            client(url)
        assert caught.value.subject == module.partition(".")[0]
    # Loaded alone it does no harm.
    names.clear()
    with echomq.Client(url) as client:
        assert client.command("PING") == b"PONG"
