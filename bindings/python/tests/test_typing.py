"""Types: stubs are compared with what is there, and checked as strictly as a user can."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from echomq import _echomq
from echomq._types import AioOptions, ConsumerOptions, Options

FOLDER = Path(__file__).resolve().parents[1]


def run(*command):
    environment = {**os.environ, "PYTHONPATH": str(FOLDER / "python"), "MYPYPATH": str(FOLDER / "python")}
    done = subprocess.run([sys.executable, "-m", *command], cwd=FOLDER, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_agree_with_the_runtime():
    run("mypy.stubtest", "echomq", "--mypy-config-file", "pyproject.toml")


@pytest.mark.parametrize("what", ["python", "tests/typing/accepted.py", "tests/typing/refused.py"])
def test_mypy_is_content(what):
    run("mypy", "--strict", what)


def test_every_option_has_a_type():
    for options in (Options, AioOptions):
        assert set(options.__annotations__) == set(_echomq.OPTION_NAMES)
    assert ["group", *ConsumerOptions.__annotations__] == _echomq.CONSUMER_OPTION_NAMES
