"""Plugins of the whole suite, and how its two workers share the tests out (`-n 2`)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest_plugins = ["tests.skips"]

# Folders whose tests share what is dear: one Spark session, running clusters, nights of tables, the
# page of a big fleet. They come first, and then what else takes long: both workers end together.
SHARING = ("spark", "backends", "golden", "questions", "report")
LONG = ("faults", "deploy", "cli", "docs", "walk", "controller")
OF_SPARK = "tests/golden/test_tables.py"  # the same session
# What these reach of floors 0 to 2 (`--cov`) the others reach too, and traced they take longer.
UNTRACED = ("spark", "backends", "report", "faults", "deploy", "docs", "walk")


@pytest.fixture(autouse=True, scope="session")
def later() -> Iterator[None]:
    """Judge stored evidence without --as-of as in a year from now.

    Recorded evidence grows too old by itself: a test that judges it by the clock of the day passes
    for three days and then fails. With this clock it fails at once. Live looks have no age."""
    at = (datetime.now(UTC) + timedelta(days=400)).timestamp() * 1_000_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("featurelib.source.now", lambda: int(at))
        yield


@pytest.fixture(autouse=True, scope="session")
def own_journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the journal of whoever runs the tests out of them, and them out of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def share_of(test: str) -> str:
    """What one worker runs as a whole: a folder that shares something, or a file."""
    file = test.partition("::")[0]
    folder = file.split("/")[1]
    return "spark" if file == OF_SPARK else folder if folder in SHARING else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort what takes long to the front, and mark what is not measured.

    Cases that Hypothesis draws are not measured, as those of tests marked `no_cover` are not: it
    would take longer than the cases do, and other tests reach what they reach."""
    items.sort(key=lambda item: place_of(share_of(item.nodeid)))
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.no_cover)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Trace a test and its fixtures only where they count."""
    plugin = item.config.pluginmanager.getplugin("_cov")
    if plugin is not None and (tracer := plugin.cov_controller) is not None:
        traced = item.nodeid.split("/")[1] not in UNTRACED
        if traced != tracer.started:
            (tracer.resume if traced else tracer.pause)()
    return (yield)


def place_of(share: str) -> int:
    """Where a share stands among all: those of one place keep their order."""
    folder = share.split("/")[1] if "/" in share else share
    order = (*SHARING, *LONG)
    return order.index(folder) if folder in order else len(order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """For `--dist loadscope`: a scope is a share."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # by the number of their tests

    class Shares(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share_of(nodeid)

    return Shares(config, log)
