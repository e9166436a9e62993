"""Mutes in a report: what is set aside stands apart, and what a mute has come to is said.

Muted findings stay in every count; they ask nobody for anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from featurelib.core.mutes import Mute as Rule
from featurelib.core.mutes import covered
from featurelib.feature import Severity, Verdict
from featurelib.report import phrases
from featurelib.report.clean import clean
from featurelib.report.model import Finding, Mute

LONGEST_REASON = 250
NAMES = 3  # of features in one line
# A person has to look even where conf/audit.toml made light of the findings.
OPEN = frozenset({Verdict.UNKNOWN, Verdict.BLOCKED})
HOLDS_BACK = frozenset({Severity.CRITICAL, Severity.BLOCKER, Severity.UNKNOWN})
TAKE_OUT = "take it out of conf/audit.toml"


def heard(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that no mute sets aside."""
    return [finding for finding in findings if finding.muted is None]


def needs_person(verdict: Verdict, findings: Sequence[Finding]) -> bool:
    """Whether somebody has to look at the cluster that has these findings.

    A cluster that cannot move needs a person, whatever the severities, unless what holds it back
    is muted.
    """
    if any(found.severity is not Severity.INFO for found in heard(findings)):
        return True
    set_aside = any(found.muted is not None and found.severity in HOLDS_BACK for found in findings)
    return verdict in OPEN and not set_aside


def read_mutes(
    rules: Iterable[Rule], findings: pa.Table, as_of: int, names: Mapping[str, str]
) -> tuple[Mute, ...]:
    """What each mute is about in `findings` (featurelib.schema.FINDING).

    `as_of` in microseconds; `names`: what people call a cluster, by id.
    """
    found = [_read(rule, findings, as_of, names) for rule in rules]
    return tuple(sorted(found, key=_order))


def _read(rule: Rule, findings: pa.Table, as_of: int, names: Mapping[str, str]) -> Mute:
    about = findings["cluster"].filter(covered(rule, findings))
    cluster = names.get(rule.cluster) or rule.cluster
    return Mute(
        code=rule.code,
        cluster=clean(cluster) if cluster else None,
        feature=clean(rule.feature) if rule.feature else None,
        node=rule.node,
        reason=clean(rule.reason, LONGEST_REASON),
        until=rule.until,
        expired=rule.ends <= as_of,
        findings=len(about),
        clusters=len(pc.unique(about)),
    )


def _order(mute: Mute) -> tuple[object, ...]:
    about = (mute.code, mute.cluster or "", mute.feature or "", mute.node or -1, mute.reason)
    return not mute.expired, mute.findings > 0, mute.until, *about


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidMute:
    """A mute in words: its state, and the sentences."""

    state: str
    text: str


def say_mute(mute: Mute) -> SaidMute:
    """What a mute is about and has come to, and what to do with it, if anything."""
    about = mute.code + _where(mute)
    many = phrases.count(mute.findings, "finding")
    many += f" in {phrases.count(mute.clusters, 'cluster')}"
    if mute.expired:
        left = f"{many} again; renew it or " if mute.findings else "no finding; "
        todo = left + TAKE_OUT
        state = f"ran out with {mute.until.isoformat()}"
    elif mute.findings:
        state, todo = f"until {mute.until.isoformat()}", many
    else:
        state, todo = "matches nothing", f"until {mute.until.isoformat()}; {TAKE_OUT}"
    return SaidMute(state=state, text=f"{about}: {mute.reason} ({todo})")


def _where(mute: Mute) -> str:
    said = [mute.feature] if mute.feature else []
    said += [f"node {mute.node}"] if mute.node is not None else []
    said += [f"in {mute.cluster}"] if mute.cluster else []
    return f" {', '.join(said)}" if said else ""


class SetAside(Protocol):
    """A finding as far as its mute is about it."""

    @property
    def code(self) -> str: ...
    @property
    def role(self) -> str | None: ...
    @property
    def node_id(self) -> int | None: ...
    @property
    def feature(self) -> str | None: ...
    @property
    def muted(self) -> str | None: ...
    @property
    def muted_until(self) -> date | None: ...


def say_muted(findings: Iterable[SetAside]) -> tuple[str, ...]:
    """The muted findings of one cluster, a line for each code and reason."""
    groups: dict[tuple[str, str, date | None], list[SetAside]] = {}
    for found in findings:
        if found.muted is not None:
            key = (found.code, found.muted, found.muted_until)
            groups.setdefault(key, []).append(found)
    return tuple(
        f"{code}{_who(alike)}, muted: {reason}{_until(until)}"
        for (code, reason, until), alike in groups.items()
    )


def _who(findings: Collection[SetAside]) -> str:
    """` (broker 2; metadata.version)`."""
    nodes = {found.node_id for found in findings if found.node_id is not None}
    roles = {found.role for found in findings}
    features = sorted({found.feature for found in findings if found.feature is not None})
    said = [phrases.nodes(roles.pop() if len(roles) == 1 else None, nodes)] if nodes else []
    said += [phrases.some(features, NAMES)] if features else []
    return f" ({'; '.join(said)})" if said else ""


def _until(day: date | None) -> str:
    return "" if day is None else f", until {day.isoformat()}"


def count_muted(muted: int, until: date | None) -> str:
    """`3 findings muted, the first until 2026-12-31`; empty without any."""
    if muted == 0:
        return ""
    first = _until(until).replace(",", ", the first", 1)
    return f"{phrases.count(muted, 'finding')} muted{first}"
