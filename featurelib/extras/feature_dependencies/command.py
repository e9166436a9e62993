"""`featurelib feature-dependencies`: what a level needs of other features.

Text is what Kafka's tools print.
"""

from __future__ import annotations

import re

from featurelib.catalogue import NEWEST_RELEASE, ReleaseCatalogue
from featurelib.cli.entrance import say
from featurelib.cli.options import read_pairs
from featurelib.config.files import choose_software, open_catalogue
from featurelib.errors import ConfigError
from featurelib.extras.version_mapping.command import print_levels, write_level
from featurelib.feature import HIGHEST_LEVEL, METADATA_VERSION
from featurelib.view.documents import DependenciesDocument

LEVEL = re.compile("[0-9]{1,5}")


def feature_dependencies(
    feature: list[str],
    software: str = NEWEST_RELEASE,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Show what a level of a feature needs of other features.

    \b
        featurelib feature-dependencies --feature eligible.leader.replicas.version=1
        featurelib feature-dependencies --feature kraft.version=1 --software 4.0

    The text is that of `kafka-features.sh feature-dependencies`. Besides what is listed, every
    level above 0 needs metadata.version 3.3-IV0. Exit codes: 0 done, 2 usage.
    """
    catalogue = open_catalogue(overlay, say)
    own = choose_software(catalogue, software)
    levels_of = parse_features(feature)
    for name, level in levels_of.items():
        _expect_known(own, name, level)
    needs = {f"{n}={v}": {d.other: d.least for d in own.needs(n, v)} for n, v in levels_of.items()}
    if as_json:
        print_levels(DependenciesDocument, own, catalogue, dependencies=needs)
        return 0
    for (name, level), needed in zip(levels_of.items(), needs.values(), strict=True):
        verdict = "requires:" if needed else "has no dependencies."
        print(f"{write_level(own, name, level)} {verdict}")
        for other, least in needed.items():
            print(f"    {write_level(own, other, least)}")
    return 0


def _expect_known(own: ReleaseCatalogue, name: str, level: int) -> None:
    known, actual = (METADATA_VERSION, *own.features), f"the feature {name}"
    expected = ", ".join(known)
    if name in known:
        if own.knows(name, level):
            return
        levels = own.known_levels(name)
        expected, actual = f"a level of {name} from {levels[0]} to {levels[-1]}", str(level)
    raise ConfigError(
        f"--feature {name}={level}: Kafka {own.release} knows {expected}; found {actual}. "
        "Name one of them, or newer software with --software RELEASE."
    )


def parse_features(texts: list[str]) -> dict[str, int]:
    """Read `NAME=LEVEL` texts as levels by name. Raises ConfigError for others."""
    pairs = read_pairs(
        "--feature",
        texts,
        f"NAME=LEVEL with a whole number up to {HIGHEST_LEVEL}, as group.version=1",
        fits=lambda name, level: LEVEL.fullmatch(level) is not None and int(level) <= HIGHEST_LEVEL,
        more=" What a release version means in numbers is what `featurelib version-mapping "
        "--release-version VERSION` says.",
    )
    return {name: int(level) for name, level in pairs.items()}
