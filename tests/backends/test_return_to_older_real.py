"""Back from 4.2 to 4.1 on real nodes: each promise that is printed, beside a node that is really
started with 4.1.2.

The older software comes at once, and once more after a metadata snapshot; one controller first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from featurelib.feature import UpgradeType
from featurelib.view.words import SNAPSHOT_FIRST
from tests.backends.judged import until
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.kraft import Node
from tests.backends.test_remedies_real import log_lines
from tests.cli.commands import run
from tests.walk.returning import INTERVAL, SERVES, wait_for_snapshot
from tests.walk.wire import Line
from tests.walk.world import Member, World

pytestmark = pytest.mark.kafka
NEWER, OLDER = "4.2.1", "4.1.2"
NOW, NOT_YET, NOT = "can register now", "can register, but not yet", "can NOT register now"
REPLAYED = "Unable to apply FeatureLevelRecord"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., World]]:
    """A factory of a cluster of 4.2.1 with the levels of 4.1, by the roles of its nodes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEATURELIB_JOURNAL", str(tmp_path / "journal.sqlite"))
    with ExitStack() as stack:

        def start(*roles: str) -> World:
            nodes = [
                Node(id=number, release=NEWER, roles=text)
                for number, text in enumerate(roles, start=1)
            ]
            try:
                world = World.start(
                    tmp_path / "nodes", nodes, release_version="4.1", features={}, dynamic=False
                )
            except UnavailableError as missing:
                pytest.skip(f"real Kafka: {missing}")
            stack.callback(world.stop_all)
            return world

        yield start


def reach(world: World) -> tuple[str, ...]:
    brokers, controllers = world.addresses
    return ("--bootstrap", ",".join(brokers), "--controllers", ",".join(controllers))


def carried_out(world: World, *asked: str) -> dict[str, str]:
    """Plan, show, approve, apply: what each printed, on one line."""
    said = {}
    for words in (
        ("plan", *asked, *reach(world), "--out", "p.json"),
        ("show", "p.json"),
        ("approve", "p.json", "--expires", "1h", "--yes"),
        ("apply", "p.json", "--approval", "p.approval.json", *reach(world), "--yes"),
    ):
        code, out, err = run(*words)
        assert code == 0, out + err
        said[words[0]] = " ".join(out.split())
    Path("p.approval.json").unlink()
    return said


def promised(world: World, to: str = "4.1", dump: str = "") -> str:
    """What can-roll answers by all that has landed, this look and a `dump` right after included;
    without the conditions of its first line."""
    code, _, err = run("collect", *reach(world), "--timeout", "5", "--out", "landing")
    assert code in (0, 5), err
    if dump:
        lines = b"".join(b"%s\n" % line for line in log_lines(world.cluster))
        Path("landing", dump).write_bytes(lines)
    code, out, err = run("can-roll", "--capture", "landing", "--to", to, "--as-of", "newest")
    found = re.search(rf"software of {to} (.*)", out)
    assert found, out + err
    return found[1].partition(", if ")[0]


def restarted(world: World, member: Member, release: str, **properties: str) -> str:
    """What became of a node of other software, or of its own with other properties."""
    if member in world.serving:
        world.stop(member, kill=False)
    if properties:
        return world.launch(
            member, release=release, properties={**member.node.properties, **properties}
        )
    return world.launch(member, release=release)


def ends(world: World, member: Member) -> bool:
    """Whether a node of the older software ends, now or once it replays its metadata log.

    A controller may say that it started before it has replayed anything.
    """
    if restarted(world, member, OLDER) == SERVES:
        until(lambda: not world.node(member.id).process.running)
        world.notice()
    return REPLAYED in world.cluster.logs(member.id)


def snapshot_written(world: World, member: Member) -> None:
    """A controller's own software writes a snapshot past the downgrade."""
    assert restarted(world, member, NEWER, **{INTERVAL: "1500"}) == SERVES
    assert wait_for_snapshot(world, member, 30)


def test_after_a_downgrade_each_controller_needs_a_snapshot_and_a_broker_none(
    started: Callable[..., World],
) -> None:
    world = started("broker,controller", "controller", "controller", "broker")
    combined, second, third, broker = world.members.values()
    assert promised(world) == NOW  # it runs 4.2 at the levels of 4.1
    assert restarted(world, broker, OLDER) == SERVES
    assert restarted(world, third, OLDER) == SERVES
    for member in (broker, third):
        assert restarted(world, member, NEWER) == SERVES

    said = carried_out(world, "upgrade-all")
    assert "No longer: Kafka 4.1. Lower the level before" in said["show"]
    assert promised(world) == NOT
    assert restarted(world, broker, OLDER) != SERVES
    assert restarted(world, broker, NEWER) == SERVES

    said = carried_out(world, "downgrade-all", "--release-version", "4.1")
    assert SNAPSHOT_FIRST in said["show"]
    assert SNAPSHOT_FIRST in said["apply"]
    assert promised(world) == NOT_YET
    assert restarted(world, broker, OLDER) == SERVES
    for member in (third, combined):  # at once
        assert ends(world, member)
        assert restarted(world, member, NEWER) == SERVES
        assert promised(world) == NOT_YET

    snapshot_written(world, third)
    assert restarted(world, third, OLDER) == SERVES
    assert promised(world) == NOT_YET  # a snapshot of one says nothing of the others
    assert ends(world, second)
    for member in (second, combined):
        snapshot_written(world, member)
        assert restarted(world, member, OLDER) == SERVES
    assert promised(world, "4.2") == NOW
    code, out, err = run("plan", "upgrade-all", *reach(world), "--out", "again.json")
    assert code == 0, out + err
    assert "nothing to do" in out.lower()


def test_a_dump_of_the_only_controller_proves_its_snapshot(started: Callable[..., World]) -> None:
    world = started("broker,controller")
    (node,) = world.members.values()
    carried_out(world, "upgrade-all")
    assert promised(world) == NOT
    carried_out(world, "downgrade-all", "--release-version", "4.1")
    journal = " ".join(run("can-roll", *reach(world), "--to", "4.1")[1].split())
    assert "metadata.version 29 (4.2-IV1) was finalized before, says the journal" in journal
    assert NOT_YET in journal
    other = Path("journal.sqlite").rename("other.sqlite")  # as `apply --journal other.sqlite`
    words = ("can-roll", *reach(world), "--to", "4.1")
    assert "can register now, if the condition" in run(*words)[1].partition("\n")[0]
    assert NOT_YET in run(*words, "--journal", str(other))[1]
    other.rename("journal.sqlite")
    assert promised(world, dump="before.jsonl") == NOT_YET
    assert ends(world, node)
    snapshot_written(world, node)
    until(lambda: bool(world.quorum().leader == 1))
    assert promised(world, dump="after.jsonl") == NOW
    assert restarted(world, node, OLDER) == SERVES


def test_a_level_that_another_tool_lowered_is_known_by_the_journal(
    started: Callable[..., World],
) -> None:
    world = started("broker,controller")
    (node,) = world.members.values()
    carried_out(world, "upgrade-all")
    with Line(world.node(node.id).broker, 30) as line:
        back = ("metadata.version", 27, UpgradeType.SAFE_DOWNGRADE)
        off = ("streams.version", 0, UpgradeType.SAFE_DOWNGRADE)
        assert line.update_features([back, off], validate_only=False).is_good
    assert NOT_YET in run("can-roll", *reach(world), "--to", "4.1")[1]
    assert ends(world, node)
    snapshot_written(world, node)
    assert NOT_YET in run("can-roll", *reach(world), "--to", "4.1")[1]  # it proves no snapshot
    assert restarted(world, node, OLDER) == SERVES
    until(lambda: NOW in run("can-roll", *reach(world), "--to", "4.1")[1])  # it runs 4.1
