"""Read the settings of the audit, `conf/audit.toml`: ages, severities, mutes, retention. Every key
has a default. Unknown keys are refused, because a misspelt key must not count as a default."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import date, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from featurelib.audit.findings import EXPIRED, Mute, wordings
from featurelib.config import example, nearest
from featurelib.config.fleet import Fleet
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError
from featurelib.feature import Name, NodeId, Severity
from featurelib.words import msgspec_fault, toml_line

# A mute needs a reason and a last day. A code without findings is refused, because the mute would
# silently have no effect.


class MuteEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry [[mute]] of the settings. An empty key matches every value."""

    code: str  # the code of the muted findings
    reason: str  # the reason that reports show with muted findings
    by: str = ""  # the person to ask about the mute
    until: date  # the last day of the mute, in UTC
    cluster: str = ""  # an id, or a name of the inventory
    feature: str = ""
    node: NodeId | None = None


def mute_faults(entries: Iterable[MuteEntry], codes: Collection[str]) -> Iterator[str]:
    """Yield each fault of the mutes as a sentence that begins with the mute's number."""
    codes = set(codes) - {EXPIRED}
    for number, entry in enumerate(entries, 1):
        which = f"[[mute]] number {number}"
        if entry.code == EXPIRED:
            yield f"{which}: {EXPIRED} cannot be muted: renew the mute it names, or take it out."
        elif entry.code not in codes:
            yield f"{which}: no finding is called {entry.code!r}. {nearest(entry.code, codes)}"
        elif not entry.reason.strip():
            yield f'{which} ({entry.code}): The reason is missing. Add reason = "…".'


def mutes_of(entries: Iterable[MuteEntry], fleet: Fleet, source: str) -> tuple[Mute, ...]:
    """Return the mutes with names replaced by cluster ids. Raises ConfigError if ambiguous."""
    return tuple(
        Mute(
            code=entry.code,
            reason=entry.reason.strip() + (f" ({entry.by.strip()})" if entry.by.strip() else ""),
            until=entry.until,
            # A cluster that the inventory lacks may have data, so the text may be an id.
            cluster=entry_named.id if entry_named else entry.cluster,
            feature=entry.feature,
            node=entry.node,
        )
        for entry in entries
        for entry_named in [fleet.named(entry.cluster or None, f"{source}: [[mute]]: ")]
    )


LONGEST_WAIT_NIGHTS = 366 * 100
Nights = Annotated[int, Meta(ge=0, le=LONGEST_WAIT_NIGHTS)]
Hours = Annotated[float, Meta(gt=0, le=24 * LONGEST_WAIT_NIGHTS)]  # bounds reject NaN and infinity
MICROSECONDS_AN_HOUR = 3_600_000_000


class NamedPlaces(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The default paths in [places]. A relative path begins at the folder of the settings file."""

    tables: str | None = None  # for commands that read; a job writes to the folder in its options
    journal: str | None = None  # ignored in a settings file of the current folder


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of conf/audit.toml."""

    max_age_hours: Hours = 72.0  # older evidence does not count; a long weekend has 72 hours
    retention_days: Annotated[int, Meta(ge=7)] = 90  # how long old versions of tables stay readable
    vacuum: bool = False  # true: delete older files, and join small ones
    require_signature: bool = False  # true: approvals need a signature
    allowed_signers: Name = "allowed_signers"  # the file with accepted signers, near the settings
    longest_approval_hours: Hours = 168.0  # the longest validity; a week has 168 hours
    forgotten_nights: Nights = 14  # days of READY until an upgrade counts as forgotten; 0 if never
    min_ready_days: Nights = 0  # days of READY before a plan is offered; 0 means at once
    severities: dict[str, Severity] = {}  # finding code → severity
    mute: tuple[MuteEntry, ...] = ()
    places: NamedPlaces = NamedPlaces()

    @property
    def longest_approval(self) -> timedelta:
        """The longest allowed duration of an approval."""
        return timedelta(hours=self.longest_approval_hours)

    @property
    def max_age(self) -> int:
        """The maximum age of evidence in microseconds. Older evidence is ignored."""
        return int(self.max_age_hours * MICROSECONDS_AN_HOUR)

    @property
    def forgotten(self) -> int:
        """The time of READY after which an upgrade counts as forgotten, microseconds."""
        return self.forgotten_nights * 24 * MICROSECONDS_AN_HOUR


_KEYS = {"mute": MuteEntry, "places": NamedPlaces}  # table in the file → its type


def parse_settings(text: str, source: str) -> Settings:
    """Parse the settings in `text`. Raises ConfigError with `source`, key and expected value."""
    try:
        settings = msgspec.toml.decode(text, type=Settings)
    except msgspec.MsgspecError as error:
        table, index, fault = msgspec_fault(error)
        hint = " Write a date without quotes, as until = 2026-12-24." * ("`date`" in str(error))
        if strange := re.fullmatch(r"(?:(\w+): )?no key is called `(.*)`", fault):
            near = nearest(strange[2], _KEYS.get(table or strange[1], Settings).__struct_fields__)
            hint = f" {near}"
        entry = f"{toml_line(text, table, index)}: [[{table}]]" if table else ""
        raise ConfigError(
            f"{source}{entry}: {fault}.{hint} Its keys are explained in {example('audit.toml')}."
        ) from error
    codes = set(wordings(load(STRICT)))
    for fault in mute_faults(settings.mute, codes):
        raise ConfigError(f"{source}: {fault}")
    unknown = sorted(set(settings.severities) - codes)
    if unknown:
        raise ConfigError(
            f"{source}: [severities] names {', '.join(unknown)}, which no finding is called. "
            "The codes are in featurelib/findings.toml and core/dialects/strict.toml."
        )
    return settings
