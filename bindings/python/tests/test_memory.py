"""What is closed or forgotten leaves nothing behind."""

import programs
import pytest


@pytest.mark.parametrize("way", ["waiting", "asyncio"])
def test_what_is_used_and_closed_leaves_nothing_behind(url, name, way):
    objects, memory = map(int, programs.run("used_and_closed", url, name, way).split())
    assert objects <= 0
    # The process has grown by what its allocators keep for later, too.
    assert memory < 1 << 20
