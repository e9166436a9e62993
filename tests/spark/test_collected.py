"""What a collector writes, through the real ingest: nothing is left out, nothing quarantined."""

from __future__ import annotations

from pathlib import Path

import pytest

from featurelib.collect import PART, collect_one, name_of, write_lines
from featurelib.spark.ingest import ingest
from featurelib.spark.store import Store
from featurelib.tables import LANDING_LINE
from tests.backends.clusters import ZK
from tests.landing.test_tool_outputs import DUMPS, converted
from tests.test_collect import NIGHT, embedded, open_one, quiet

pytestmark = pytest.mark.spark


def test_whatever_a_collector_wrote_is_accepted_and_what_it_is_writing_is_not_read(
    store: Store, tmp_path: Path
) -> None:
    out = tmp_path / "landing"
    entries = [embedded(tmp_path, "_hidden"), embedded(tmp_path, "zoo", ZK, "zk")]
    lines = sum(collect_one(entry, out, open_one, quiet).lines for entry in entries)
    kept = converted("metadata_log", DUMPS[next(iter(DUMPS))])
    lines += write_lines(out / name_of("-c", NIGHT, "metadata_log"), kept)
    (out / f".{name_of('killed', NIGHT)}{PART}").write_bytes(b'{"kind":"api_ver')
    counts = ingest(store, str(out), 20261121000000, quiet)
    assert (counts.files, counts.lines, counts.accepted) == (3, lines, lines)
    said = {row.cluster for row in store.read(LANDING_LINE).select("cluster").collect()}
    assert said == {"id-_hidden", "id-zoo", "c"}
