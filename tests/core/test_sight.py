"""One cluster from landing lines in memory: what the nightly's audit says of it, and no less."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.cluster_view import Sight, Terms, see
from featurelib.audit.evidence import Conditions
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.dialect import load as load_dialect
from featurelib.errors import InputError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.schema import SNAPSHOT
from tests.core.test_samples import HOUR, NAMES, SAMPLES, read_samples

CATALOGUE = load_catalogue()
TABLES = ("findings", "incompatible", "readiness", "plans")
FOLDERS = sorted(path.parent.name for path in SAMPLES.glob("*/landing.jsonl"))
GHOST, STOCK = "ghost-broker", "zk-392-stock"


def lines(name: str) -> list[bytes]:
    return (SAMPLES / name / "landing.jsonl").read_bytes().splitlines()


def look(*some: bytes, as_of: int | None = None, **more: object) -> Sight:
    return see(some, catalogue=CATALOGUE, as_of=as_of, max_age=72 * HOUR, **more)  # type: ignore[arg-type]


@cache
def night() -> tuple[pa.RecordBatch, int, Judged]:
    """All samples in one batch, as the nightly judges them."""
    batch = read_samples()
    newest = max(batch.column("observed_at").cast(pa.int64()).to_pylist())
    conditions = Conditions(as_of=newest, max_age=72 * HOUR)
    return batch, newest, judge(batch, conditions, CATALOGUE, load_dialect("strict"))


def rows_of(judged: Judged, table: str, cluster: str) -> list[dict[str, object]]:
    return [row for row in getattr(judged, table).to_pylist() if row["cluster"] == cluster]


@pytest.mark.parametrize("name", FOLDERS)
def test_every_sample_alone_is_judged_as_in_the_night(name: str) -> None:
    batch, newest, judged = night()
    sight = look(*lines(name), as_of=newest)
    assert (NAMES[sight.cluster_id], sight.rejected) == (name, ())
    for table in TABLES:
        assert rows_of(sight.judged, table, sight.cluster_id) == rows_of(
            judged, table, sight.cluster_id
        )
    [position] = [i for i, c in enumerate(batch.column("cluster").to_pylist()) if NAMES[c] == name]
    assert sight.rows.equals(batch.slice(position, 1))
    assert sight.rows.schema == SNAPSHOT
    own = rows_of(judged, "plans", sight.cluster_id)[0]["dialects"]
    assert own in ([], list(sight.dialects))
    assert sight.dialects


@pytest.mark.parametrize("name", FOLDERS)
def test_a_stored_row_is_seen_as_its_lines_are(name: str) -> None:
    seen = look(*lines(name))
    stored = seen.rows.drop_columns(["state"])  # which Spark does not hand over
    again = Terms(catalogue=CATALOGUE, as_of=None, max_age=72 * HOUR).see(stored)
    for table in TABLES:
        assert getattr(again.judged, table).equals(getattr(seen.judged, table))
    assert (again.cluster, again.releases) == (seen.cluster, seen.releases)
    assert (again.dialects, again.newest) == (seen.dialects, seen.newest)


def test_the_order_of_lines_and_lines_twice_change_nothing() -> None:
    said = lines(GHOST)
    once, twice = look(*said), look(*reversed(said), *said)
    assert twice.rows.equals(once.rows)
    assert twice.cluster == once.cluster


def test_a_line_may_keep_its_line_end() -> None:
    with (SAMPLES / GHOST / "landing.jsonl").open("rb") as file:
        assert look(*file).rows.equals(look(*lines(GHOST)).rows)


def test_a_broken_line_is_set_aside_with_its_number_and_the_rest_goes_on() -> None:
    said = lines(GHOST)
    sight = look(said[0], b"{", *said[1:], b'{"kind":"guess"}')
    assert [number for number, _ in sight.rejected] == [2, len(said) + 2]
    assert "kind" in sight.rejected[1][1]
    assert sight.cluster == look(*said).cluster


def test_it_is_judged_as_of_its_newest_line_or_as_of_the_time_given() -> None:
    fresh = look(*lines(GHOST))
    [evidence] = fresh.rows.column("observed_at").cast(pa.int64()).to_pylist()
    assert fresh.newest == evidence
    late = look(*lines(GHOST), as_of=fresh.newest + 73 * HOUR)
    assert late.judged.plans.column("verdict").to_pylist() == ["UNKNOWN"]
    assert late.newest == fresh.newest


def test_the_inventory_counts_as_in_the_night() -> None:
    name = look(*lines("k42-dynamic")).cluster_id
    fleet = Fleet(cluster=(Entry(id=name, brokers=(1, 9), release="4.1.2"),))
    sight = look(*lines("k42-dynamic"), fleet=fleet)
    assert "expected_node_missing" in sight.judged.findings.column("code").to_pylist()
    assert (sight.releases, sight.cluster.release) == (("4.1.2",), "4.1.2")
    assert sight.dialects == ("kraft-4.1",)


def test_severities_of_the_caller_are_used() -> None:
    sight = look(*lines(GHOST), severities={"ghost_broker": Severity.CRITICAL})
    told = {f["code"]: f["severity"] for f in sight.judged.findings.to_pylist()}
    assert told["ghost_broker"] == "critical"


def test_lines_of_several_clusters_are_refused_by_name_until_one_is_chosen() -> None:
    both = [*lines(GHOST), *lines(STOCK)]
    names = {name: cluster for cluster, name in NAMES.items()}
    with pytest.raises(InputError, match="of one cluster, found 2") as caught:
        look(*both)
    assert names[GHOST] in str(caught.value)
    assert names[STOCK] in str(caught.value)
    chosen = look(*both, cluster_id=names[STOCK])
    assert chosen.rows.equals(look(*lines(STOCK)).rows)


def test_no_accepted_line_is_no_evidence_and_the_reasons_are_said() -> None:
    with pytest.raises(NoEvidenceError, match=r"found none that is accepted\. docs/landing.md"):
        look()
    with pytest.raises(NoEvidenceError, match=r"quarantined: line 1: .* and 1 more"):
        look(*[b"{"] * 6)
    with pytest.raises(NoEvidenceError, match=r"of cluster nowhere, .* there are lines of h0FOOR"):
        look(*lines(GHOST), cluster_id="nowhere")


def test_a_stored_row_has_to_be_one_and_to_have_landed() -> None:
    rows = read_samples()
    with pytest.raises(InputError, match=r"expected one row of silver\.cluster_snapshot, found 26"):
        Terms(catalogue=CATALOGUE, as_of=None, max_age=HOUR).see(rows)
    at = rows.schema.get_field_index("observed_at")
    never = rows.slice(0, 1).set_column(at, "observed_at", pa.nulls(1, SNAPSHOT.types[at]))
    with pytest.raises(NoEvidenceError, match="nothing landed from it"):
        Terms(catalogue=CATALOGUE, as_of=None, max_age=HOUR).see(never)


def test_seeing_needs_neither_spark_nor_a_terminal() -> None:
    code = (
        "import sys, featurelib.audit.cluster_view\n"
        "heavy = {'pyspark', 'py4j', 'delta', 'deltalake', 'rich', 'typer', 'jinja2'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    root = Path(__file__).parents[2]
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"
