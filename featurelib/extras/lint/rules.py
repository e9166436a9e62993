"""Evaluate the rules of `featurelib lint`: rows of rules.toml that turn facts into findings.

A row applies if its conditions are true. The first of its cases with true conditions is the
finding. Only the row REMOVED is about scopes that files no longer declare.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from operator import ne
from shlex import quote

import msgspec

from featurelib.extras.lint import declared as of
from featurelib.extras.lint.change import FileChange, is_chosen
from featurelib.extras.lint.declared import Scope, Setting
from featurelib.feature import METADATA_VERSION, Severity, release_line
from featurelib.words import clean, level_text, nodes

ANY = "template"  # any setting that a template fills in
FILE, TABLES = "rules.toml", ("facts", "forms", "texts")
ROWS = tomllib.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
NAMED = {*of.WATCHED, *ROWS["texts"]["settings"]["others"]}  # the settings that conditions name
_NO_WORD = re.compile(r"\W")
REMOVED = "declaration_removed"
Conditions = dict[str, str | list[str]]


class LintCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The severity and the texts of a lint rule under some conditions."""

    conditions: Conditions = msgspec.field(name="when", default_factory=dict)
    severity: Severity
    message: str
    consequence: str = ""
    remedy: str


class LintRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lint rule. `at`: settings; the first one in the file gives the line of the finding."""

    title: str
    at: list[str]
    conditions: Conditions = msgspec.field(name="when")
    source: str
    cases: list[LintCase] = msgspec.field(name="case")


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The finding of a lint rule at a line of a file."""

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
    """Return the lint rules by code, in their order in rules.toml."""
    plain = {code: row for code, row in ROWS.items() if code not in TABLES}
    return msgspec.convert(plain, dict[str, LintRule])


def find(change: FileChange) -> Iterator[LintFinding]:
    """Yield the findings of all rules about one change."""
    facts, texts = words_of(change)
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
                source=rule.source,
                **{name: getattr(case, name).format_map(texts) for name in SENTENCES},
            )
            break


def holds(conditions: Conditions, facts: Mapping[str, str]) -> bool:
    """Return true if every condition allows its fact. A condition is a word, a list of words, or a
    list of excluded words that begins with "not"."""
    pairs = ((name, [v] if isinstance(v, str) else v) for name, v in conditions.items())
    return all((facts[name] in words) is (words[0] != "not") for name, words in pairs)


def _place(change: FileChange, keys: Sequence[str]) -> Setting:
    """Return the setting to point at: the first changed one of `keys`, else the first one, else the
    start of the scope."""
    scope, before = change.after, change.before.settings
    pairs = [(at, *pair) for at in keys for pair in scope.settings.items()]
    places = [v for at, key, v in pairs if at in (key.split(" ")[0], "" if v.is_known else ANY)]
    old = {setting.value for setting in before.values()}
    places.sort(key=lambda setting: setting.value in old)
    return places[0] if places else Setting("", scope.file, scope.line)


# Release → word for older releases: 3.3 is required before 4.0 (upgrade notes), 3.4 migrates to
# KRaft (KIP-866), 4.0 has no ZooKeeper mode.
ERAS = {(3, 3): "before_3.3", (3, 4): "before_3.4", of.KRAFT_ONLY: "before_4"}
WITHOUT_ZOOKEEPER = (0, 46)  # the first Strimzi operator without ZooKeeper
SENTENCES = ("message", "consequence", "remedy")
MOST = 3  # the maximum number of reasons in a finding
NO_YES = ("no", "yes")
Words = dict[str, str]


def words_of(change: FileChange) -> tuple[Words, Words]:
    """Return (facts that rules compare, values for their texts). The fact NAME tells how a setting
    changed, the fact `value NAME` its value. In texts the name has _ for special characters;
    NAME_before is the old value."""
    source = change.cluster.source
    facts = {"kind": change.after.kind, "evidence": NO_YES[source is not None]}
    texts = {"name": change.after.name, "cluster": quote(source.name) if source else "CLUSTER"}
    for key in NAMED:
        turn = change.turn(key)
        facts[key] = "changed" if turn in ("raised", "lowered") else turn
        value = change.after.known(key) or ""
        facts[f"value {key}"] = value.lower()
        forms = (it for it, form in ROWS["forms"].get(key, {}).items() if re.fullmatch(form, value))
        facts[f"form {key}"] = next(forms, "other")
    for end, scope in (("", change.after), ("_before", change.before)):
        values = {key: scope.known(key) or "" for key in scope.settings}
        vendor, version = values.get(of.VENDOR, ""), values.get(of.VERSION, "")
        is_other = bool(vendor) and vendor.split()[-1] != version
        values[of.VERSION] = f"{version} ({vendor})" if is_other else version
        values |= {"release": ".".join(map(str, scope.number(of.VERSION) or ()))}
        texts |= {f"{_NO_WORD.sub('_', key)}{end}": text for key, text in values.items()}
    for add in (_software, _levels, _quorum, _addresses, _nodes):
        more_facts, more_texts = add(change)
        facts.update(more_facts)
        texts |= more_texts
    for name, rows in ROWS["texts"]["phrases"].items():
        texts[name] = next(row["text"] for row in rows if holds(row["when"], facts))
    texts_known = {name: clean(text, 1000) for name, text in texts.items() if text}
    return facts, defaultdict(lambda: "not known", texts_known)


def _software(change: FileChange) -> tuple[Words, Words]:
    now, old_release = change.after, change.before
    version = change.turn(of.VERSION, lambda scope: scope.number(of.VERSION, 4))
    if version == "new" and of.VERSION in old_release.settings:
        version = "unclear"
    software, protocol, own = now.number(of.VERSION), change.protocol(now), change.software(now)
    line = release_line(now.known(of.VERSION) or "")
    operators = [scope.number(of.OPERATOR) or () for scope in (old_release, now)]
    refusals = change.cluster.refusals(now.known(of.VERSION) or "") if own else None
    return {
        "version": version,
        "release": change.turn(of.VERSION, lambda scope: scope.number(of.VERSION)),
        "version_form": _form(change),
        "era": era_of(software),
        "era_before": era_of(old_release.number(of.VERSION)),
        "software": "vendor" if of.VENDOR in now.settings else "known" if own else "unknown",
        "dynamic": NO_YES[software >= of.DYNAMIC_FROM] if software else "unknown",
        "protocol": change.turn(of.PROTOCOL, change.protocol),
        "protocol_era": era_of(protocol),
        "protocol_above": NO_YES[bool(protocol and software and protocol > software)],
        "register": "unknown" if refusals is None else "refused" if refusals else "joins",
        "operator": change.turn(of.OPERATOR, lambda scope: scope.number(of.OPERATOR)),
        "operator_drops_zookeeper": NO_YES[operators[0] < WITHOUT_ZOOKEEPER <= operators[1]],
    }, {"refusals": _first(refusals or ()), "newest": f"{line}.{of.ROWS['patches'].get(line)}"}


def _form(change: FileChange) -> str:
    """Return the form of a version as a word: full, short (4.1), candidate (4.1.0-rc1), or newer
    than every known patch release."""
    text = change.after.known(of.VERSION) or ""
    numbers, newest = of.number_of(text, 3) or (), of.ROWS["patches"].get(release_line(text))
    if of.CANDIDATE.search(text) or len(numbers) < 3:
        return "candidate" if of.CANDIDATE.search(text) else "short"
    is_own = change.cluster.catalogue.release_named(text) == text  # a release of an overlay
    return "full" if is_own or newest is None or numbers[2] <= newest else "newer"


def era_of(number: of.Number | None) -> str:
    """Return the word for a release's era, such as ZooKeeper mode."""
    eras = (era for first, era in ERAS.items() if number and number < first)
    return next(eras, "4" if number else "unknown")


def _levels(change: FileChange) -> tuple[Words, Words]:
    now, (start, basis), catalogue = change.after, change.finalized(), change.cluster.catalogue
    software, is_unset = change.software(now), of.METADATA not in now.settings
    end = level = change.asked(now)
    if is_unset:
        end = software.newest_stable if software and is_chosen(now) else None
    is_known, is_upgrade = start is not None and end is not None, (start or 0) < (end or 0)
    low, high = sorted((start or 0, end or 0))
    # The present software accepts a downgrade; the next may not know the level.
    judge = software if is_upgrade else change.software(change.before)
    losing = (judge or catalogue.whole).loses_metadata_below if is_known else ()
    no_return = min((level for level in losing if low < level <= high), default=None)
    blockers = change.cluster.blockers(end or 0) if is_known and is_upgrade else None
    reasons, stale = blockers or ((), ())
    # Running nodes get the new software first.
    is_raised = change.turn(of.VERSION, lambda scope: scope.number(of.VERSION, 4)) == "raised"
    request = "stale" if stale else "blocked" if reasons and not is_raised else "free"

    def fits(level: int | None) -> str:
        """Return how the file's software supports a level: fits, above, below or unknown."""
        if level is None or software is None:
            return "unknown"
        levels = software.known_levels(METADATA_VERSION, unstable=now.known(of.UNSTABLE) == "true")
        return "above" if level > levels[-1] else "below" if level < levels[0] else "fits"

    text = partial(level_text, catalogue, METADATA_VERSION)
    return {
        "metadata": change.turn(of.METADATA, change.asked),
        "metadata_fits": fits(level),
        "asks_less": NO_YES[bool(level and start and basis == "cluster" and level < start)],
        "by_itself": ("rises" if is_upgrade else "stays") if is_unset and is_known else "unknown",
        "way_back": ("closed" if no_return else "open") if is_known else "unknown",
        "finalized_fits": fits(start),
        "basis": basis,
        "request": "unknown" if blockers is None else request,
    }, {
        "next_level": text(end),
        "finalized": text(start),
        "no_return": text(no_return) if no_return else "none, each can be left",
        "reasons": _first(stale or reasons),
    }


def _quorum(change: FileChange) -> tuple[Words, Words]:
    now, old_voters = change.after.voters, change.before.voters
    removed, added = (old_voters or set()) - (now or set()), (now or set()) - (old_voters or set())
    voters = "removed" if removed else "added" if added else "same"
    if removed and added:
        voters = "majority" if len(added) * 2 > len(now or ()) else "exchanged"
    # Controllers that are no voters, and brokers that are voters.
    role, ids = change.after.role, [i for i in change.after.node_ids if i.isdecimal()]
    is_known = now is not None and role != "unknown"
    wrong_ids = [i for i in ids if is_known and (int(i) in (now or ())) is (role == "broker")]
    known, of_hosts = change.after.known, f"{of.NODE_ID} controller "
    hosts = [(node_id, host, known(of_hosts + host)) for node_id, host, _ in change.after.entries]
    wrong_hosts = [host for host in hosts if host[2] not in (None, host[0])]
    listed_id, host, host_id = next(iter(wrong_hosts), ("", "", ""))
    registered, running = change.cluster.controllers or (set[int](), set[int]())
    differ = NO_YES[bool(running and now and (now - registered or running - now))]
    return {
        "kraft": _kraft(change),
        "voters_differ": differ,
        "voters": "unknown" if now is None or old_voters is None else voters,
        "voters_agree": NO_YES[not wrong_ids],
        "hosts_agree": NO_YES[not wrong_hosts],
    }, {
        "removed": nodes("controller", sorted(removed)),
        "added": nodes("controller", sorted(added)),
        "voters": nodes("controller", sorted(now or ())),
        "known_controllers": nodes("controller", sorted(running)),
        "wrong_id": "".join(wrong_ids[:1]),
        "listed_id": listed_id,
        "host": host,
        "host_id": host_id or "",
    }


def _addresses(change: FileChange) -> tuple[Words, Words]:
    scopes, kind = (change.before, change.after), change.after.kind
    old, new = ({i: (host.lower(), port) for i, host, port in scope.entries} for scope in scopes)
    every = [(name, old[name], new[name]) for name in old if name in new and old[name] != new[name]]
    # k3 and k3.example are one host.
    moves = [row for row in every if any(map(ne, row[1][0].split("."), row[2][0].split(".")))]
    ports = [row for row in every if row not in moves and row[2][1].isdecimal()]
    ports = [row for row in ports if row[1][1] != row[2][1]]
    if kind == "ansible":  # the order of the hosts in an inventory decides the ids
        moves = [row for row in moves if row[1] not in new.values() and row[2] not in old.values()]
    every, limit = moves + ports, len(old) / 2
    words = {  # the first that is so
        "swapped": any(new_entry in old.values() for _, _, new_entry in every),
        "majority": len(moves) > limit,
        "ports": len(every) > limit and len(old) > 1,
        "moved": moves,
        "port": ports,
    }
    (old_ports, old_entries), (new_ports, entries) = (scope.controller_ports for scope in scopes)
    leaves = bool(old_ports & {*old_entries} and entries and not new_ports & {*entries})
    old_protocol, protocol = (scope.controller_protocol for scope in scopes)
    is_other = "" != old_protocol != protocol != ""
    is_quorum = change.after.role == "broker" or len(new) > 1
    rows = [(name, a, b, 1 + (a[1] != b[1])) for name, a, b in every]
    parts = [f"{name} from {':'.join(a[:n])} to {':'.join(b[:n])}" for name, a, b, n in rows]
    return {
        "voter_hosts": next((word for word, is_so in words.items() if is_so), "same"),
        "listener_port": ("agrees", "left", "majority")[leaves * (1 + (len(entries) > limit))],
        "controller_protocol_changes": NO_YES[is_quorum and is_other],
    }, {
        "moves": ", ".join(f"controller {part}" for part in parts),
        "controller_protocol": protocol,
        "controller_protocol_before": old_protocol,
    }


def _kraft(change: FileChange) -> str:
    """Return the kraft.version of the cluster, or of a new cluster by its settings: 0 with
    controller.quorum.voters, 1 with a dynamic quorum."""
    is_kraft, before = change.cluster.kraft, change.before
    value = before.known(of.KRAFT) if is_kraft is None else str(is_kraft)
    is_old = (before.number(of.VERSION) or of.DYNAMIC_FROM) < of.DYNAMIC_FROM
    names = before.settings.keys() & {of.VOTERS, of.SERVERS}
    value = "0" if value is None and names == {of.VOTERS} and is_old else value
    value = "1" if value is None and names == {of.SERVERS} else value
    return value if value in ("0", "1") else "unknown"


def _nodes(change: FileChange) -> tuple[Words, Words]:
    now, old_scope = change.after, change.before
    ids, names = now.node_ids, (of.NODE_ID, of.FIRST_ID)
    pairs = [(old_scope.known(n), now.known(n)) for n in now.settings if n.startswith(names)]
    pairs = [pair for pair in pairs if all(pair)]
    if now.kind != "ansible" or not pairs:  # in an inventory the host identifies the node
        pairs.append(("".join(old_scope.node_ids[:1]), "".join(ids[:1])))
    moved = [(old, new) for old, new in pairs if old and new and old != new]
    old_id, new_id = (moved or pairs)[0]
    folder, old_folder = ("".join(scope.log_dirs[:1]) for scope in (now, old_scope))
    if old_folder and now.kind == "properties" and not now.settings.keys() & {*of.LOG_DIRS}:
        folder = "/tmp/kafka-logs"  # the default of log.dir
    moves = NO_YES["" != old_folder != folder != ""]
    templates, repeated = list[str](), list[str]()
    for key, setting in now.settings.items():
        if not setting.is_known:
            (repeated if setting.value == of.TWICE else templates).append(key.split(" ")[0])
    connects = [scope.known(of.CONNECT) or "" for scope in (now, old_scope)]
    root, old_root = ("/" + text.partition("/")[2].rstrip("/") for text in connects)
    equal = sorted(node_id for node_id in ids if ids.count(node_id) > 1 and now.kind == "ansible")
    return {
        "mode": now.mode,
        "mode_before": old_scope.mode,
        "node": now.role,
        "node_before": old_scope.role,
        "controllers": _members(change, "controller"),
        "brokers": _members(change, "broker"),
        "ids_differ": NO_YES[not equal],
        "listener": _listener(now),
        "templates": NO_YES[bool(templates)],
        "twice": NO_YES[bool(repeated)],
        "zookeeper_root_moves": NO_YES[all(connects) and root != old_root],
        "strange_roles": NO_YES[not now.names(of.ROLES) <= of.MEMBERS.keys()],
        "node_id_changes": NO_YES[bool(moved)],
        "log_dir_moves": "order" if moves == "yes" and folder in old_scope.log_dirs else moves,
        "broker_id_differs": NO_YES[now.known(of.BROKER_ID) not in (None, now.known(of.NODE_ID))],
    }, {
        "node_id": new_id or "",
        "node_id_before": old_id or "",
        "equal_id": "".join(equal[:1]),
        "log_dir": folder,
        "log_dir_before": old_folder,
        "templates": ", ".join(dict.fromkeys(templates)),
        "twice": ", ".join(dict.fromkeys(repeated)),
        "zookeeper_root": root,
        "zookeeper_root_before": old_root,
    }


def _members(change: FileChange, role: str) -> str:
    """Return the change of the number of controllers or brokers as a word. `moved`: to other node
    pools; `dropped`: some pools no longer exist."""
    key, pools = of.MEMBERS[role]
    new_count, old_count = change.after.names(pools), change.before.names(pools)
    remaining = set[str]().union(*(change.after.names(names) for _, names in of.MEMBERS.values()))
    if new_count and old_count - new_count and (new_count - old_count or old_count - remaining):
        return "moved" if new_count - old_count else "dropped"
    return change.turn(key, lambda scope: scope.count(key))


def _listener(scope: Scope) -> str:
    """Return the first fault of a node's listeners that prevents its start, as a word."""
    role, keys = (
        scope.role,
        (of.LISTENERS, of.CONTROLLER_LISTENERS, of.PROTOCOLS, of.BETWEEN_BROKERS, of.ADVERTISED),
    )
    every = ({name.upper() for name in scope.names(key)} for key in keys)
    listeners, names, mapped, between, advertised = every
    has, texts = names & listeners, (scope.known(of.LISTENERS) or "").upper().split(",")
    public = {text.partition(":")[0].strip() for text in texts if "://0.0.0.0:" in text} - names
    faults = {
        "missing": role in ("controller", "both") and listeners and names and not has,
        "exposed": role == "broker" and has,
        "more": role == "controller" and has and listeners - names,
        "unmapped": mapped and (names | listeners | advertised) - mapped,
        "only": role == "both" and has and not listeners - names,
        "nowhere": role != "controller" and public and of.ADVERTISED not in scope.settings,
        "between": role != "controller" and between & names,
        "unnamed": role != "controller" and listeners and between - listeners,
    }
    return next((word for word, is_so in faults.items() if is_so), "fine")


def _first(reasons: Sequence[str]) -> str:
    """Return the first distinct reasons as text, and the number of the other reasons."""
    known = list(dict.fromkeys(reasons))
    return " ".join([*known[:MOST], *[f"And {len(known) - MOST} more."] * (len(known) > MOST)])
