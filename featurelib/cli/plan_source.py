"""The evidence that the options of a command choose, with its progress on stderr."""

from __future__ import annotations

from contextlib import AbstractContextManager

from featurelib.backends.base import Backend
from featurelib.catalogue import Catalogue
from featurelib.cli.entrance import say
from featurelib.source import RUN_TIME as RUN_TIME
from featurelib.source import Source as Source
from featurelib.source import Wanted as Wanted
from featurelib.source import entry_named as entry_named
from featurelib.source import find_source as find
from featurelib.source import live_source as find_live


def find_source(wanted: Wanted, catalogue: Catalogue) -> Source:
    """As featurelib.source.find_source."""
    return find(wanted, catalogue, say)


def live_source(
    wanted: Wanted, catalogue: Catalogue
) -> AbstractContextManager[tuple[Source, Backend]]:
    """As featurelib.source.live_source."""
    return find_live(wanted, catalogue, say)
