"""The options that choose a catalogue, and what they mean: which file is read, which release's own.

Every message names the option, what was expected and found, and the command to go on with.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from featurelib.catalogue import Catalogue, ReleaseCatalogue, load, with_overlay
from featurelib.cli.entrance import say
from featurelib.errors import ConfigError

LEVEL = re.compile("[0-9]{1,5}")
LEVELS = range(2**15)  # int16 on the wire

OverlayFile = Annotated[
    str | None,
    typer.Option(
        "--overlay",
        metavar="FILE",
        help="Rows of vendor builds to lay over the catalogue; see conf/catalogue-overlay.toml.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def open_catalogue(overlay: str | None) -> Catalogue:
    """The catalogue, with the overlay in a file if one is named. Says so on stderr, since the
    output looks like that of Kafka's own tools, which know no overlay."""
    if overlay is None:
        return load()
    try:
        text = Path(overlay).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--overlay {overlay}: expected a TOML file, found: {error.strerror}. "
            "Copy conf/catalogue-overlay.toml and name the copy."
        ) from error
    catalogue = with_overlay(load(), text, overlay)
    say(f"catalogue {catalogue.label}")
    return catalogue


def choose_software(catalogue: Catalogue, text: str) -> ReleaseCatalogue:
    """The catalogue of the release a version means. Raises ConfigError if there is none."""
    release = catalogue.release_named(text)
    if release is None:
        known = ", ".join(name.name for name in catalogue.releases)
        advice = "Name one of them, or add it with --overlay FILE."
        oldest = catalogue.releases[0].name
        if _is_older(text, oldest):
            advice = (
                f"Before {oldest} Kafka finalizes nothing of its own. For a cluster that was "
                "formatted then, name the software it runs now: "
                "featurelib initial-levels --software RELEASE --preview"
            )
        raise ConfigError(
            f"--software {text}: expected a release of the catalogue of {catalogue.label} "
            f"({known}), found none such. {advice}"
        )
    return catalogue.of(release)


def _is_older(text: str, release: str) -> bool:
    """Whether a version as 2.8 or 3.2.1 comes before a release as 3.3."""
    parts, own = ([int(n) for n in re.findall("[0-9]+", name)[:2]] for name in (text, release))
    return re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})+", text) is not None and parts < own


def trimmed(text: str) -> str:
    """Without blanks and controls at both ends, as Kafka's tools read NAME=LEVEL
    (FeatureCommand.parseNameAndLevel; Java's String.trim)."""
    return text.strip("".join(map(chr, range(0x21))))


def parse_features(texts: list[str]) -> dict[str, int]:
    """`NAME=LEVEL` texts as levels by name. Raises ConfigError for what is none, or comes twice."""
    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = map(trimmed, text.partition("="))
        if not (name and LEVEL.fullmatch(level) and int(level) in LEVELS):
            raise ConfigError(
                f"--feature {text}: expected NAME=LEVEL with a whole number up to {LEVELS[-1]}, as "
                f"group.version=1, found {text!r}. What a release version means in numbers is "
                "what `featurelib version-mapping --release-version VERSION` says."
            )
        if name in levels:
            raise ConfigError(
                f"--feature {text}: expected {name} once, found it twice "
                f"({name}={levels[name]} before). Keep one of them."
            )
        levels[name] = int(level)
    return levels
