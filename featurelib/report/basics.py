"""Small values of a report: levels and ranges with their names, and what a plan changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated

from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A feature's level: the number, and as people write it, `25 (4.0-IV3)`."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A supported version range; `text` names its end: `7-25 (up to 4.0-IV3)`."""

    min_version: int
    max_version: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One update of the plan; those of one `request`, from 1 on, go out together."""

    request: int
    feature: str
    from_level: Level
    to_level: Level
    upgrade_type: str
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """One mute of conf/audit.toml: what it is about, null where about any, and how many it meets.

    `expired`: its last day, `until`, is over. `findings` and `clusters` count what it is about,
    expired or not; 0 = nothing is left of it.
    """

    code: str
    cluster: str | None
    feature: str | None
    node: int | None
    reason: str
    until: date
    expired: bool
    findings: Count
    clusters: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """The releases whose production software supports what is finalized, oldest first.

    `now`, and once the plan is carried out: `afterwards`, null without a plan. `text` says both.
    """

    now: tuple[str, ...]
    afterwards: tuple[str, ...] | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """How far back a feature goes once the plan is carried out, as `featurelib show` has it.

    `downgrade_floor`: the lowest level that can be had then without losing metadata, null where
    nobody can tell. `point_of_no_return`: the first level of the plan's way from which today's
    cannot be had again, null where there is none.
    """

    feature: str
    downgrade_floor: Level | None
    point_of_no_return: Level | None
