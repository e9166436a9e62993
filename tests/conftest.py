"""Plugins of the whole suite, and how its two workers share the tests out (`-n 2`)."""

from __future__ import annotations

from typing import Any

import pytest

pytest_plugins = ["tests.skips"]

# Folders whose tests share what is dear: one Spark session, running clusters, nights of tables.
SHARING = {"spark", "backends", "questions", "golden"}
OF_SPARK = "tests/golden/test_tables.py"  # the same session


def share_of(test: str) -> str:
    """What one worker runs as a whole: a folder that shares something, or a file."""
    file = test.partition("::")[0]
    folder = file.split("/")[1]
    return "spark" if file == OF_SPARK else folder if folder in SHARING else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases that Hypothesis draws are not measured, as those of tests marked `no_cover` are not: it
    would take longer than the cases do, and other tests reach what they reach."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.no_cover)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """For `--dist loadscope`: a scope is a share."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Shares(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share_of(nodeid)

    return Shares(config, log)
