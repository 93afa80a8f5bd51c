"""The examples of the docstrings and of the README, run against a real server."""

import asyncio
import doctest
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import echomq
import pytest
from echomq import _echomq, _events, _handlers

README = Path(__file__).resolve().parents[1] / "README.md"
MODULES = (echomq, echomq.aio, echomq.errors, _events, _handlers)
GLOBALS = {
    "echomq": echomq,
    "asyncio": asyncio,
    "time": time,
    "datetime": datetime,
    "timedelta": timedelta,
    "UTC": UTC,
}


def examples():
    finder = doctest.DocTestFinder()
    found = [test for module in MODULES for test in finder.find(module)]
    return {test.name: test for test in found if test.examples}


def run(test, url):
    test.globs = {**GLOBALS, "url": url}
    said = []
    results = doctest.DocTestRunner().run(test, out=said.append)
    assert results.failed == 0, "".join(said)
    assert results.attempted > 0


@pytest.mark.parametrize("test", list(examples().values()), ids=lambda test: test.name)
def test_docstrings(test, url):
    run(test, url)


def test_the_readme(url):
    text = README.read_text(encoding="utf-8")
    run(doctest.DocTestParser().get_doctest(text, {}, "README.md", str(README), 0), url)


def test_the_readme_lists_every_option_and_notice():
    rows = re.findall(r"^\| (`.*?`) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    consumer = [name for name in _echomq.CONSUMER_OPTION_NAMES if name != "group"]
    expected = consumer + _echomq.NOTICE_KINDS + _echomq.OPTION_NAMES
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == expected


def public():
    """Everything that a user can name, with its documentation."""
    for module in (echomq, echomq.aio):
        for name in module.__all__:
            value = getattr(module, name)
            yield f"{module.__name__}.{name}", value
            if isinstance(value, type):
                for member, attribute in vars(value).items():
                    if not member.startswith("_"):
                        yield f"{module.__name__}.{name}.{member}", attribute


@pytest.mark.parametrize(("name", "value"), list(public()), ids=lambda value: value if isinstance(value, str) else "")
def test_everything_public_is_documented(name, value):
    constant = isinstance(value, (str, int)) or name.rsplit(".", 1)[-1] in ("Fields", "Text") or "Options." in name
    assert constant or (value.__doc__ or "").strip()
