"""A finding is data: rows of featurelib.schema.FINDING, collected column by column.

The words of a code are in findings.toml, or in the dialect's table for codes that are rules;
nothing here composes a sentence.

A mute sets findings aside for a while. They are still rows and still counted, the reason beside
them, and no verdict looks at it. It runs out with its last day, in UTC, by the time judged as of;
from then on a finding says so wherever the mute would still have held.

What to do about a node that is in the way or gone is made here and nowhere else. It depends on the
role and on what the cluster can do: a broker can be unregistered, a controller only from a
metadata.version on. The words are in remedies.toml.
"""

from __future__ import annotations

import shlex
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurelib.audit.columns import Int
from featurelib.core.dialect import Dialect
from featurelib.feature import Role, Severity
from featurelib.schema import FINDING

NOBODY = -1  # a finding about the whole cluster
NO_NUMBER = np.iinfo(np.int64).min

_ROLES = np.array([Role.BROKER.text, Role.CONTROLLER.text], dtype=object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What a code says to a person, and what it rests on."""

    severity: Severity
    source: str
    message: str
    remedy: str
    command: str


@cache
def wordings(dialect: Dialect) -> dict[str, Wording]:
    """Every code's wording: the dialect's rules and the findings about evidence."""
    text = resources.files(__package__).joinpath("findings.toml").read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = tomllib.loads(text)
    said = {
        code: Wording(
            severity=Severity(row["severity"]),
            source=row["source"],
            message=row["message"],
            remedy=row["remedy"],
            command=row["command"],
        )
        for code, row in table.items()
    }
    for rule in dialect.rules:
        said[rule.code] = Wording(
            severity=rule.words.severity,
            source=rule.rule.source,
            message=rule.words.message,
            remedy=rule.words.remedy,
            command=rule.words.command,
        )
    return said


class Findings:
    """Blocks of findings, one code each, that become one table."""

    def __init__(self, clusters: list[str], severities: dict[str, Severity]) -> None:
        self._clusters = pa.array(clusters, pa.string())
        self._severities = severities
        self._blocks: list[pa.RecordBatch] = []

    def add(
        self,
        code: str,
        cluster: Int,
        *,
        role: Int | None = None,
        node_id: Int | None = None,
        feature: pa.Array | None = None,
        finalized_level: Int | None = None,
        level: Int | None = None,
        min_version: Int | None = None,
        max_version: Int | None = None,
        epoch: Int | None = None,
        at: Int | None = None,
        line: Int | None = None,
        detail: list[str] | None = None,
    ) -> None:
        """One row for each position in `cluster`; a column left out is null in all of them.

        In `at` and `line` 0, in `node_id` and `epoch` -1 means that there is none.
        """
        count = len(cluster)
        if count == 0:
            return
        columns = {
            "cluster": self._clusters.take(pa.array(cluster)),
            "code": _constant(code, count),
            "severity": _constant(self._severities[code].value, count),
            "role": pa.nulls(count, pa.string()),
            "feature": pa.nulls(count, pa.string()) if feature is None else feature,
            "detail": pa.nulls(count, pa.string()) if detail is None else pa.array(detail),
            "muted": pa.nulls(count, pa.string()),
            "muted_until": pa.nulls(count, pa.date32()),
        }
        if role is not None:
            columns["role"] = pa.array(_ROLES[role], pa.string())
        numbers: dict[str, tuple[Int | None, int]] = {
            "node_id": (node_id, NOBODY),
            "finalized_level": (finalized_level, NO_NUMBER),
            "level": (level, NO_NUMBER),
            "min_version": (min_version, NO_NUMBER),
            "max_version": (max_version, NO_NUMBER),
            "epoch": (epoch, -1),
            "observed_at": (at, 0),
            "line_id": (line, 0),
        }
        for name, (values, none) in numbers.items():
            columns[name] = _numbers(values, none, FINDING.field(name).type, count)
        self._blocks.append(
            pa.RecordBatch.from_arrays([columns[name] for name in FINDING.names], schema=FINDING)
        )

    def table(self) -> pa.Table:
        """All findings as one table of featurelib.schema.FINDING."""
        return pa.Table.from_batches(self._blocks, schema=FINDING)


def _constant(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _numbers(values: Int | None, none: int, of: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, of)
    mask: npt.NDArray[np.bool_] = values == none
    if pa.types.is_timestamp(of):
        return pa.array(values, pa.int64(), mask=mask).cast(of)
    return pa.array(np.where(mask, 0, values), pa.int64(), mask=mask).cast(of)


EXPIRED = "mute_expired"
_DAY = 86_400_000_000  # microseconds
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """Sets findings of `code` aside, `until` included; an empty `cluster` (an id) or `feature`,
    and no `node`, mean any."""

    code: str
    reason: str
    until: date
    cluster: str = ""
    feature: str = ""
    node: int | None = None

    @property
    def ends(self) -> int:
        """From when on it no longer holds: the end of its last day, microseconds, UTC."""
        return (self.until.toordinal() - _EPOCH + 1) * _DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """One finding that a mute sets aside: what it is about, why, and the last day."""

    code: str
    role: str | None
    node_id: int | None
    feature: str | None
    muted: str
    muted_until: date


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The mutes as they hold for one cluster (its id), judged as of a time in microseconds."""

    mutes: tuple[Mute, ...] = ()
    cluster: str = ""
    as_of: int = 0

    def over(
        self,
        code: str,
        *,
        role: str | None = None,
        node_id: int | None = None,
        feature: str | None = None,
    ) -> SetAside | None:
        """What sets a finding aside, as `set_aside` does in the tables; None if nothing does."""
        hit = [
            mute
            for mute in self.mutes
            if mute.ends > self.as_of
            and mute.code == code
            and mute.cluster in ("", self.cluster)
            and mute.feature in ("", feature or None)
            and mute.node in (None, node_id)
        ]
        if not hit:
            return None
        last = sorted(hit, key=lambda mute: mute.ends)[-1]
        return SetAside(
            code=code,
            role=role,
            node_id=node_id,
            feature=feature or None,
            muted=last.reason,
            muted_until=last.until,
        )


def covered(mute: Mute, findings: pa.Table) -> pa.Array:
    """Which rows of featurelib.schema.FINDING the mute is about, whether or not it has run out."""
    hit = pc.equal(findings["code"], mute.code)
    for column, wanted in (("cluster", mute.cluster), ("feature", mute.feature)):
        if wanted:
            hit = pc.and_(hit, pc.fill_null(pc.equal(findings[column], wanted), False))
    if mute.node is not None:
        hit = pc.and_(hit, pc.fill_null(pc.equal(findings["node_id"], mute.node), False))
    return hit.combine_chunks() if isinstance(hit, pa.ChunkedArray) else hit


def set_aside(
    said: Findings, clusters: Sequence[str], mutes: Sequence[Mute], as_of: int
) -> pa.Table:
    """All findings, those that a mute covers with its reason and its last day.

    Of several mutes the one that runs out last counts. A cluster where one that ran out would still
    have held gets one finding more, which names all of these.
    """
    found = said.table()
    if not mutes:
        return found
    reason, until = found["muted"].combine_chunks(), found["muted_until"].combine_chunks()
    for mute in sorted(mutes, key=lambda one: one.ends):
        if mute.ends > as_of:
            hit = covered(mute, found)
            reason = pc.if_else(hit, pa.scalar(mute.reason, reason.type), reason)
            until = pc.if_else(hit, pa.scalar(mute.until, until.type), until)
    _speak_up(said, clusters, [m for m in mutes if m.ends <= as_of], found, pc.is_null(reason))
    whole = said.table()
    more = whole.num_rows - found.num_rows
    for name, column in (("muted", reason), ("muted_until", until)):
        values = pa.concat_arrays([column, pa.nulls(more, column.type)])
        whole = whole.set_column(whole.schema.get_field_index(name), whole.field(name), values)
    return whole


def _speak_up(
    said: Findings,
    clusters: Sequence[str],
    expired: Sequence[Mute],
    found: pa.Table,
    heard: pa.Array,
) -> None:
    """One finding a cluster: the mutes that ran out there and that no other took the place of."""
    told: dict[str, list[str]] = defaultdict(list)
    for mute in expired:
        hit = pc.and_(covered(mute, found), heard)
        for name in pc.unique(found["cluster"].filter(hit)).to_pylist():
            told[name].append(f"{mute.code}, until {mute.until.isoformat()} ({mute.reason})")
    where = [i for i, name in enumerate(clusters) if name in told]
    details = ["; ".join(told[clusters[i]]) for i in where]
    said.add(EXPIRED, np.array(where, dtype=np.int64), detail=details)


# KIP-1312; FeatureControlManager refuses UnregisterController below it (MetadataVersion 4.4-IV2).
CONTROLLERS_UNREGISTER_FROM = 33
ANY_ADDRESS = "HOST:PORT"  # in a command: a broker of the cluster it is for


class Action(StrEnum):
    """What to do about a node that is in the way; a row of remedies.toml."""

    UPGRADE = "upgrade"  # its software
    DOWNGRADE = "downgrade"  # it no longer knows so low a level
    START = "start"  # it does not answer us, and Kafka does not call it gone
    START_AGAIN = "start_again"  # it is gone, and nobody knows what its cluster allows
    REGISTER = "register"  # a voter that never did
    RECONFIGURE = "reconfigure"  # it only stands in the active controller's configuration
    UNREGISTER = "unregister"  # a broker that is gone
    REGISTER_ANEW = "register_anew"  # a controller that is gone, where none can be unregistered
    UNREGISTER_CONTROLLER = "unregister_controller"  # … where it can


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """The words of one action; {node} and {software} are to be filled in."""

    text: str
    command: str

    def of(self, node_id: int, release: str, address: str = "") -> Remedy:
        """The same words about one node; `release` is the least that helps, `address` as `filled`
        takes it, "" = not known."""
        known = {"node": node_id, "software": software(release)}
        command = filled(self.command.format_map(known), address)
        return Remedy(text=self.text.format_map(known), command=command)


def filled(command: str, address: str) -> str:
    """A command of Kafka's tools for the brokers at `address`, host:port[,host:port]; "" = their
    address is not known, and stays to be filled in."""
    return command.replace(ANY_ADDRESS, shlex.quote(address)) if address else command


@cache
def remedies() -> dict[Action, Remedy]:
    """The words of every action."""
    text = resources.files(__package__).joinpath("remedies.toml").read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = tomllib.loads(text)
    return {action: Remedy(**table[action.value]) for action in Action}


def action_for_gone(role: Role, metadata_version: int | None) -> Action:
    """What to do about a registered node that Kafka itself does not see.

    `metadata_version` as it is finalized; None = not known, or ZooKeeper mode, where a registration
    ends with its session.
    """
    if metadata_version is None:
        return Action.START_AGAIN
    if role is Role.BROKER:
        return Action.UNREGISTER
    can = metadata_version >= CONTROLLERS_UNREGISTER_FROM
    return Action.UNREGISTER_CONTROLLER if can else Action.REGISTER_ANEW


def software(release: str) -> str:
    """The least software that helps, in words; `release` "" = none is known."""
    return f"Kafka {release} or later" if release else "software that supports the level wanted"
