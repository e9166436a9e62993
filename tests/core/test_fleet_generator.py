"""The made-up fleets of the benchmarks: the same bytes every time, good lines, what was planted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.built_rows import build_rows
from benchmarks.facts import Facts, Shape, draw
from benchmarks.fleet import main, write_night
from benchmarks.fleet_lines import write_lines
from benchmarks.fleet_rows import fold_rows, write_flat
from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.feature import METADATA_VERSION
from featurelib.landing import ApiVersionsAnswer, Landing, Quarantined, read

BAD = Shape(
    clusters=20,
    nodes=9,
    features=12,
    offenders=0.06,
    ghosts=0.04,
    disagreeing=0.2,
    behind=0.3,
    rolling=0.15,
)
MANY = Shape(clusters=6, nodes=9, features=12, profiles="many", ghosts=0.1)


@pytest.fixture(scope="module")
def facts() -> Facts:
    return draw(BAD)


@pytest.fixture(scope="module")
def judged(facts: Facts) -> Judged:
    (batch,) = fold_rows(facts)
    conditions = Conditions(as_of=facts.as_of, max_age=24 * 3_600_000_000)
    return judge(batch, conditions, load_catalogue(), load_dialect("strict"))


def landed(facts: Facts) -> Iterator[Landing]:
    for text in write_lines(facts):
        for raw in text.splitlines():
            line = read(raw)
            assert not isinstance(line, Quarantined), line.reason
            yield line


@pytest.mark.parametrize("zipped", [False, True])
def test_equal_seeds_give_equal_files(tmp_path: Path, zipped: bool) -> None:
    first = write_night(draw(BAD, 1), tmp_path / "a", files=3, zipped=zipped)
    second = write_night(draw(BAD, 1), tmp_path / "b", files=3, zipped=zipped)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_another_seed_gives_another_fleet() -> None:
    other = Shape(clusters=BAD.clusters, seed=BAD.seed + 1)
    assert not set(draw(BAD).ids) & set(draw(other).ids)


def test_the_number_of_files_changes_no_line(tmp_path: Path, facts: Facts) -> None:
    paths = write_night(facts, tmp_path, files=7)
    assert b"".join(path.read_bytes() for path in paths) == b"".join(write_lines(facts))


def test_the_command_writes_a_folder_a_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--clusters", "3", "--nodes", "4", "--features", "7", "--nights", "2", "--gzip"]
    main([*options, "--files", "2", "--out", str(tmp_path)])
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.gz"))
    assert found == [f"night-0{n}/part-00{p}.jsonl.gz" for n in (0, 1) for p in (0, 1)]
    assert "night 1: 30 lines" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [BAD, MANY, Shape(clusters=3, nodes=4, features=1)])
@pytest.mark.parametrize("night", [0, 40])
def test_every_line_is_accepted(shape: Shape, night: int) -> None:
    kinds = Counter(line.kind for line in landed(draw(shape, night)))
    assert kinds == {
        "api_versions": shape.clusters * shape.listeners,
        "describe_cluster": shape.clusters * 2,
        "describe_quorum": shape.clusters,
    }


def test_many_profiles_are_one_a_process() -> None:
    supported: dict[str, dict[int, set[object]]] = {}
    for line in landed(draw(MANY)):
        said = line.content
        if isinstance(said, ApiVersionsAnswer) and said.error is None:
            supported.setdefault(line.cluster, {}).setdefault(said.node_id, set()).add(
                said.supported
            )
    for nodes in supported.values():
        assert {len(said) for said in nodes.values()} == {1}
        assert len(set.union(*nodes.values())) == len(nodes)


def test_a_night_changes_one_cluster_in_a_hundred() -> None:
    shape = Shape(clusters=20_000, nodes=4)
    before, after = draw(shape, 6), draw(shape, 7)
    changed = (before.software != after.software).any(axis=1)
    changed |= before.finalized != after.finalized
    assert 100 < changed.sum() < 250
    assert before.ids == after.ids
    assert (after.epoch > before.epoch).all()


@pytest.mark.parametrize("shape", [BAD, MANY, Shape(clusters=3, nodes=4, features=1)])
@pytest.mark.parametrize("night", [0, 40])
def test_built_rows_are_the_folded_ones(shape: Shape, night: int) -> None:
    facts = draw(shape, night)
    folded = pa.Table.from_batches(fold_rows(facts)).drop(["state"])
    built = pa.Table.from_batches(build_rows(facts)).drop(["state"])
    assert built.to_pylist() == folded.to_pylist()


@pytest.mark.parametrize("shape", [BAD, MANY])
def test_flat_tables_hold_what_the_lines_say(tmp_path: Path, shape: Shape) -> None:
    facts = draw(shape)
    write_flat(facts, tmp_path / "flat")
    ranges: list[tuple[object, ...]] = []
    newest: dict[str, tuple[int, int, tuple[tuple[str, int, int], ...]]] = {}
    for line in landed(facts):
        said = line.content
        if not isinstance(said, ApiVersionsAnswer) or said.error is not None:
            continue
        who = (line.cluster, said.node_id, said.role.text)
        ranges += [(*who, *entry) for entry in said.supported]
        if said.role.text == "broker":
            word = (said.epoch, line.observed_at or 0, said.finalized)
            newest[line.cluster] = max(newest.get(line.cluster, word), word)
    assert sorted(rows(tmp_path / "flat" / "advertisement.parquet")) == sorted(ranges)
    levels = [(name, *entry) for name, (_, _, said) in newest.items() for entry in said]
    assert sorted(rows(tmp_path / "flat" / "finalized.parquet")) == sorted(
        (cluster, name, level) for cluster, name, _, level in levels
    )


def rows(path: Path) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]


def test_the_core_finds_the_planted_offenders(facts: Facts, judged: Judged) -> None:
    builds = facts.builds
    planted = {
        (facts.ids[cluster], "broker", node + 1, builds.names[column])
        for cluster, node in np.argwhere(facts.offender).tolist()
        for column in range(len(builds.names))
        if builds.maximum[facts.software[cluster, node], column]
        < builds.levels[facts.finalized[cluster], column]
        and not (facts.dissenter[cluster] >= 0 and builds.names[column] == METADATA_VERSION)
    }
    assert len(planted) >= facts.offender.sum() > 0
    table = judged.incompatible.select(["cluster", "role", "node_id", "feature"])
    assert {tuple(row.values()) for row in table.to_pylist()} == planted
    assert table.num_rows == len(planted)


@pytest.mark.parametrize("code", ["ghost_broker", "range_unknown"])
def test_the_core_finds_the_planted_ghosts(facts: Facts, judged: Judged, code: str) -> None:
    planted = [(facts.ids[c], node + 1) for c, node in np.argwhere(facts.ghost).tolist()]
    assert planted
    assert sorted(found(judged, code, "node_id")) == sorted(planted)


def test_the_core_finds_the_planted_disagreements(facts: Facts, judged: Judged) -> None:
    planted = [(facts.ids[c], METADATA_VERSION) for c in np.flatnonzero(facts.dissenter >= 0)]
    assert planted
    assert sorted(found(judged, "witnesses_disagree", "feature")) == sorted(planted)


def test_the_core_finds_nothing_that_was_not_planted(judged: Judged) -> None:
    assert set(judged.findings["code"].to_pylist()) <= {
        "generation_ambiguous",  # 4.2 may be 4.1 with unstable features
        "incompatible_with_finalized",
        "unsupported_by_node",
        "dependency_unmet",
        "ghost_broker",
        "range_unknown",
        "witnesses_disagree",
    }


def test_the_core_judges_the_others_by_what_they_run(facts: Facts, judged: Judged) -> None:
    verdicts = dict(
        zip(*(judged.plans[name].to_pylist() for name in ("cluster", "verdict")), strict=True)
    )
    builds = facts.software[:, : facts.shape.nodes]
    told = set()
    for cluster, name in enumerate(facts.ids):
        if facts.ghost[cluster].any() or facts.offender[cluster].any():
            continue
        if facts.dissenter[cluster] >= 0:
            expected = "UNKNOWN"
        elif len(set(builds[cluster].tolist())) > 1:
            expected = "BLOCKED"
        else:
            behind = facts.finalized[cluster] < builds[cluster, 0]
            expected = "READY" if behind else "UP_TO_DATE"
        assert verdicts[name] == expected
        told.add(expected)
    assert told == {"UNKNOWN", "BLOCKED", "READY", "UP_TO_DATE"}


def found(judged: Judged, code: str, column: str) -> list[tuple[str, object]]:
    table = judged.findings.filter(pc.equal(judged.findings["code"], code))
    return list(zip(table["cluster"].to_pylist(), table[column].to_pylist(), strict=True))


def test_a_shape_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="more features"):
        Shape(nodes=50, features=9, profiles="many")
    with pytest.raises(ValueError, match="nodes"):
        Shape(nodes=3)
    with pytest.raises(ValueError, match="profiles"):
        Shape(profiles="some")
