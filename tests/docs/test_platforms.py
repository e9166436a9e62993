"""The page on platforms lists the versions that `make matrix` runs, each with the Delta it gets."""

from __future__ import annotations

import re
from pathlib import Path

from featurelib.spark.session import jars_for
from scripts.matrix import LOWEST, SPARKS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark-platforms.md"


def test_each_version_of_the_page_has_its_jars_and_the_matrix_runs_none_that_it_lacks() -> None:
    rows = dict(
        re.findall(r"^\| (4\.\d\.\d) \| ([\d.]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    )
    assert rows.keys() >= {spark for spark in SPARKS if spark != LOWEST}
    for spark, delta in rows.items():
        assert {jar.version for jar in jars_for(spark)} == {delta}
