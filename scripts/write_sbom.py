"""Write a CycloneDX document with the dependencies of a checkout: packages of uv.lock, and Delta's
jars.

    make sbom        (build/sbom.json)

Names, versions and hashes are uv's own export of the lock; licences come from the installed
packages. The jars of Kafka and Spark are part of the package pyspark.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata, version
from pathlib import Path
from typing import Any

from featurelib.spark.session import Jar, jars_for

ROOT = Path(__file__).parents[1]
EXTRAS = ("spark", "kafka", "lake", "zookeeper", "metrics", "kubernetes", "notebook")


def write(path: Path) -> list[dict[str, Any]]:
    """Write the bill of materials; return its components, sorted by name."""
    command = [Path(sys.prefix, "bin", "uv"), "export", "--quiet", "--locked"]
    options = ["--format", "cyclonedx1.5", *(f"--extra={extra}" for extra in EXTRAS)]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, check=True, capture_output=True, text=True
    )
    document: dict[str, Any] = json.loads(done.stdout)
    components: list[dict[str, Any]] = [
        one | {"licenses": [{"license": {"name": licence}}]}
        for one in document["components"]
        if (licence := licence_of(one["name"]))  # without one the package is for another system
    ]
    components += [jar(one) for one in jars_for(version("pyspark"))]
    document["components"] = sorted(components, key=lambda one: str(one["name"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    return document["components"]  # type: ignore[no-any-return]  # JSON


def licence_of(package: str) -> str:
    """Return the licence in the metadata of an installed package; "" if it is not installed."""
    try:
        said: PackageMetadata = metadata(package)
    except PackageNotFoundError:
        return ""
    if expression := said.get("License-Expression"):
        return expression
    classifiers = [line.split(" :: ") for line in said.get_all("Classifier", [])]
    kinds = [words[-1] for words in classifiers if words[0] == "License"]
    return ", ".join(kinds) or (said.get("License") or "not said").strip().splitlines()[0]


def jar(one: Jar) -> dict[str, Any]:
    """Return the component of a jar that set-up downloads from Maven Central."""
    return {
        "type": "library",
        "bom-ref": f"{one.name}@{one.version}",
        "group": "io.delta",
        "name": one.name,
        "version": one.version,
        "purl": f"pkg:maven/io.delta/{one.name}@{one.version}",
        "hashes": [{"alg": "SHA-256", "content": one.sha256}],
        "licenses": [{"license": {"name": "Apache-2.0"}}],
    }


def main() -> None:
    """Write the bill of materials, and print each component with its licence."""
    parser = argparse.ArgumentParser(prog="python -m scripts.write_sbom", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "sbom.json")
    out = parser.parse_args().out
    for one in write(out):
        print(f"{one['name']:28} {one['version']:12} {one['licenses'][0]['license']['name']}")
    print(f"\n{out}")


if __name__ == "__main__":
    main()
