"""Opens the catalogue that options choose: with an overlay, or of one release.

Light to import: the commands about releases need nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from featurelib.catalogue import Catalogue, ReleaseCatalogue, load, with_overlay
from featurelib.config import example
from featurelib.errors import ConfigError


def quietly(text: str) -> None:
    """Progress of a library: nobody reads it."""


def open_catalogue(overlay: str | None, say: Callable[[str], None] = quietly) -> Catalogue:
    """The catalogue, with the overlay in a file if one is named; `say` then gets its label, since
    the output looks like that of Kafka's own tools, which know no overlay. Raises ConfigError."""
    if overlay is None:
        return load()
    try:
        text = Path(overlay).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--overlay {overlay}: expected a TOML file, found: {error.strerror}. "
            f"Copy {example('catalogue-overlay.toml')} and name the copy."
        ) from error
    catalogue = with_overlay(load(), text, overlay)
    say(f"catalogue {catalogue.label}")
    return catalogue


def choose_software(catalogue: Catalogue, text: str) -> ReleaseCatalogue:
    """The catalogue of the release a version means. Raises ConfigError if there is none."""
    release = catalogue.release_named(text)
    if release is None:
        known = ", ".join(own.release for own in catalogue.releases)
        advice = "Name one of them, or add it with --overlay FILE."
        oldest = catalogue.releases[0].release
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
