"""Collect the findings of an audit as columns (rows of FINDING), and fill in their texts.

findings.toml has the texts of a finding code, rules.toml those of a rule. Placeholders are filled
in one pass with cleaned texts, so a name cannot insert another placeholder, an escape sequence or a
second command.

A muted finding stays a row with the mute's reason, and is still counted; verdicts ignore mutes. A
mute ends with its last day, in UTC, by the time of the judgement; then a finding says so.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import cache
from operator import attrgetter
from string import Formatter
from typing import Any

import numpy as np

from featurelib.audit.columns import node_key, place, positions
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import STRICT, Dialect, load
from featurelib.feature import METADATA_VERSION, Role, Severity
from featurelib.findings import (
    ANY_ADDRESS,
    BLANKS,
    FindingRow,
    Kind,
    NodeAdvice,
    Remedy,
    filled,
    finding_rows,
    first_fit,
    row_of,
    software,
    tagged,
    ways,
)
from featurelib.rows import (
    NONE,
    Bool,
    Column,
    Int,
    Numbers,
    TableRows,
    Texts,
    join_rows,
    make_rows,
    pick,
    texts_of,
)
from featurelib.schema import FACTS, FINDING, FINDING_TEXTS
from featurelib.words import clean, code_text, level_text, range_text, time_text, toml_text

NOBODY = -1  # the node position of a finding about the whole cluster

# The number columns by their name in `add`, each with the number that stands for null.
_NUMBERS = {
    **{name: (name, NONE) for name in ("finalized_level", "level", "min_version", "max_version")},
    "node_id": ("node_id", NOBODY),
    "epoch": ("epoch", -1),
    "at": ("observed_at", 0),
    "line": ("line_id", 0),
}


class Findings:
    """The findings of an audit, in one block of rows per `add`. `rows` joins the blocks."""

    def __init__(self, clusters: list[str], severities: dict[str, Severity]) -> None:
        self._clusters = clusters
        self._severities = severities
        self._blocks: list[tuple[str, TableRows]] = []

    def add(
        self, code: str, cluster: Int, *, detail: Texts | None = None, **levels: Int | Texts
    ) -> None:
        """Add a finding for each position in `cluster`; an omitted column is null.

        `detail`: the first fact of the code's row. `levels`: feature and facts as texts; role,
        node_id, finalized_level, level, min_version, max_version, epoch, at and line as numbers. 0
        in `at` and `line`, and -1 in `node_id` and `epoch`, mean null.
        """
        count = len(cluster)
        if count == 0:
            return
        columns: dict[str, Column | Int] = {
            "cluster": Texts(words=self._clusters, codes=cluster),
            "code": _repeated(code, count),
            "severity": _repeated(self._severities[code].value, count),
        }
        facts = {name: levels.pop(name) for name in FACTS.names if name in levels}
        row = row_of(code)
        if detail is not None and row and row.first_fact:
            facts = {row.first_fact: detail, **facts}
        columns["facts"] = make_rows(FACTS, count, facts)
        for given, values in levels.items():
            if isinstance(values, Texts):
                columns[given] = values
            elif given == "role":
                columns[given] = Texts(words=[role.text for role in Role], codes=values)
            else:
                name, default = _NUMBERS[given]
                columns[name] = np.where(values == default, NONE, values)
        self._blocks.append((code, make_rows(FINDING, count, columns)))

    def rows(self, code: str | None = None) -> TableRows:
        """Return all findings, or those with one code, as rows of FINDING."""
        blocks = [rows for block_code, rows in self._blocks if code in (None, block_code)]
        return join_rows([make_rows(FINDING, 0, {}), *blocks])


def _repeated(text: str, count: int) -> Texts:
    return Texts(words=(text,), codes=np.zeros(count, dtype=np.int64))


EXPIRED = "mute_expired"
_DAY, _MINUTE = 86_400_000_000, 60_000_000  # microseconds
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """A setting that mutes findings of `code` until the end of a day. Empty fields match all."""

    code: str
    reason: str
    until: date
    cluster: str = ""
    feature: str = ""
    node: int | None = None

    @property
    def ends(self) -> int:
        """The end of the mute's last day (UTC), in microseconds."""
        return (self.until.toordinal() - _EPOCH + 1) * _DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A muted finding: code, node, feature, and the reason and last day of the mute."""

    code: str
    role: str | None
    node_id: int | None
    feature: str | None
    muted: str
    muted_until: date


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The mutes that are valid for one cluster at one time (microseconds)."""

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
        """Return the muted finding for a mute that matches; None if no mute matches."""
        texts = {"cluster": self.cluster, "code": code, "feature": feature}
        node = np.array([NONE if node_id is None else node_id])
        columns: dict[str, Column | Int] = {name: texts_of([text]) for name, text in texts.items()}
        row = make_rows(FINDING, 1, columns | {"node_id": node})
        row = row.replace(**_mutes_of(row, self.mutes, self.as_of))
        [reason], [until] = (row[name].to_pylist() for name in ("muted", "muted_until"))
        if reason is None:
            return None
        return SetAside(
            code=code,
            role=role,
            node_id=node_id,
            feature=feature or None,
            muted=reason,
            muted_until=until,
        )


def covered(mute: Mute, findings: TableRows) -> Bool:
    """Return a mask of the findings that a mute matches. The expiry of the mute is ignored."""
    mask = findings.texts("code").equal(mute.code)
    for column, value in (("cluster", mute.cluster), ("feature", mute.feature)):
        if value:
            mask &= findings.texts(column).equal(value)
    if mute.node is not None:
        mask &= findings.numbers("node_id") == mute.node
    return mask


def _mutes_of(findings: TableRows, mutes: Sequence[Mute], as_of: int) -> dict[str, Column | Int]:
    """Return the columns `muted` and `muted_until` of findings, null without a mute. Of several
    mutes the one with the latest last day is used."""
    active = sorted((mute for mute in mutes if mute.ends > as_of), key=lambda m: m.ends)
    mute_at = np.full(len(findings), -1, dtype=np.int64)
    for at, mute in enumerate(active):
        mute_at[covered(mute, findings)] = at
    days = np.array([mute.until.toordinal() - _EPOCH for mute in active], dtype=np.int64)
    reasons = [mute.reason for mute in active]
    return {"muted": Texts(words=reasons, codes=mute_at), "muted_until": pick(days, mute_at, NONE)}


def set_aside(
    columns: Findings, clusters: Sequence[str], mutes: Sequence[Mute], as_of: int
) -> TableRows:
    """Return all findings with the reason and last day of their mutes. A cluster with matching
    expired mutes gets one more finding, which lists these mutes."""
    rows = columns.rows()
    if not mutes:
        return rows
    rows = rows.replace(**_mutes_of(rows, mutes, as_of))
    _add_expired(columns, clusters, [mute for mute in mutes if mute.ends <= as_of], rows)
    return join_rows([rows, columns.rows(EXPIRED)])


def _add_expired(
    columns: Findings, clusters: Sequence[str], expired: Sequence[Mute], rows: TableRows
) -> None:
    """Add one finding per cluster with its expired mutes that no valid mute replaces."""
    by_cluster = defaultdict[str, list[str]](list)
    unmuted = rows.texts("muted").codes < 0
    for mute in expired:
        is_expired = np.flatnonzero(covered(mute, rows) & unmuted)
        for name in dict.fromkeys(rows["cluster"].take(is_expired).to_pylist()):
            by_cluster[name].append(f"{mute.code}, until {mute.until.isoformat()} ({mute.reason})")
    rows_known = [i for i, name in enumerate(clusters) if name in by_cluster]
    details = ["; ".join(by_cluster[clusters[i]]) for i in rows_known]
    columns.add(EXPIRED, np.array(rows_known, dtype=np.int64), detail=texts_of(details))


@cache
def wordings(dialect: Dialect) -> dict[str, FindingRow]:
    """Return finding code → texts, for findings about data and for the rules of the dialect."""
    return finding_rows() | {row.code: row.words for row in dialect.rules}


COMPOSED_LENGTH = 1200  # the maximum length of a fact with several sentences, in characters
_WAY, _STALE = "{way}", "{stale}"
_NODES = "\0"  # replaces {nodes} in an action; safe texts never contain NUL
# Managed services whose controllers only the service can query.
_SERVICES = frozenset({"msk", "aiven", "confluent"})

# A level without its name: not a part of a level name such as 4.1-IV1, and not before one.
_DATED_LEVEL = re.compile(rf"\b{re.escape(METADATA_VERSION)} (\d{{1,5}})\b(?![.-]\w| \()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The facts about a cluster that remedies contain: name, addresses, manager ("" = unknown),
    inventory file, landing folder."""

    name: str = ""
    address: str = ""
    managed_by: str = ""
    inventory: str = "conf/fleet.toml"
    landing: str = "LANDING"
    managed: tuple[str, ...] | None = None  # features that the manager finalizes; None = all
    zookeeper: str = ""
    listed: bool = False  # true if the inventory has the cluster
    reachable: bool = False  # true if the inventory has an address of the cluster
    options: str = ""  # command-line options with which featurelib reaches the cluster
    change: str = "upgrade-all"  # the arguments of `featurelib plan` in a remedy

    @property
    def managers(self) -> frozenset[str]:
        """The manager's names that conditions of remedies compare; empty = unknown manager."""
        owner = self.managed_by.casefold()
        kinds = {owner, "anybody", *(["service"] if owner in _SERVICES else [])}
        return frozenset(kinds) if owner else frozenset()

    @property
    def bootstrap(self) -> str:
        """The shell argument `bootstrap = […]` for the inventory; "" without addresses."""
        addresses = ", ".join(map(toml_text, self.address.split(",")))
        return f" {shlex.quote(f'bootstrap = [{addresses}]')}" if self.address else ""

    @property
    def collect(self) -> str:
        """The command that collects the cluster. HOST:PORT stands for an unknown address."""
        words = ["collect", *[clean(self.name)] * self.listed, "--out", self.landing]
        command = shlex.join(["featurelib", *words, "--fleet", self.inventory])
        return command if self.reachable else f"{command} --bootstrap {ANY_ADDRESS}"


NO_SITE = Site()
_UNNAMED = attrgetter(*(field.name for field in fields(Site) if field.name != "name"))


def without_blanks(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of FINDING without facts that are null."""
    facts = {name: value for name, value in row["facts"].items() if value is not None}
    return {**row, "facts": facts}


# A row of featurelib.schema.FINDING, or the columns of the row that the texts use.
FindingColumns = Mapping[str, Any]
_OF_WORDS = "code role node_id feature finalized_level level min_version max_version observed_at"
_DENSE = 4  # for up to 4 possible kinds per row, a table is faster than a sort


class FindingWords:
    """The texts of findings, with levels named as in the catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._wordings = wordings(load(STRICT))

    def of(
        self, columns: FindingColumns, site: Site = NO_SITE, ghost: FindingColumns | None = None
    ) -> NodeAdvice:
        """Return message, consequence and remedy of a finding. `ghost`: the finding that the node
        is stale, if any; its remedy replaces the remedy for blocked levels."""
        row = self._wordings.get(columns["code"]) or _bare_row(columns["code"])
        known, values = _condition_values(columns, site), _Values(columns, site, self.catalogue)
        facts = columns.get("facts", {})
        for fact, kind in row.facts.items():
            values |= self._fact(fact, kind, facts.get(fact))
        remedy = first_fit(row.remedies, known | {"stale": ghost is not None})
        text, command = remedy.text, remedy.command
        if ghost is not None and text == _STALE:
            stale = self.of(ghost, site)
            text, command, values["stale"] = _STALE, stale.command, stale.action_for(_NODES)
        else:
            if _WAY in text:
                fix = first_fit(ways(), known | {"stale": True})
                values["way"] = fix.text.format_map(values)
                command = fix.command * (command == _WAY)
            command = command and filled(_fill_command(command, values), site.address)
        advice = tuple(_open_sentence(text, values).split(_NODES))
        return NodeAdvice(
            message=_open_sentence(remedy.message or row.message, values).rstrip(),
            consequence=row.consequence.format_map(values),
            action=f"{columns['role'] or 'node'} {columns['node_id'] or 0}".join(advice),
            command=command,
            source=row.source,
            remedy=advice if advice[1:] else (),
        )

    def of_rows(self, findings: TableRows, sites: Mapping[str, Site]) -> dict[str, Texts]:
        """Return the columns message, consequence, action and command of findings. `sites`: cluster
        id → site; a cluster without a site is named by its id."""
        codes, at = findings.texts("code"), findings.numbers("observed_at")
        rows = [self._wordings.get(code) or _bare_row(code) for code in codes.words]
        with_time = np.array(["{observed_at}" in row.message for row in rows], dtype=bool)
        named, sited = np.array([_place_names(row) for row in rows], dtype=bool).reshape(-1, 2).T
        clusters = findings.texts("cluster")
        kinds: dict[object, int] = {}
        unnamed = (_UNNAMED(sites.get(name, NO_SITE)) for name in clusters.words)
        kind = np.array([kinds.setdefault(key, len(kinds)) for key in unnamed], dtype=np.int64)
        # -1 if there is no site; other negative numbers are a kind of site without a name.
        site = np.where(sited[codes.codes], -2 - pick(kind, clusters.codes, -1), -1)
        site = np.where(named[codes.codes], clusters.codes, site)
        minute = np.where(with_time[codes.codes] & (at != NONE), at // _MINUTE * _MINUTE, NONE)
        base = findings.select(["cluster", *_OF_WORDS.split(), "facts"]).replace(observed_at=minute)
        facts = base["facts"]
        assert isinstance(facts, TableRows)
        numbers = dict(zip(FACTS.names, map(_numbers, facts.columns.values()), strict=True))
        columns = map(_numbers, base.select(_OF_WORDS.split()).columns.values())
        first, kind = _kinds([site, *columns, *numbers.values()])
        # Findings have only some facts. The first fact stays, so that each row has a fact.
        names = [name for name in FACTS.names[1:] if (numbers[name] >= 0).any()]
        base = base.replace(facts=facts.select([FACTS.names[0], *names]))
        stale_rows = _stale_rows(findings)
        if (stale_rows >= 0).any():
            first, kind = _kinds([kind, np.where(stale_rows >= 0, kind[stale_rows], -1)])
        found, stale = base.take(first).to_pylist(), np.unique(stale_rows[first])
        stale_findings = dict(zip(stale.tolist(), base.take(stale).to_pylist(), strict=True))
        stale_findings[-1] = None  # no finding calls the node stale
        advices = [
            self.of(row, sites.get(row["cluster"]) or Site(name=row["cluster"]), stale_findings[at])
            for row, at in zip(found, stale_rows[first].tolist(), strict=True)
        ]
        return {
            name: Texts(words=[getattr(advice, name) for advice in advices], codes=kind)
            for name in FINDING_TEXTS.names[1:]
        }

    def facts(self, columns: FindingColumns) -> dict[str, str]:
        """Return the facts of a finding as texts that are safe to show."""
        row = self._wordings.get(columns["code"]) or _bare_row(columns["code"])
        return {
            name: self._as_text(row.facts.get(name, "value"), str(fact))
            for name, fact in columns["facts"].items()
            if fact not in (None, "")
        }

    def _as_text(self, kind: Kind, text: str) -> str:
        """Return a fact as safe text. For sentences, levels of metadata.version become names."""
        if kind not in ("text", "sentences"):
            return clean(text)
        texts = (
            clean(text, COMPOSED_LENGTH) if kind == "sentences" else clean(text).removesuffix(".")
        )
        return _DATED_LEVEL.sub(self._add_name, texts) if METADATA_VERSION in texts else texts

    def _fact(self, name: str, kind: Kind, value: Any) -> dict[str, str]:
        """Return placeholder → text for one fact of a finding."""
        text = "" if value is None else str(value)
        if kind == "release":
            return {"software": software(text), "newer": f" to {software(text)}" * bool(text)}
        if kind == "resource":
            space, _, fact = text.rpartition("/")
            names = {"namespace": _argument(space, "NAMESPACE"), "name": _argument(fact, "NAME")}
            return names | {name: clean(text) or "?"}
        if kind in ("text", "sentences"):  # an empty text adds no words; null = missing
            return {name: "?" if value is None else text and self._as_text(kind, text)}
        if kind == "argument":
            return {name: _argument(text, BLANKS[name])}
        return {name: text or BLANKS.get(name, "")}

    def _add_name(self, match: re.Match[str]) -> str:
        level_name = level_text(self.catalogue, METADATA_VERSION, int(match[1]))
        return f"{METADATA_VERSION} {level_name}"


class _Values(dict[str, str]):
    """The values of the placeholders in a finding's texts, created on first use."""

    def __init__(self, columns: FindingColumns, site: Site, catalogue: Catalogue) -> None:
        super().__init__()
        self.columns, self.site, self.catalogue = columns, site, catalogue

    def __missing__(self, name: str) -> str:
        make = _PLACES.get(name)
        text: str = make(self) if make else getattr(self.site, name)
        return text

    def text(self, column: str, unknown: str) -> str:
        """Return a value as safe text; `unknown` if the value is null."""
        value = self.columns[column]
        return unknown if value is None else clean(str(value))

    def level(self, column: str, unknown: str) -> str:
        """Return a level with its name; `unknown` if the level is null."""
        level, feature = self.columns[column], self.columns["feature"]
        return unknown if level is None else level_text(self.catalogue, feature, level)

    def range(self) -> str:
        """Return the supported range as text."""
        low, high = self.columns["min_version"], self.columns["max_version"]
        ends = None if low is None or high is None else (low, high)
        return range_text(self.catalogue, self.columns["feature"], ends)

    def version(self) -> str:
        """Return the name of the finalized metadata.version, for a command."""
        level = self.columns["finalized_level"]
        return _argument(self.catalogue.level_name(METADATA_VERSION, level), "VERSION")


# The placeholders of every row's texts; other placeholders are attributes of Site.
_PLACES: dict[str, Callable[[_Values], str]] = {
    "role": lambda finding: finding.columns["role"] or "node",
    "node": lambda finding: finding.text("node_id", "?"),
    "nodes": lambda finding: _NODES,
    "feature": lambda finding: finding.text("feature", "a feature"),
    "range": _Values.range,
    "level": lambda finding: finding.level("level", "?"),
    "number": lambda finding: finding.text("level", "LEVEL"),
    "version": _Values.version,
    "finalized": lambda finding: finding.level("finalized_level", "an unknown level"),
    "observed_at": lambda finding: time_text(finding.columns["observed_at"]) or "an unknown day",
    "dated": lambda finding: finding.catalogue.label,
    "software": lambda finding: software(""),
    "cluster": lambda finding: clean(finding.site.name or "CLUSTER"),
    "cluster_and_folder": lambda finding: _collect_options(finding["cluster"], finding.site),
    "collect": lambda finding: finding.site.collect * (finding.site.landing != NO_SITE.landing),
    "zookeeper": lambda finding: finding.site.zookeeper or "ZOOKEEPER",
    "live": lambda f: f.site.options if f.site.reachable else f" --bootstrap {ANY_ADDRESS}",
}


def _collect_options(name: str, site: Site) -> str:
    """Return the options `--cluster`, `--out` and `--fleet` that collect one cluster."""
    into = shlex.join(["--cluster", name, "--out", site.landing, "--fleet", site.inventory])
    return into + " (put the landing folder for LANDING)" * (site.landing == NO_SITE.landing)


def ghosts(findings: TableRows) -> dict[tuple[str, str | None, int | None], int]:
    """Return (cluster, role, node id) → position of the finding that the node is stale."""
    at = np.flatnonzero(_is_one_of(findings, tagged("stale")))
    keys = (findings[name].take(at).to_pylist() for name in ("cluster", "role", "node_id"))
    return dict(zip(zip(*keys, strict=True), at.tolist(), strict=True))


def _stale_rows(findings: TableRows) -> Int:
    """Return per finding about a range the position of the node's stale finding, or -1."""
    is_stale = np.flatnonzero(_is_one_of(findings, tagged("stale")))
    keys = node_key(*(_numbers(findings[name]) for name in ("cluster", "role", "node_id")))
    place_of = pick(is_stale, place(keys[is_stale], np.argsort(keys[is_stale]), keys), -1)
    return np.where(_is_one_of(findings, tagged("of_range", "range_unseen")), place_of, -1)


def _is_one_of(findings: TableRows, codes: Iterable[str]) -> Bool:
    return np.logical_or.reduce([findings.texts("code").equal(code) for code in codes])


def _numbers(column: Column) -> Int:
    """Return one number per row; equal values in the column get equal numbers."""
    if isinstance(column, Texts):
        # The column may repeat a word, so its words get new codes.
        return pick(texts_of(column.words).codes, column.codes, -1)
    assert isinstance(column, Numbers)
    return np.where(column.values == NONE, -1, column.values)


def _kinds(columns: Sequence[Int]) -> tuple[Int, Int]:
    """Return (first row of each group of equal rows, group of each row)."""
    kind, size, rows = np.zeros_like(columns[0]), 1, len(columns[0])
    for column in columns:
        low, high = int(column.min(initial=0)), int(column.max(initial=0))
        if low == high:
            continue
        values, width = column - low, high - low + 1
        if width > _DENSE * rows:
            kinds, values = np.unique(column, return_inverse=True)
            width = len(kinds)
        if size * width > _DENSE * rows:
            kinds, kind = positions(kind, size)
            size = len(kinds)
        kind, size = kind * width + values, size * width
    kinds, kind = positions(kind, size)
    first = np.empty(len(kinds), dtype=np.int64)
    first[kind[::-1]] = np.arange(rows - 1, -1, -1)
    return first, kind


def _argument(text: str, unknown: str) -> str:
    """Return a text quoted for a shell; `unknown` if the text is empty or risky."""
    return clean(text) if text[:1].isalnum() else unknown


def _condition_values(columns: FindingColumns, site: Site) -> dict[str, object]:
    """Return the values of a finding that the conditions (`when`) of remedies can compare."""
    least = columns["finalized_level"] if columns["level"] is None else columns["level"]
    feature, managed, facts = columns["feature"], site.managed, columns.get("facts", {})
    return {
        "cause": facts.get("cause"),
        "needs": facts.get("needs") is not None,
        "role": columns["role"] or Role.BROKER.text,
        "managed_by": site.managers,
        "owner_finalizes": managed is None or feature in managed,
        "range_above": least is not None and least < (columns["min_version"] or 0),
        "metadata_version": columns["finalized_level"],
    }


def _place_names(row: FindingRow) -> tuple[bool, bool]:
    """Return two flags about the texts of a finding code: they contain the cluster's name; they
    contain its addresses or manager."""
    of_ways = (text for remedy in ways() for text in remedy.texts if _WAY in row.texts)
    texts = " ".join((row.texts, *of_ways))
    sited = re.search("{(zoo|way|stale|options|live|change|bootstrap|inventory)|HOST:PORT", texts)
    is_managed = any(remedy.when.managed_by for remedy in row.remedies)
    return bool(re.search("{(cluster|collect)", texts)), is_managed or bool(sited)


def _fill_command(template: str, values: dict[str, str]) -> str:
    """Return the template filled in and quoted for a shell; "" if a value is missing."""
    used = {name: values[name] for _, name, _, _ in Formatter().parse(template) if name}
    options = ("options", "live", "bootstrap")
    if any(not text for name, text in used.items() if name not in options):
        return ""
    args = ("collect", "change", *options)  # these values are already quoted
    return template.format_map({n: t if n in args else shlex.quote(t) for n, t in used.items()})


def _open_sentence(template: str, values: dict[str, str]) -> str:
    """Return the template filled in, as a sentence with a capital letter. A feature's name at the
    start stays as it is."""
    text = template.format_map(values)
    return text[:1].upper() + text[1:] if template.startswith(("{role}", _WAY)) else text


def _bare_row(code: str) -> FindingRow:
    """Return a row of generic texts for a finding code that this release does not know."""
    return FindingRow(
        severity=Severity.WARNING,
        message=code_text(code).replace("{", "{{").replace("}", "}}"),
        remedies=(Remedy(text=""),),
    )
