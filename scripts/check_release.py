"""List every file that does not know a Kafka release yet (CONTRIBUTING.md, A Kafka release).

    .venv/bin/python -m scripts.check_release 4.5

Each line has a file and the text that it must contain. A test runs the same check for every release
of the catalogue, so that no release silently uses the data of another one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from featurelib.core.dialect import GENERATIONS, load

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "featurelib"
# KRaft releases before this one know metadata.version only, which releases.csv has.
FIRST_WITH_FEATURES = (3, 9)
CATALOGUE = {
    "releases.csv": "the levels of metadata.version that its software supports",
    "release_features.csv": "the levels of each other feature that its software supports",
    "release_apis.csv": "the requests its listeners offer: scripts/record_api_keys.py",
    "measured_steps.csv": "what each step does beside the level: scripts/measure_side_effects.py",
}


def missing(release: str) -> Iterator[str]:
    """Yield each place that lacks `release` (`4.5`) as `file: required text`."""
    row = re.compile(rf"^{re.escape(release)},", re.MULTILINE)
    quoted = f'"{release}"'
    for name, what in CATALOGUE.items():
        if name == "release_features.csv" and _order(release) < FIRST_WITH_FEATURES:
            continue
        if not row.search((PACKAGE / "catalogue" / name).read_text("utf-8")):
            yield f"featurelib/catalogue/{name}: {what}"
    kraft = [load(name).releases for name in GENERATIONS if name.startswith("kraft")]
    if not any(release in known for known in kraft):
        yield (
            "featurelib/core/dialects/kraft-*.toml: `releases` of the one its controllers answer "
            "by, or a new one, in GENERATIONS too (CONTRIBUTING.md, A dialect)"
        )
    tools = PACKAGE / "extras" / "initial_levels" / "storage_format.toml"
    if quoted not in _releases(tools.read_text("utf-8")):
        yield f"{tools.relative_to(ROOT)}: `releases` of a [[tool]], by its StorageTool"
    recorded = ROOT / "tests" / "data" / "transcripts"
    if not list(recorded.glob(f"{release}.*.jsonl.xz")):
        where = recorded.relative_to(ROOT)
        yield f"{where}: answers of its controllers: scripts/record_exchanges.py"
    drawn = ROOT / "tests" / "core" / "controllers" / "draw.py"
    if f'"{release}.' not in drawn.read_text("utf-8"):
        yield f"{drawn.relative_to(ROOT)}: the releases that random controllers run"


def _releases(text: str) -> str:
    return "".join(re.findall(r"^releases = \[(.*?)\]", text, re.DOTALL | re.MULTILINE))


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def main() -> None:
    """Read the command line, and print the places that lack a release."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.check_release", description=main.__doc__
    )
    parser.add_argument("release", help="a Kafka release, as 4.5")
    release = parser.parse_args().release
    lacks = list(missing(release))
    print("\n".join(lacks) or f"Kafka {release} is known everywhere.")
    sys.exit(bool(lacks))


if __name__ == "__main__":
    main()
