"""One cluster from landing lines in memory: what the nightly's audit says of it, and no less."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.errors import InputError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.rows import NONE, nulls
from featurelib.schema import BYTES, SNAPSHOT
from tests.core.lines import HOUR, codes, findings, rows_of
from tests.report.samples import CATALOGUE, FLEET, SAMPLES, judge_fleet, judge_samples, read_samples
from tests.rows import newest, some
from tests.seeing import see

TABLES = ("findings", "incompatible", "readiness")
BATCH, NAMES, NEWEST = read_samples().batch, read_samples().names, read_samples().newest
FOLDERS = list(NAMES.values())
GHOST, STOCK = "ghost-broker", "zk-392-stock"


def lines(name: str) -> list[bytes]:
    return (SAMPLES / name / "landing.jsonl").read_bytes().splitlines()


def look(*some: bytes, as_of: int | None = None, **more: object) -> ClusterView:
    return see(some, catalogue=CATALOGUE, as_of=as_of, max_age=72 * HOUR, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FOLDERS)
def test_every_sample_alone_is_judged_as_in_the_night(name: str) -> None:
    """And so is its row as the tables store it, of which Spark does not hand over the state."""
    seen = look(*lines(name), as_of=NEWEST)
    stored = seen.rows.replace(state=nulls(BYTES, 1))
    again = Inputs(catalogue=CATALOGUE, as_of=NEWEST, max_age=72 * HOUR).see(stored)
    assert (NAMES[seen.cluster_id], seen.rejected) == (name, ())
    for table in TABLES:
        mine = rows_of(judge_samples(), table, cluster=seen.cluster_id)
        assert mine == rows_of(seen.judged, table) == rows_of(again.judged, table)
    assert seen.rows.to_pylist() == some(BATCH, FOLDERS.index(name)).to_pylist()
    assert seen.rows.schema == SNAPSHOT
    [plan] = rows_of(judge_samples(), "plans", cluster=seen.cluster_id)
    assert plan["dialects"] in ([], list(seen.dialects))
    assert seen.dialects
    assert (again.cluster, again.releases) == (seen.cluster, seen.releases)
    assert (again.dialects, again.newest) == (seen.dialects, seen.newest)


def test_the_order_of_lines_and_lines_twice_change_nothing() -> None:
    said = lines(GHOST)
    once, twice = look(*said), look(*reversed(said), *said)
    assert twice.rows.to_pylist() == once.rows.to_pylist()
    assert twice.cluster == once.cluster
    with (SAMPLES / GHOST / "landing.jsonl").open("rb") as file:
        assert look(*file).rows.to_pylist() == once.rows.to_pylist()  # a line may keep its end


def test_a_broken_line_is_set_aside_with_its_number_and_the_rest_goes_on() -> None:
    said = lines(GHOST)
    view = look(said[0], b"{", *said[1:], b'{"kind":"guess"}')
    assert [number for number, _ in view.rejected] == [2, len(said) + 2]
    assert "kind" in view.rejected[1][1]
    assert view.cluster == look(*said).cluster


def test_it_is_judged_as_of_its_newest_line_or_as_of_the_time_given() -> None:
    fresh = look(*lines(GHOST))
    assert fresh.newest == newest(fresh.rows)
    late = look(*lines(GHOST), as_of=fresh.newest + 73 * HOUR)
    assert rows_of(late.judged, "plans")[0]["verdict"] == "UNKNOWN"
    assert late.newest == fresh.newest


def test_the_inventory_counts_as_in_the_night() -> None:
    name = look(*lines("k42-dynamic")).cluster_id
    fleet = Fleet(cluster=(Entry(id=name, brokers=(1, 9), release="4.1.2"),))
    view = look(*lines("k42-dynamic"), fleet=fleet)
    assert "expected_node_missing" in codes(view.judged)
    assert (view.releases, view.cluster.release) == (("4.1.2",), "4.1.2")
    assert view.dialects == ("kraft-4.1",)


def test_severities_of_the_caller_are_used() -> None:
    view = look(*lines(GHOST), severities={"ghost_broker": Severity.CRITICAL})
    assert findings(view.judged, "ghost_broker")[0]["severity"] == "critical"


def test_lines_of_several_clusters_are_refused_by_name_until_one_is_chosen() -> None:
    both = [*lines(GHOST), *lines(STOCK)]
    names = {name: cluster for cluster, name in NAMES.items()}
    with pytest.raises(InputError, match="These are lines of 2 clusters") as caught:
        look(*both)
    assert names[GHOST] in str(caught.value)
    assert names[STOCK] in str(caught.value)
    chosen = look(*both, cluster_id=names[STOCK])
    assert chosen.rows.to_pylist() == look(*lines(STOCK)).rows.to_pylist()


def test_no_accepted_line_is_no_evidence_and_the_reasons_are_said() -> None:
    with pytest.raises(NoEvidenceError, match=r"There is no landing line\. docs/landing.md"):
        look()
    with pytest.raises(
        NoEvidenceError,
        match=r"None of 6 lines is a valid landing line\. Line 1: ",
    ):
        look(*[b"{"] * 6)
    with pytest.raises(NoEvidenceError, match=r"of cluster nowhere, only lines of h0FOOR"):
        look(*lines(GHOST), cluster_id="nowhere")


def test_a_stored_row_has_to_be_one_and_to_have_landed() -> None:
    rows = BATCH
    with pytest.raises(InputError, match=r"these are 26 rows"):
        Inputs(catalogue=CATALOGUE, as_of=None, max_age=HOUR).see(rows)
    never = some(rows, 0).replace(observed_at=np.array([NONE]))
    with pytest.raises(NoEvidenceError, match="no data was ever collected from this cluster"):
        Inputs(catalogue=CATALOGUE, as_of=None, max_age=HOUR).see(never)


def test_seeing_needs_neither_spark_nor_a_terminal() -> None:
    code = (
        "import sys, featurelib.audit.cluster_view\n"
        "heavy = {'pyspark', 'py4j', 'delta', 'deltalake', 'pyarrow', 'rich', 'typer', 'jinja2'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    root = Path(__file__).parents[2]
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"


def counted(words: Iterable[str]) -> str:
    said = [f"{word} {n}" if n > 1 else word for word, n in sorted(Counter(words).items())]
    return ", ".join(said) or "none"


def test_the_readme_of_the_samples_says_what_the_audit_says_and_tells_every_story() -> None:
    said = (SAMPLES / "README.md").read_text(encoding="utf-8")
    rows = []
    names = {entry.id: entry.name for entry in FLEET.cluster}
    for plan in rows_of(judge_fleet(), "plans"):
        mine = {table: rows_of(judge_fleet(), table, cluster=plan["cluster"]) for table in TABLES}
        verdicts = Counter(row["verdict"] for row in mine["readiness"])
        features = ", ".join(f"{verdict} {n}" for verdict, n in sorted(verdicts.items())) or "none"
        found = counted(row["code"] for row in mine["findings"])
        name = names[plan["cluster"]]
        rows.append(f"| `{name}` | {plan['verdict']} | {plan['phase']} | {features} | {found} |")
    assert [line for line in said.splitlines() if line.startswith("| `")] == rows
    assert {key: names.pop(key) for key in NAMES} == NAMES
    stories = said.partition("## Their stories")[2]
    assert [name for name in [*FOLDERS, *names.values()] if f"`{name}`" not in stories] == []
