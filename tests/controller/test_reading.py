"""One look at a live cluster: what is known of levels, and who does not report them."""

from __future__ import annotations

import json
from pathlib import Path

from featurelib.backends.base import Say
from featurelib.controller.reading import late_nodes
from featurelib.core.outcome import EndingKind
from featurelib.core.reply import Reply
from featurelib.extras.sandbox.backend import EmbeddedBackend
from featurelib.feature import Role
from tests.controller.clusters import bench, kraft, replace, zookeeper


class Damaged(EmbeddedBackend):
    """Somebody overwrote the features node with what nobody can read."""

    damaged = True

    def describe(self, say: Say) -> tuple[bytes, ...]:
        lines = [json.loads(line) for line in super().describe(say)]
        for line in lines:
            if self.damaged and line.get("path") == "/feature":
                line["data"] = "{"
        return tuple(json.dumps(line).encode() for line in lines)


def test_levels_that_no_trustworthy_witness_says_are_not_known(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    seen = it.watcher(Damaged(it.cluster)).read().seen(["f", "never heard of"])
    assert [seen.level(name) for name in ("f", "g", "never heard of")] == [None, None, None]
    seen = it.watcher().read().seen(["f", "never heard of"])
    assert [seen.level(name) for name in ("f", "g", "never heard of")] == [1, 1, 0]


def test_a_request_whose_level_nobody_can_read_afterwards_is_unknown(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    plan, backend = it.plan(up={"f": "2"}), Damaged(it.cluster)
    backend.damaged = False

    def damage(reply: Reply) -> Reply:
        backend.damaged = True
        return reply

    wrapped = it.wrapped(after_update=damage)
    wrapped.inner = backend
    assert it.apply(plan, wrapped).kind is EndingKind.UNKNOWN


def test_who_does_not_report_a_level_is_named_with_what_he_says(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    before = it.watcher().read()
    wanted = {"metadata.version": 26}
    reports = dict(before.reports)
    reports[Role.BROKER, 11] = {"metadata.version": 26}
    reports[Role.BROKER, 12] = None
    del reports[Role.CONTROLLER, 2]
    late, asked = late_nodes(before, replace(before, reports=reports), wanted)
    assert asked == 5
    assert late == [
        "broker 12 (it reports no finalized level)",
        "broker 13 (metadata.version 25)",
        "controller 1 (metadata.version 25)",
        "controller 2 (it no longer responds)",
    ]


def test_a_node_that_could_never_tell_is_not_waited_for(tmp_path: Path) -> None:
    """Controllers before 3.6 say -1 (facts of 3.3 and 3.5)."""
    it = bench(tmp_path, kraft(25))
    look = it.watcher().read()
    mute = replace(look, reports=dict(look.reports) | {(Role.CONTROLLER, 1): None})
    late, asked = late_nodes(mute, mute, {"metadata.version": 25})
    assert (late, asked) == ([], 4)
