"""The rules of `featurelib lint`: rows of rules.toml that turn facts into findings.

A row applies if its conditions hold. Its first case whose conditions hold is the finding; without
one there is none. Only the row REMOVED is about scopes that files no longer declare.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources

import msgspec

from featurelib.extras.lint import declared as of
from featurelib.extras.lint.change import (
    DYNAMIC_FROM,
    KRAFT_ONLY,
    FileChange,
    Number,
    mode_of,
    roles_of,
    voters_of,
)
from featurelib.extras.lint.declared import Scope, Setting
from featurelib.feature import METADATA_VERSION, Severity
from featurelib.words import clean, level_text, nodes

FILE, TABLES = "rules.toml", ("facts", "texts")
REMOVED = "declaration_removed"
Conditions = dict[str, str | list[str]]


class LintCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The severity and words of a rule in one circumstance."""

    conditions: Conditions = msgspec.field(name="when", default_factory=dict)
    severity: Severity
    message: str
    consequence: str = ""
    remedy: str


class LintRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row. `at`: the settings whose line is shown; the first that the file has."""

    title: str
    at: list[str]
    conditions: Conditions = msgspec.field(name="when")
    source: str
    cases: list[LintCase] = msgspec.field(name="case")


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The finding of a rule at a line of a file."""

    code: str
    severity: Severity
    file: str
    line: int
    subject: str  # the cluster that the file declares, or the file
    message: str
    consequence: str
    remedy: str
    source: str


@cache
def rules() -> dict[str, LintRule]:
    """Return the rules by code, in the order of the file."""
    rows = tomllib.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    own = {code: row for code, row in rows.items() if code not in TABLES}
    return msgspec.convert(own, dict[str, LintRule])


def find(change: FileChange) -> Iterator[LintFinding]:
    """Yield the findings of all rules about one change."""
    facts, texts = facts_of(change), texts_of(change)
    for code, rule in rules().items():
        if (code == REMOVED) is not change.is_removed or not holds(rule.conditions, facts):
            continue
        for case in (case for case in rule.cases if holds(case.conditions, facts)):
            at = _place(change, rule.at)
            yield LintFinding(
                code=code,
                severity=case.severity,
                file=at.file,
                line=at.line,
                subject=change.after.name,
                message=case.message.format_map(texts),
                consequence=case.consequence.format_map(texts),
                remedy=case.remedy.format_map(texts),
                source=rule.source,
            )
            break


def holds(conditions: Conditions, facts: Mapping[str, str]) -> bool:
    """Return true if every condition names the word of its fact; a list names several words."""
    return all(facts[name] in _words(words) for name, words in conditions.items())


def _words(words: str | list[str]) -> Sequence[str]:
    return [words] if isinstance(words, str) else words


def _place(change: FileChange, keys: Sequence[str]) -> Setting:
    """Return the first of these settings, or the beginning of its scope."""
    own = change.after
    settings = (own.settings[key] for key in keys if key in own.settings)
    return next(settings, Setting("", own.file, own.line))


BRIDGE_BELOW = (3, 3)  # the upgrade notes of Kafka 4.0 ask for software of 3.3 or later
MIGRATES_FROM = (3, 4)  # KIP-866
ON_ZOOKEEPER = ("zookeeper", "migrating")
# Settings that texts may name.
_SETTINGS = {
    "version": of.VERSION,
    "level": of.METADATA,
    "controllers": of.CONTROLLERS,
    "pools": of.POOLS,
    "protocol": of.PROTOCOL,
    "roles": of.ROLES,
    "api": of.API,
}


def facts_of(change: FileChange) -> dict[str, str]:
    """Return the word of each fact."""
    has = change.after.settings
    mode, before = mode_of(change.after), mode_of(change.before)
    return _level_facts(change) | {
        "kind": change.after.kind,
        "api": "unknown" if of.API in has else "known",
        "unstable": "on" if change.value(of.UNSTABLE) == "true" else "off",
        "mode": mode,
        "mode_before": before,
        "steps": _steps(change, mode, before),
        "kraft": _kraft(change),
        "quorum": _named(change.after),
        "quorum_before": _named(change.before),
        "voters": _voters(change),
        "controllers": _controllers(change),
        "roles": _roles(roles_of(change.before), roles_of(change.after)),
        "node": _node(change.after),
        "conflict": _conflict(change.after),
        "start": _start(change),
    }


def _level_facts(change: FileChange) -> dict[str, str]:
    version = change.turn(of.VERSION, *change.numbers(of.VERSION, 4))
    start, end = change.ends or (0, 0)
    refusals, (every, stale) = change.refusals, change.blockers or ((), ())
    is_blocked = every and version != "raised"  # running nodes get the new software first
    request = "stale" if stale else "blocked" if is_blocked else "free"
    software, protocol = change.numbers(of.VERSION)[0], change.numbers(of.PROTOCOL)
    is_left = change.ends is not None and of.METADATA not in change.after.settings
    known = "unknown" if change.own is None else "known"
    return {
        "version": version,
        "software": "vendor" if of.VENDOR in change.after.settings else known,
        "metadata": change.turn(of.METADATA, *map(change.asked, (change.after, change.before))),
        "metadata_fits": change.fits(change.asked(change.after)),
        "by_itself": ("rises" if end > start else "stays") if is_left else "unknown",
        "way_back": ("closed" if change.no_return else "open") if change.ends else "unknown",
        "finalized_fits": change.fits(change.finalized[0]),
        "basis": change.finalized[1],
        "protocol": change.turn(of.PROTOCOL, *protocol),
        "protocol_fits": _protocol_fits(protocol[0], software, mode_of(change.after)),
        "register": "unknown" if refusals is None else "refused" if refusals else "joins",
        "request": "unknown" if change.blockers is None else request,
    }


def _protocol_fits(protocol: Number | None, software: Number | None, mode: str) -> str:
    if protocol is not None and protocol >= KRAFT_ONLY and mode in ON_ZOOKEEPER:
        return "no_zookeeper"
    if protocol is not None and protocol < MIGRATES_FROM and mode == "migrating":
        return "no_migration"
    if protocol is None or software is None:
        return "unknown"
    return "above" if protocol > software else "fits"


def _steps(change: FileChange, mode: str, before: str) -> str:
    now, then = change.numbers(of.VERSION)
    if now is None or now < KRAFT_ONLY:
        return "fine"
    # The migration ends on 3.9, before the new software.
    is_next = before in ON_ZOOKEEPER and then and then < KRAFT_ONLY
    if is_next or mode in ON_ZOOKEEPER:
        return "needs_kraft"
    return "needs_bridge" if then and then < BRIDGE_BELOW else "fine"


def _kraft(change: FileChange) -> str:
    """Return the kraft.version of the cluster, or the one that a chart made it with. A quorum with
    listed voters has 0 until an upgrade."""
    known, release = change.cluster.kraft, change.numbers(of.VERSION)[1]
    word = change.value_before(of.KRAFT) if known is None else str(known)
    if word is None and _named(change.before) == "voters" and release and release < DYNAMIC_FROM:
        return "0"
    return word if word in ("0", "1") else "unknown"


def _named(scope: Scope | None) -> str:
    has = scope.settings.keys() if scope is not None else set[str]()
    if of.VOTERS in has:
        return "both" if of.SERVERS in has else "voters"
    return "servers" if of.SERVERS in has else "none"


def _voters(change: FileChange) -> str:
    removed, added = change.voter_ids or (set(), set())
    if removed and len(added) * 2 > len(voters_of(change.after) or ()):
        return "majority"
    if removed:
        return "exchanged" if added else "removed"
    return "unknown" if change.voter_ids is None else "added" if added else "same"


def _controllers(change: FileChange) -> str:
    """Return the change of their number; `gone` where the files before had some, `moved` where
    other node pools have them now."""
    now, then = change.value(of.CONTROLLERS), change.value_before(of.CONTROLLERS)
    if then and of.CONTROLLERS not in change.after.settings:
        return "gone"
    pools, pools_before = (
        set((value or "").split(", ")) - {""}
        for value in (change.value(of.POOLS), change.value_before(of.POOLS))
    )
    if pools - pools_before and pools_before - pools:
        return "moved"
    if not (now and then and now.isdecimal() and then.isdecimal()):
        return "unknown"
    return "same" if int(now) == int(then) else "fewer" if int(now) < int(then) else "more"


def _roles(then: set[str], now: set[str]) -> str:
    for role in ("controller", "broker") if then and now else ():
        if role in then ^ now:
            return f"{role}_removed" if role in then else f"{role}_added"
    return "same"


def _node(scope: Scope) -> str:
    roles = roles_of(scope)
    return "both" if len(roles) > 1 else next(iter(roles), scope.node or "unknown")


def _conflict(scope: Scope) -> str:
    """Return the contradiction of roles and voters, with which a node does not start
    (KafkaConfig.validateValues)."""
    node_id = _node_id(scope)
    roles, voters = roles_of(scope), voters_of(scope)
    if not (node_id.isdecimal() and roles and voters):
        return "none"
    is_voter, is_controller = int(node_id) in voters, "controller" in roles
    if is_voter == is_controller:
        return "none"
    return "voter_without_role" if is_voter else "role_without_vote"


def _start(change: FileChange) -> str:
    """Return the reason why a node ends at its start with these properties (KafkaConfig,
    MetaPropertiesEnsemble); tried with 3.9.2 and 4.2.1."""
    if change.after.kind != "properties" or change.before is None:
        return "fine"
    has, had = change.after.settings.keys(), change.before.settings.keys()
    roles = change.value(of.ROLES)
    if roles is not None and {role.strip() for role in roles.split(",")} - {"broker", "controller"}:
        return "strange_roles"
    if of.ROLES in had and not {of.ROLES, of.CONNECT} & has:
        return "no_roles"
    needs_connect = change.value(of.MIGRATES) == "true" or of.ROLES not in has
    if of.CONNECT in had and of.CONNECT not in has and needs_connect:
        return "no_connect"
    if of.ROLES in has and {*of.NODE_IDS} & had and not {*of.NODE_IDS} & has:
        return "no_node_id"
    now, then = _node_id(change.after), _node_id(change.before)
    return "node_id_changed" if now and then and now != then else "fine"


def _node_id(scope: Scope | None) -> str:
    """Return the node's id, by either of its names; "" where it is not known."""
    known = (scope.known(key) for key in of.NODE_IDS) if scope is not None else ()
    return next(filter(None, known), "")


def texts_of(change: FileChange) -> dict[str, str]:
    """Return the texts that rules name; those that are not known say so."""

    def level(number: int | None) -> str:
        return level_text(change.cluster.catalogue, METADATA_VERSION, number)

    removed, added = change.voter_ids or (set[int](), set[int]())
    every, stale = change.blockers or ((), ())
    values: dict[str, str | None] = {"name": change.after.name}
    values |= {name: change.value(key) for name, key in _SETTINGS.items()}
    values |= {f"{name}_before": change.value_before(key) for name, key in _SETTINGS.items()}
    values |= {
        "next_level": level(change.next_level),
        "finalized": level(change.finalized[0]),
        "no_return": level(change.no_return) if change.no_return else "none, each can be left",
        "reasons": " ".join(stale or every),
        "refusals": " ".join(change.refusals or ()),
        "removed": nodes("controller", sorted(removed)),
        "added": nodes("controller", sorted(added)),
        "node_id": _node_id(change.after),
        "node_id_before": _node_id(change.before),
    }
    return {name: clean(text, 1000) if text else "not known" for name, text in values.items()}
