"""The bill of materials names all that a checkout runs on, each with a hash and a licence."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.write_sbom import write


def test_every_component_has_a_hash_and_a_licence(tmp_path: Path) -> None:
    components = write(tmp_path / "sbom.json")
    assert json.loads((tmp_path / "sbom.json").read_text())["bomFormat"] == "CycloneDX"
    assert {"numpy", "pyspark", "kazoo", "delta-storage"} <= {one["name"] for one in components}
    for one in components:
        files = one.get("externalReferences", [one])
        assert all(len(file["hashes"][0]["content"]) == 64 for file in files), one["name"]
        assert one["licenses"][0]["license"]["name"] not in {"", "not said"}, one["name"]
