"""`featurelib initial-levels`: what `kafka-storage.sh format` would write, or would refuse."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from featurelib.cli.entrance import say
from featurelib.config.files import choose_software, open_catalogue
from featurelib.core.storage_format import FormatRequest, is_for_itself, preview_levels
from featurelib.core.storage_format import initial_levels as format_levels
from featurelib.errors import ConfigError, RefusedError
from featurelib.extras.initial_levels.levels import (
    OfSoftware,
    parse_features,
    print_levels,
    write_level,
)
from featurelib.view.documents import JsonPart, Levels, fill


class FormatRefusalDocument(JsonPart):
    code: str
    text: str


class InitialLevelsDocument(OfSoftware):
    """featurelib initial-levels"""

    levels: Levels
    refusals: list[FormatRefusalDocument]
    oldest_software: str | None  # that may start from such storage; null = the tool makes no odds


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatting:
    """The options and settings of the nodes that `kafka-storage.sh format` looks at."""

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
    """Show what a new cluster starts with, or why it cannot.

    It runs nothing. It says what `kafka-storage.sh format` of that release would write, or all that
    it would refuse; the tool itself names only the first.

    \b
        featurelib initial-levels --software 4.1 --release-version 3.9
        featurelib initial-levels --software 4.2 --feature metadata.version=25 --dynamic-quorum

    Features that are not listed start at 0. Exit codes: 0 done, 2 usage, 3 format would refuse.
    """
    catalogue = open_catalogue(overlay, say)
    own = choose_software(catalogue, software)
    request = FormatRequest(
        release_version=release_version,
        features=parse_features(feature),
        patch=software,
        **asdict(how),
    )
    if preview and request != FormatRequest(patch=software):
        raise ConfigError(
            "--preview: expected no other option than --software, --overlay and --json, since such "
            "a cluster was formatted without any. Leave --preview out for a new cluster."
        )
    initial = preview_levels(own) if preview else format_levels(own, request)
    if as_json:
        refusals = [fill(FormatRefusalDocument, refusal) for refusal in initial.refusals]
        runs = own.release if not preview and is_for_itself(own) else None
        print_levels(
            InitialLevelsDocument,
            own,
            catalogue,
            levels=initial.levels,
            refusals=refusals,
            oldest_software=runs,
        )
    for name, level in ({} if as_json else initial.levels).items():
        print(write_level(own, name, level))
    for refusal in initial.refusals:
        say(f"refused: {refusal.text}")
    if initial.levels and not preview and is_for_itself(own):
        say(
            f"only for software of {own.release} or later, whatever --release-version says "
            "(KIP-1170): 4.3 would begin at its own newest levels, older software reads these or "
            "ends. Format with the tool of the software that is to run."
        )
    if initial.refusals and not preview:
        say(
            f"No cluster of {own.release} starts that way. Levels that its kafka-storage.sh knows: "
            f"featurelib version-mapping --software {own.release}"
        )
    return RefusedError.exit_code if initial.refusals else 0
