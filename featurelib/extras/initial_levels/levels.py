"""Show the levels of a release version, and the dependencies of a level, without a cluster.

Each command parses its options, makes one call, and prints. The text equals that of Kafka's tools.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from featurelib.catalogue import NEWEST_RELEASE, Catalogue, ReleaseCatalogue
from featurelib.cli.entrance import say
from featurelib.cli.options import read_pairs
from featurelib.config import nearest
from featurelib.config.files import open_catalogue
from featurelib.errors import ConfigError, RefusedError
from featurelib.extras.initial_levels.storage_format import (
    FormatRequest,
    choose_software,
    preview_levels,
)
from featurelib.extras.initial_levels.storage_format import initial_levels as format_levels
from featurelib.extras.predictions.rolling import is_for_itself
from featurelib.feature import HIGHEST_LEVEL, METADATA_VERSION
from featurelib.view.documents import Document, JsonPart, Levels, fill
from featurelib.view.documents import as_json as to_json

LEVEL = re.compile("[0-9]{1,5}")


class OfSoftware(Document):
    catalogue: str
    software: str


class MappingDocument(OfSoftware):
    """featurelib version-mapping"""

    release_version: str
    levels: Levels


class DependenciesDocument(OfSoftware):
    """featurelib feature-dependencies"""

    dependencies: dict[str, Levels]


def version_mapping(
    release_version: str | None = None,
    software: str = NEWEST_RELEASE,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Show the levels that a release version means.

    A version maps differently in the tools of different releases, so name the software that runs:

    \b
        featurelib version-mapping --release-version 4.0-IV0 --software 3.9

    The text is that of `kafka-features.sh version-mapping`. Exit codes: 0 done, 2 usage.
    """
    catalogue = open_catalogue(overlay, say)
    own = choose_software(catalogue, software)
    level = own.newest_stable if release_version is None else own.level_of(release_version)
    if level is None:
        raise _unknown_version(own, release_version or "")
    levels = own.defaults(level)
    if as_json:
        print_levels(
            MappingDocument, own, catalogue, release_version=own.names[level], levels=levels
        )
        return 0
    print(f"{METADATA_VERSION}={level} ({release_version or own.names[level]})")
    for name in own.features:
        print(f"{name}={levels[name]}")
    return 0


def feature_dependencies(
    feature: list[str],
    software: str = NEWEST_RELEASE,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Show what a level needs of other features.

    \b
        featurelib feature-dependencies --feature eligible.leader.replicas.version=1
        featurelib feature-dependencies --feature kraft.version=1 --software 4.0

    The text is that of `kafka-features.sh feature-dependencies`. Every level above 0 also needs
    metadata.version 3.3-IV0, which is not listed. Exit codes: 0 done, 2 usage.
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


def print_levels(
    kind: type[OfSoftware], software: ReleaseCatalogue, catalogue: Catalogue, **keys: object
) -> None:
    print(to_json(fill(kind, catalogue=catalogue.label, software=software.release, **keys)))


def write_level(software: ReleaseCatalogue, name: str, level: int) -> str:
    """Return a level with its name, like `metadata.version=25 (4.0-IV3)` or `group.version=1`."""
    name_text = f" ({software.names[level]})" if name == METADATA_VERSION else ""
    return f"{name}={level}{name_text}"


def _unknown_version(own: ReleaseCatalogue, text: str) -> ConfigError:
    names = list(own.names.values())
    return ConfigError(
        f"--release-version {text}: Kafka {own.release} has no such release or metadata.version. "
        f"Its {len(names)} metadata.versions are {names[0]} to {names[-1]}. "
        f"{nearest(text.upper(), names, 1)} Use one of them, or newer software with --software "
        "RELEASE."
    )


def _expect_known(software: ReleaseCatalogue, name: str, level: int) -> None:
    features, actual = (METADATA_VERSION, *software.features), f"the feature {name}"
    expected = ", ".join(features)
    if name in features:
        if software.knows(name, level):
            return
        levels = software.known_levels(name)
        expected, actual = f"a level of {name} from {levels[0]} to {levels[-1]}", str(level)
    raise ConfigError(
        f"--feature {name}={level}: Kafka {software.release} has {expected}, but not {actual}. Use "
        "one of them, or newer software with --software RELEASE."
    )


def parse_features(texts: list[str]) -> dict[str, int]:
    """Return name → level from texts `NAME=LEVEL`. Raises ConfigError (invalid or repeated)."""
    pairs = read_pairs(
        "--feature",
        texts,
        f"NAME=LEVEL with a whole number up to {HIGHEST_LEVEL}, as group.version=1",
        fits=lambda name, level: LEVEL.fullmatch(level) is not None and int(level) <= HIGHEST_LEVEL,
        advice=" What a release version means in numbers is what `featurelib version-mapping "
        "--release-version VERSION` says.",
    )
    return {name: int(level) for name, level in pairs.items()}


class FormatRefusalDocument(JsonPart):
    code: str
    text: str


class InitialLevelsDocument(OfSoftware):
    """featurelib initial-levels"""

    levels: Levels
    refusals: list[FormatRefusalDocument]
    oldest_software: str | None  # the oldest that starts from it; null = all format equally


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatting:
    """The options of `kafka-storage.sh format` that change levels."""

    dynamic_quorum: bool = False
    unstable: bool = False
    migration: bool = False


def initial_levels(
    software: str,
    release_version: str | None = None,
    feature: list[str] = [],  # noqa: B006  # typer reads the default and never changes it
    *,
    how: Formatting,
    preview: bool = False,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Show the levels that a new cluster starts with.

    The command runs no tool. It prints the levels that `kafka-storage.sh format` of the --software
    release would write, or every reason why the tool would refuse. The tool itself prints only the
    first reason.

    \b
        featurelib initial-levels --software 4.1 --release-version 3.9
        featurelib initial-levels --software 4.2 --feature metadata.version=25 --dynamic-quorum

    Features that are not listed start at 0. Exit codes: 0 done, 2 usage, 3 format would refuse.
    """
    catalogue = open_catalogue(overlay, say)
    release = choose_software(catalogue, software)
    request = FormatRequest(
        release_version=release_version,
        features=parse_features(feature),
        patch=software,
        **asdict(how),
    )
    if preview and request != FormatRequest(patch=software):
        raise ConfigError(
            "--preview accepts only --software, --overlay and --json, because such a cluster was "
            "formatted without other options. Leave --preview out for a new cluster."
        )
    initial = preview_levels(release) if preview else format_levels(release, request)
    if as_json:
        refusals = [fill(FormatRefusalDocument, refusal) for refusal in initial.refusals]
        runs = release.release if not preview and is_for_itself(release) else None
        print_levels(
            InitialLevelsDocument,
            release,
            catalogue,
            levels=initial.levels,
            refusals=refusals,
            oldest_software=runs,
        )
    for name, level in ({} if as_json else initial.levels).items():
        print(write_level(release, name, level))
    for refusal in initial.refusals:
        say(f"refused: {refusal.text}")
    if initial.levels and not preview and is_for_itself(release):
        say(
            f"only for software of {release.release} or later, whatever --release-version says "
            "(KIP-1170): 4.3 would begin at its own newest levels, older software reads these or "
            "ends. Format with the tool of the software that is to run."
        )
    if initial.refusals and not preview:
        say(
            "This software starts no cluster that way. Levels that its kafka-storage.sh knows: "
            f"featurelib version-mapping --software {release.release}"
        )
    return RefusedError.exit_code if initial.refusals else 0
