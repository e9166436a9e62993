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
    """A row. `at`: the settings whose line is shown, the first of them."""

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
    facts, texts = Facts(change), texts_of(change)
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
    return all(
        facts[name] in ([words] if isinstance(words, str) else words)
        for name, words in conditions.items()
    )


def _place(change: FileChange, keys: Sequence[str]) -> Setting:
    """Return the first of these settings, if possible one that the change touches; without any the
    beginning of its scope."""
    own, had = change.after, change.before.settings if change.before else {}
    places = [own.settings[key] for at in keys for key in own.settings if key.split(" ")[0] == at]
    old = {setting.value for setting in had.values()}
    new = (setting for setting in places if setting.value not in old)
    return next(new, places[0] if places else Setting("", own.file, own.line))


BRIDGE_BELOW = (3, 3)  # the upgrade notes of Kafka 4.0 ask for software of 3.3 or later
MIGRATES_FROM = (3, 4)  # KIP-866
MOST = 3  # reasons that a finding lists
ON_ZOOKEEPER = ("zookeeper", "migrating")
NO_YES = ("no", "yes")
ROLES = {"broker", "controller"}
ANNOTATIONS = ("enabled", "disabled", "migration", "rollback")  # values of strimzi.io/kraft
# Settings that texts may name.
_SETTINGS = {
    "version": of.VERSION,
    "level": of.METADATA,
    "controllers": of.CONTROLLERS,
    "pools": of.POOLS,
    "protocol": of.PROTOCOL,
    "roles": of.ROLES,
    "api": of.API,
    "migration": of.MIGRATION,
    "cluster_id": of.CLUSTER_ID,
}


def facts_of(change: FileChange) -> dict[str, str]:
    """Return the word of each fact."""
    mode, before = mode_of(change.after), mode_of(change.before)
    number, ids = change.after.node_id, voters_of(change.after) or set[int]()
    annotation = (change.value(of.MIGRATION) or "enabled").lower()
    words = {word.strip() for word in (change.value(of.ROLES) or "broker").split(",")}
    return _level_facts(change) | {
        "kind": change.after.kind,
        "unstable": "on" if change.value(of.UNSTABLE) == "true" else "off",
        "mode": mode,
        "mode_before": before,
        "steps": _steps(change, mode, before),
        "kraft": _kraft(change),
        "voters": _voters(change),
        "controllers": _controllers(change),
        "node": _node(change.after),
        "node_before": _node(change.before),
        "voter": "unknown" if not (number.isdecimal() and ids) else NO_YES[int(number) in ids],
        "annotation": "known" if annotation in ANNOTATIONS else "strange",
        "strange_roles": NO_YES[not words <= ROLES],
        "node_id_changes": NO_YES[all(change.node_ids) and len({*change.node_ids}) > 1],
        "log_dir_moves": NO_YES[all(change.log_dirs) and len({*change.log_dirs}) > 1],
    }


class Facts(dict[str, str]):
    """The facts by name. The name of a setting is one, too: how the change treats it."""

    def __init__(self, change: FileChange) -> None:
        super().__init__(facts_of(change))
        self._change = change

    def __missing__(self, key: str) -> str:
        then, now = self._change.value_before(key), self._change.value(key)
        turn = self._change.turn(key, now, then)
        return "changed" if turn in ("raised", "lowered") else turn


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
    names = change.before.settings.keys() & {of.VOTERS, of.SERVERS} if change.before else set()
    if word is None and names == {of.VOTERS} and release and release < DYNAMIC_FROM:
        return "0"
    return word if word in ("0", "1") else "unknown"


def _voters(change: FileChange) -> str:
    removed, added = change.voter_ids or (set(), set())
    if removed and len(added) * 2 > len(voters_of(change.after) or ()):
        return "majority"
    if removed:
        return "exchanged" if added else "removed"
    return "unknown" if change.voter_ids is None else "added" if added else "same"


def _controllers(change: FileChange) -> str:
    """Return the change of their number; `moved` where other node pools have them now."""
    pools, pools_before = (
        set((value or "").split(", ")) - {""}
        for value in (change.value(of.POOLS), change.value_before(of.POOLS))
    )
    if pools - pools_before and pools_before - pools:
        return "moved"
    numbers = (change.value(of.CONTROLLERS), change.value_before(of.CONTROLLERS))
    now, then = (int(text) if text and text.isdecimal() else None for text in numbers)
    return change.turn(of.CONTROLLERS, now, then)


def _node(scope: Scope | None) -> str:
    if scope is None:
        return "unknown"
    roles = ROLES & {role.strip() for role in (scope.known(of.ROLES) or "").split(",")}
    return "both" if len(roles) > 1 else next(iter(roles), scope.node or "unknown")


def _first(reasons: Sequence[str]) -> str:
    """Return the reasons, each once; of many the first and their number."""
    known = list(dict.fromkeys(reasons))
    return " ".join([*known[:MOST], *[f"And {len(known) - MOST} more."] * (len(known) > MOST)])


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
        "reasons": _first(stale or every),
        "refusals": _first(change.refusals or ()),
        "removed": nodes("controller", sorted(removed)),
        "added": nodes("controller", sorted(added)),
        "node_id": change.node_ids[1],
        "node_id_before": change.node_ids[0],
        "log_dir": change.log_dirs[1],
        "log_dir_before": change.log_dirs[0],
    }
    return {name: clean(text, 1000) if text else "not known" for name, text in values.items()}
