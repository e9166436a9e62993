"""Waves from evidence: what is in a ring can be planned and sent, and nights say how far it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

import featurelib as fl
from featurelib.api.tables import AuditInputs
from featurelib.arrow import table_of
from featurelib.audit.audit import judge
from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.evidence import Conditions, Expected
from featurelib.audit.findings import FindingWords
from featurelib.backends.base import open_backend, read_cluster
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import Settings
from featurelib.core.dialect import STRICT, load
from featurelib.extras.sandbox import sandbox
from featurelib.extras.waves import waves, waves_status
from featurelib.extras.waves.rings import Standings, WaveMove
from featurelib.extras.waves.standings import Aim, sort_out
from featurelib.feature import METADATA_VERSION
from featurelib.findings import joined
from featurelib.landing import Landing, read
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import Planned, make_plan
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows
from featurelib.tables import AUDIT_RUN, FEATURE_READINESS, FINDINGS
from featurelib.view.trend import ask_first
from tests import rows as of_rows
from tests.cli.commands import run
from tests.core.lines import (
    AS_OF,
    MAX_AGE,
    judge_lines,
    lines_of,
    microseconds,
    snapshot,
    strimzi_line,
)
from tests.core.oracle import Cluster
from tests.core.random_clusters import kraft, with_changes, zookeeper
from tests.core.scale import WHOLE, some
from tests.core.test_strimzi import GOOD
from tests.questions.nights import append, read_samples_id, write_night
from tests.questions.test_plan_agrees import see_lines
from tests.report.samples import CATALOGUE, FLEET, HOURS_72, SAMPLES, read_samples

CASES = some(300)
ASKED = AuditInputs(fleet=Fleet(), part=None, settings=Settings(), mutes=(), catalogue=CATALOGUE)
AIMS = ("upgrade-all", "3.5", "3.9", "4.0", "4.1", "4.2", "4.4")


def standing(one: ClusterView, target: str, as_of: int, max_age: int) -> Standings:
    aim = Aim.of(target, CATALOGUE)
    conditions = Conditions(as_of=as_of, max_age=max_age, up_to=aim.level or 0)
    return sort_out(ASKED, judge(one.rows, conditions, CATALOGUE, load(STRICT)), aim)


def planned(one: ClusterView, moves: Sequence[WaveMove]) -> Planned:
    up = {move.feature: str(move.to_level) for move in moves}
    return make_plan(one, Intent(command=Command.UPDATE, up=up), CATALOGUE)


def expect_place(one: ClusterView, target: str, as_of: int, max_age: int) -> str:
    """The place of one cluster: in a ring its first step passes alone, and all of it at once."""
    found, level = standing(one, target, as_of, max_age), Aim.of(target, CATALOGUE).level
    assert list(found.names) == [one.cluster_id]
    if found.held:
        return found.held[0].why
    now = one.cluster.level(METADATA_VERSION)
    if found.reached:
        assert level is None or now >= level
        return "reached"
    [there] = found.candidates
    moves = [move for _, work in there.works for move in work.moves]
    assert (
        level is None or {m.feature: m.to_level for m in moves}.get(METADATA_VERSION, now) >= level
    )
    for some_moves in (there.works[0][1].moves, moves):
        plan = planned(one, some_moves)
        assert plan.refusals == (), (plan.refusals, there)
        assert plan.plan is not None
        assert {m.feature for m in plan.plan.moves} == {m.feature for m in some_moves}
    return "ring"


@pytest.mark.no_cover
def test_what_is_in_a_ring_can_be_planned_on_the_same_evidence() -> None:
    seen = Counter[str]()

    @seed(6)  # draws that do not follow the text of this test
    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.just(True) | st.booleans(),
        st.sampled_from(AIMS),
        st.one_of(kraft(), kraft(), zookeeper()),
    )
    def check(vouched: bool, target: str, cluster: Cluster) -> None:
        if vouched:  # three of four: of most others something is not known
            cluster = with_changes(cluster, vouched=True, controllers_vouched=True)
        assume(lines_of(cluster))
        seen[expect_place(see_lines(cluster), target, microseconds(AS_OF), MAX_AGE)] += 1

    check()
    places = ("ring", "reached", "BLOCKED", "UNKNOWN", "critical", "software")
    assert not WHOLE or all(seen[place] for place in places), seen


@pytest.mark.parametrize("target", AIMS)
def test_samples_in_a_ring_can_be_planned(target: str) -> None:
    for row in range(len(read_samples().batch)):
        rows = of_rows.some(read_samples().batch, row)
        one = Inputs(catalogue=CATALOGUE, as_of=None, max_age=HOURS_72).see(rows)
        expect_place(one, target, of_rows.newest(rows), HOURS_72)


# --- Sent, step by step, night after night --------------------------------------------------------


OPERATOR: dict[str, tuple[str, dict[str, object]]] = {
    "strimzi_not_in_inventory": ("", {}),
    "strimzi_not_carried_out": ("strimzi", {"paused": True}),
    "strimzi_contradicted": ("strimzi", {"version": "3.9.0", "status_version": "3.9.0"}),
    "metadata_version_not_pinned": ("strimzi", {"metadata_version": None}),
    "nothing": ("strimzi", {}),
}


@pytest.mark.parametrize("code", OPERATOR)
def test_what_the_operator_would_not_do_or_would_set_back_is_in_no_ring(code: str) -> None:
    owner, changes = OPERATOR[code]
    lines = [*lines_of(GOOD), strimzi_line(**changes)]
    judged = judge_lines(lines, Expected(managed_by=owner))
    fleet = Fleet(cluster=(FleetEntry(id="c", managed_by=owner),))
    found = sort_out(replace(ASKED, fleet=fleet), judged, Aim.of("upgrade-all", CATALOGUE))
    words = FindingWords(CATALOGUE).of_rows(judged.findings, {})
    said = [
        *zip(
            *(words[name].to_pylist() for name in ("message", "consequence", "action")), strict=True
        )
    ]
    codes = judged.findings["code"].to_pylist()
    if code in ("metadata_version_not_pinned", "nothing"):
        [there] = found.candidates
        note = there.works[0][1].note
        assert "kubectl" in there.works[0][1].does[0].command
        wanted = [f"Pin it first: {joined(*said[codes.index(code)])}"] if code in codes else [""]
        assert [note] == wanted
    else:
        [held] = found.held
        [unlock] = held.unlocks
        assert held.why == "operator"
        assert (unlock.message, unlock.consequence, unlock.action) == said[codes.index(code)]


def test_what_is_unknown_and_too_old_says_both() -> None:
    nodes = (*GOOD.nodes, replace(GOOD.nodes[0], node_id=2, answered=None, failed=0))
    judged = judge_lines(lines_of(replace(GOOD, nodes=nodes)))
    [held] = sort_out(ASKED, judged, Aim.of("4.4", CATALOGUE)).held
    assert held.why == "UNKNOWN"
    assert held.unlocks[0].message.startswith(
        "Its software goes up to metadata.version 27 (4.1-IV1)"
    )
    assert held.unlocks[0].command == "featurelib can-roll c --to 4.4"
    assert "Broker 2 did not respond" in held.unlocks[1].message


def landed(file: str, at: timedelta = timedelta()) -> tuple[str, ClusterState]:
    """What a sandbox cluster says now, folded."""
    with closing(open_backend(FleetEntry(id="", file=file), CATALOGUE)) as backend:
        raws = read_cluster(backend, FleetEntry(id=""), lambda said: None)
    lines = [(line, read_samples_id(raw)) for raw in raws if isinstance(line := read(raw), Landing)]
    return lines[0][0].cluster, fold_lines(lines, CATALOGUE)


def send(file: str, moves: Sequence[WaveMove]) -> None:
    updates = {move.feature: fl.FeatureUpdate(level=move.to_level) for move in moves}
    fl.update_features(fl.connect(file=file), updates, journal=f"{file}.journal").expect_ok()


@pytest.mark.parametrize("name", ["k41-forgotten", "refused-metadata"])
def test_every_step_is_accepted_by_the_controller_one_after_the_other(
    name: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "c.db")
    sandbox(file, capture=str(SAMPLES / name))
    rows = snapshot_rows([landed(file)])
    one = Inputs(catalogue=CATALOGUE, as_of=None, max_age=HOURS_72).see(rows)
    [there] = standing(one, "upgrade-all", of_rows.newest(rows), HOURS_72).candidates
    for _, work in there.works:
        for does in work.does:
            send(file, does.moves)
    rows = snapshot_rows([landed(file)])
    one = Inputs(catalogue=CATALOGUE, as_of=None, max_age=HOURS_72).see(rows)
    assert standing(one, "upgrade-all", of_rows.newest(rows), HOURS_72).reached


def test_nights_open_the_gates(tmp_path: Path) -> None:
    """Two clusters, each of its own kind: the canary, its soak, then the other one's two steps."""
    names, begin = ("refused-metadata", "k41-forgotten"), datetime.now(UTC)
    files = {name: str(tmp_path / f"{name}.db") for name in names}
    for name, file in files.items():
        sandbox(file, capture=str(SAMPLES / name))
    root, days = tmp_path / "tables", 0

    def night() -> fl.Tables:
        nonlocal days
        days += 1
        about = begin + timedelta(days=days / 4)
        write_night(
            root, days, snapshot_rows([landed(file) for file in files.values()]), as_of=about
        )
        return fl.open_tables(str(root), fleet=str(inventory))

    inventory = tmp_path / "fleet.toml"
    ids = {entry.name: entry.id for entry in FLEET.cluster}
    inventory.write_text(
        "".join(f'[[cluster]]\nid = "{ids[name]}"\nname = "{name}"\n' for name in names), "utf-8"
    )
    path = str(tmp_path / "waves.json")
    answer = waves(night(), "4.1", soak="6h", out=path)
    steps = [list(step.works) for step in answer.value.steps]
    assert [[work.name for work in works] for works in steps] == [
        ["refused-metadata"],
        ["k41-forgotten"],
        ["k41-forgotten"],
    ]

    def status() -> tuple[int, str]:
        """The exit code of the command after another night, and the states of the steps."""
        night()
        where = ("--tables", str(root), "--fleet", str(inventory))
        code, said, _ = run("waves", "status", path, *where, "--json")
        return code, " ".join(step["state"] for step in json.loads(said)["status"]["steps"])

    told = []
    for works in steps:
        told.append(status())
        for work in works:
            send(files[work.name], work.moves)
        told.append(status())
    told.append(status())
    assert told == [
        (0, "open closed closed"),
        (1, "soaking closed closed"),
        (0, "done open closed"),
        (1, "done soaking closed"),
        (0, "done done open"),
        (1, "done done soaking"),
        (0, "done done done"),
    ]
    assert "Every step is done." in str(waves_status(night(), path))
    # What is there by now is at the target when the plan is made again.
    again = waves(night(), "4.1").value
    assert (again.rings, len(again.reached)) == ((), 2)


# --- How earlier steps fared ----------------------------------------------------------------------

# A night a letter: metadata.version is at 23, 24 or 25, or not known; in capitals, with a critical
# finding. What comes late after the step to 24 or 25 is what the ring soaks for.
FARED = {
    "abbbbbbbbbbB": ("10d", "had a critical finding 10 days after it went to"),
    "abbbbbbbbcca": ("7d", ""),  # the next step was two days before
    "abbbbbbbbba": ("9d", "was taken back 9 days after it went to"),
    "abbbbbbB": ("7d", ""),  # as long as is asked for
    "Abbbbbbbbbbb": ("7d", ""),
    "AbbbbbbbbbbB": ("7d", ""),  # it was there before the step
    "a?bbbbbbb?bB": ("9d", "had a critical finding 9 days after it went to"),
    "a" + "b" * 32 + "B": ("7d", ""),  # nobody can tell any more
    "ad": ("7d", ""),  # went down by the newest night
}


def test_a_ring_soaks_as_long_as_trouble_took_after_an_earlier_step(tmp_path: Path) -> None:
    names, begin = [f"c-{i}" for i in range(len(FARED))], AS_OF - timedelta(days=40)
    levels, critical = list[dict[str, object]](), list[dict[str, object]]()
    for name, story in zip(names, FARED, strict=True):
        for night, letter in enumerate(story, start=1):
            row: dict[str, object] = {"run": night, "cluster": name}
            level = {"a": 23, "b": 24, "c": 25, "d": 26}.get(letter.lower())
            verdict = "UNKNOWN" if level is None else "READY"
            feature = {"feature": METADATA_VERSION, "verdict": verdict, "finalized_level": level}
            levels.append(row | feature)
            if letter.isupper():
                critical.append(row | {"code": "x", "severity": "critical"})
    days = range(1, max(map(len, FARED)) + 1)
    nights = [{"run": day, "as_of": begin + timedelta(days=day)} for day in days]
    for table, rows in ((FEATURE_READINESS, levels), (FINDINGS, critical), (AUDIT_RUN, nights)):
        append(tmp_path, table, table_of(of_rows.make(rows, table.schema)))
    lines = {name: lines_of(replace(GOOD, name=name)) for name in names}
    write_night(tmp_path, 100, snapshot(lines), as_of=AS_OF)
    inventory = tmp_path / "fleet.toml"
    inventory.write_text(
        "".join(f'[[cluster]]\nid = "{name}"\nlabels = {{ n = "{name}" }}\n' for name in names)
    )
    tables = fl.open_tables(str(tmp_path), fleet=str(inventory))
    order = ",".join(names)
    answer = waves(tables, "4.1", by=[f"n={order}"])
    found = {ring.name: (ring.steps[0].soak, ring.steps[0].soak_why) for ring in answer.value.rings}
    step = "metadata.version 24 (4.0-IV2)"
    assert found == {
        f"n={name}": (soak, f"{name} {why} {step}" if why else "")
        for name, (soak, why) in zip(names, FARED.values(), strict=True)
    }
    assert f"soaks 10 days, since c-0 {FARED['abbbbbbbbbbB'][1]} {step}" in " ".join(
        str(answer).split()
    )
    # Trouble is no reason to soak less than is asked for.
    longer = waves(tables, "4.1", by=[f"n={order}"], soak="14d").value
    assert {step.soak for step in longer.steps} == {"14d"}
    # Who stands lower than before is asked about first, and nobody else.
    [asked] = (work for step in answer.value.steps for work in step.works if work.note)
    assert (asked.name, asked.note) == (
        names[-1],
        "Ask first why metadata.version went down from 26 (4.1-IV0) to 25 (4.0-IV3) "
        "(seen 2026-11-21 12:00 UTC).",
    )
    # So says a plan of it that is made from the tables, and the plan's file.
    warned = {name: fl.plan(tables[name]).value.warnings for name in names}
    assert {name: said for name, said in warned.items() if said} == {names[-1]: (asked.note,)}
    fl.plan(tables[names[-1]]).save(str(tmp_path / "plan.json"))
    shown = " ".join(run("show", str(tmp_path / "plan.json"))[1].split())
    assert f"warning: {asked.note}" in shown
    # In the next night its plan waits for the answer, too, and all the others for an approval.
    write_night(tmp_path, 101, snapshot(lines), as_of=AS_OF + timedelta(days=1))
    found = fl.open_tables(str(tmp_path), fleet=str(inventory)).report
    assert found.change is not None
    assert found.change.levels == ()
    assert list(ask_first(found)) == [(names[-1], asked.note)]
    assert [(one.verb, sorted(one.clusters)) for one in found.today] == [
        ("Ask", names[-1:]),
        ("Approve", names[:-1]),
    ]
