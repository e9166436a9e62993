"""What `can-roll` promises of controllers whose metadata log may still replay a level.

Each answer was given beside real nodes: 4.2.1 to 4.1.2 ends at once and starts after a snapshot;
3.9.2 formatted with 3.3-IV0 to 4.0.1, 4.1.2, 4.2.1 and 4.3.1 ends, and starts after a snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from featurelib.audit.cluster_view import Inputs
from featurelib.extras.predictions.rolling import ReplayProof, Roll, roll
from featurelib.feature import METADATA_VERSION
from featurelib.source import SAMPLES
from tests.cli.commands import run
from tests.core.test_replay import checkpoint, log
from tests.laboratory import LABORATORY
from tests.questions.nights import TERMS

Line = dict[str, Any]
HIGH = ("metadata.version", 29)


def recorded(name: str, samples: Path = LABORATORY) -> list[Line]:
    """The lines of a sample without its dump of the metadata log."""
    lines = (samples / name / "landing.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["kind"] != "metadata_log"]


def later(line: Line, hours: int, **keys: object) -> Line:
    at = datetime.fromisoformat(line["observed_at"]) + timedelta(hours=hours)
    return line | {"observed_at": at.isoformat().replace("+00:00", "Z")} | keys


def lowered(lines: list[Line]) -> list[Line]:
    """The same nodes an hour later, after a downgrade to what 4.1 supports."""
    found = []
    for line in lines:
        levels = [
            one | {"max_version_level": 27, "min_version_level": 27}
            if one["name"] == "metadata.version"
            else one
            for one in line.get("finalized_features") or ()
            if one["name"] != "streams.version"
        ]
        if levels:
            epoch = line["finalized_features_epoch"] + 10
            keys = {"finalized_features": levels, "finalized_features_epoch": epoch}
            found.append(later(line, 1, **keys))
        elif line["kind"] != "features_describe":
            found.append(later(line, 1))
    return found


def dumped(like: Line, hours: int, *files: list[str]) -> list[Line]:
    """One output of kafka-dump-log, some hours after a line."""
    texts = [text for file in files for text in file]
    head = later({"cluster_id": like["cluster_id"], "observed_at": like["observed_at"]}, hours)
    return [
        head | {"kind": "metadata_log", "line_number": number, "line": text}
        for number, text in enumerate(texts, start=1)
    ]


def ask(lines: Iterable[Line], to: str, sent: Iterable[tuple[str, int, int]] = ()) -> Roll:
    inputs: Inputs = TERMS
    return roll(
        inputs.see_lines([json.dumps(one).encode() for one in lines], None), to, inputs, sent
    )


def replays(found: Roll) -> set[tuple[str, int, ReplayProof]]:
    return {(one.feature, one.level, one.proof) for one in found.replays}


def test_after_a_downgrade_controllers_may_not_join_yet() -> None:
    before = recorded("k42-dynamic")
    found = ask([*before, *lowered(before)], "4.1")
    assert found.may_join
    assert replays(found) == {(*HIGH, ReplayProof.SEEN), ("streams.version", 1, ReplayProof.SEEN)}
    assert replays(ask(lowered(before), "4.1")) == set()  # nobody saw the higher level
    assert replays(ask([*before, *lowered(before)], "4.2")) == set()


def rolled_back(lines: list[Line], *ids: int) -> list[Line]:
    """The answers of some nodes an hour later, once they run software of 4.1."""
    found = []
    for line in lines:
        if line["kind"] == "api_versions" and line["node_id"] in ids:
            ranges = [
                feature | {"max_version": 27} if feature["name"] == "metadata.version" else feature
                for feature in line["supported_features"]
                if feature["name"] != "streams.version"
            ]
            line = line | {"supported_features": ranges}
        found.append(later(line, 1))
    return found


def others_of(lines: list[Line], ids: tuple[int, ...]) -> list[Line]:
    return [line for line in lines if line.get("node_id") not in ids]


def test_controllers_that_run_the_older_software_have_replayed_their_logs() -> None:
    lines = recorded("orders-prod-eu", SAMPLES)
    newest = max(line["observed_at"] for line in lines)[:10]
    before = [line for line in lines if line["observed_at"].startswith(newest)]
    after = lowered(before)
    controllers = (101, 102, 103)
    answers = rolled_back(after, *controllers)
    assert not replays(ask([*before, *after, *answers], "4.1"))
    waits = {(*HIGH, ReplayProof.SEEN), ("streams.version", 1, ReplayProof.SEEN)}
    rest = [line for line in answers if line.get("node_id") != 101]
    for seen in (
        rolled_back(after, *controllers[1:]),  # 101 was not rolled yet
        rest,  # 101 did not answer since
        [one | {"finalized_features": []} if one.get("node_id") == 101 else one for one in answers],
    ):
        assert replays(ask([*before, *after, *seen], "4.1")) == waits
    # They ran the older software before the level was raised, and nobody asked them since.
    early = [later(line, -4) for line in answers]
    assert (
        replays(
            ask([*early, *others_of(before, controllers), *others_of(after, controllers)], "4.1")
        )
        == waits
    )


def test_a_downgrade_in_the_journal_is_evidence() -> None:
    found = ask(lowered(recorded("k42-dynamic")), "4.1", [(*HIGH, 1)])
    assert replays(found) == {(*HIGH, ReplayProof.JOURNAL)}


@pytest.mark.parametrize(
    ("hours", "files", "left"),
    [
        (2, [checkpoint(90, "MV27"), log(90, "MV27")], set()),
        (2, [checkpoint(90, "MV27")], set()),
        # Read before the downgrade, or a snapshot of before the upgrade: they prove nothing.
        (0, [checkpoint(90, "MV27")], {ReplayProof.SEEN}),
        (2, [checkpoint(20, "MV27")], {ReplayProof.SEEN}),
        (2, [checkpoint(20, "MV27"), log(20, "MV29", "MV27")], {ReplayProof.LOG, ReplayProof.SEEN}),
        (2, [log(0, "MV29", "MV27")], {ReplayProof.LOG, ReplayProof.SEEN}),
    ],
)
def test_only_a_dump_from_a_newer_snapshot_on_is_proof(
    hours: int, files: list[list[str]], left: set[ReplayProof]
) -> None:
    before = recorded("k42-dynamic")
    found = ask([*before, *lowered(before), *dumped(before[0], hours, *files)], "4.1")
    assert {one.proof for one in found.replays} == left
    assert any("downgraded recently" in one for one in found.conditions) is bool(left)
    assert any("made on the controller" in one for one in found.conditions) is (not left)


def test_an_old_level_in_the_log_or_in_bootstrap_checkpoint_ends_controllers_of_4() -> None:
    lines = recorded("k39-static")
    old = ("metadata.version", 4)
    boot = ["KRaft bootstrap snapshot", *log(0, "MV4")[2:]]
    assert replays(ask([*lines, *dumped(lines[0], 1, log(0, "MV4", "MV7", "MV21"))], "4.0")) == {
        (*old, ReplayProof.LOG)
    }
    newer = dumped(lines[0], 1, checkpoint(90, "MV21"))
    assert replays(ask([*lines, *newer], "4.0")) == set()
    both = [*lines, *newer, *dumped(lines[0], 2, boot)]
    assert replays(ask(both, "4.0")) == {(*old, ReplayProof.BOOTSTRAP)}
    assert replays(ask(both, "4.1")) == set()
    logged = dumped(lines[0], 1, log(0, "MV4", "MV7", "MV21"))
    proofs = {(*old, ReplayProof.LOG), (*old, ReplayProof.BOOTSTRAP)}
    assert replays(ask([*lines, *logged, *dumped(lines[0], 2, boot)], "4.0")) == proofs
    alone = [*lines, *dumped(lines[0], 2, boot)]
    assert replays(ask(alone, "4.0")) == {(*old, ReplayProof.BOOTSTRAP), (*old, ReplayProof.SEEN)}
    assert replays(ask(alone, "4.1")) == {(*old, ReplayProof.SEEN)}


@pytest.mark.parametrize(("name", "is_alone"), [("k39-static", True), ("catalog-prod", False)])
def test_the_checkpoint_of_one_controller_proves_nothing_about_the_others(
    name: str, is_alone: bool
) -> None:
    """Seen on real nodes: the one without a checkpoint ended at each start."""
    lines = recorded(name, LABORATORY if is_alone else SAMPLES)
    first = max(lines, key=lambda line: str(line["observed_at"]))
    files = log(0, "MV4", "MV7", "MV21"), checkpoint(90, "MV21")
    found = replays(ask([*lines, *dumped(first, 1, *files)], "4.0"))
    assert (("metadata.version", 4, ReplayProof.SEEN) in found) is not is_alone


def test_two_dumps_of_one_time_prove_nothing_and_their_levels_may_be_replayed() -> None:
    lines = recorded("k39-static")
    old = ("metadata.version", 4)
    boot = dumped(lines[0], 1, ["KRaft bootstrap snapshot", *log(0, "MV4")[2:]])
    for to in ("4.0", "4.1"):
        found = ask([*lines, *dumped(lines[0], 1, log(0, "MV4", "MV7", "MV21")), *boot], to)
        assert replays(found) == {(*old, ReplayProof.SEEN)}


def test_conditions_that_no_evidence_shows_are_said() -> None:
    static = ask(recorded("k39-static"), "4.0").conditions
    assert [one for one in static if "KAFKA-19192" in one]
    assert [one for one in static if one.startswith("each node keeps controller.quorum.voters")]
    lines = recorded("k39-static")
    newer = [*lines, *dumped(lines[0], 1, checkpoint(90, "MV21"))]
    boot = dumped(lines[0], 2, ["KRaft bootstrap snapshot", *log(0, "MV21")[2:]])
    for known, to, is_open in (
        (newer, "4.0", True),
        (newer, "4.1", False),
        (newer + boot, "4.0", False),
    ):
        assert any("KAFKA-19192" in one for one in ask(known, to).conditions) is is_open
    dynamic = ask(recorded("k39-dynamic"), "4.0").conditions
    assert not [one for one in dynamic if "controller.quorum.voters" in one]
    back = ask(recorded("k39-static"), "3.3").conditions
    assert [one for one in back if "KAFKA-18442" in one]
    assert not [one for one in ask(recorded("k39-static"), "3.6").conditions if "18442" in one]
    # It is said before the roll, too: who comes from 3.3 may want to go back there.
    assert {*ask(recorded("k33-fresh"), "3.9").conditions} & {*back}
    assert not [one for one in ask(recorded("k33-fresh"), "3.6").conditions if "18442" in one]


def test_no_promise_is_made_of_what_a_tool_s_text_alone_says(tmp_path: Path) -> None:
    """What kafka-features.sh printed names no witness: the first line says so, too."""
    text = (
        f"Feature: {METADATA_VERSION}\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.1-IV1"
    )
    (tmp_path / "f.txt").write_text(f"{text}\tFinalizedVersionLevel: 4.0-IV3\tEpoch: 9\n")
    landing = str(tmp_path / "landing")
    told = ("--from", str(tmp_path / "f.txt"), "--kind", "features_describe", "--cluster", "c")
    assert run("collect", *told, "--out", landing)[0] == 0
    code, out, _ = run("can-roll", "--capture", landing, "--to", "4.2")
    assert code == 0
    assert " ".join(out.split()).startswith(
        "c: software of 4.2 can register now, if it is as shown and the condition below holds "
    )
    assert "UNKNOWN: the data about finalized levels is incomplete" in out
