"""Which questions kafka-storage format of each release asks, in which words: `initial.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from featurelib.catalogue import ReleaseCatalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """kafka-storage format of one generation: a row of initial.toml."""

    releases: tuple[str, ...]
    says: dict[str, str]  # question → words; a question without words is not asked
    ignores_unknown_features: bool = False
    defaults_of_latest: bool = False
    unstable_by_default: bool = False
    unstable_names_unknown: bool = False
    kraft_needs_nothing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """initial.toml, read."""

    before_kraft: tuple[str, ...]
    unreadable: str
    tools: dict[str, Tool]  # by release; a vendor build answers as the release it is based on

    def tool(self, software: ReleaseCatalogue) -> Tool:
        newest = next(reversed(self.tools.values()))
        return self.tools.get(software.based_on, newest)


@cache
def load_words() -> Words:
    """What the tools of all releases ask and say."""
    path = resources.files(__package__).joinpath("initial.toml")
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    tools = [Tool(**{**row, "releases": tuple(row["releases"])}) for row in table["tool"]]
    return Words(
        before_kraft=tuple(table["before_kraft"]),
        unreadable=table["preview"]["unreadable"],
        tools={release: tool for tool in tools for release in tool.releases},
    )
