"""`featurelib why-not`: every proof against one level of one feature, and the way out."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated

import typer

from featurelib.audit.cluster_view import Sight
from featurelib.catalogue import Catalogue
from featurelib.catalogue.releases import ANY
from featurelib.cli.asked import Asked, ask
from featurelib.cli.options import (
    ASKED,
    EVIDENCE,
    LEVELS,
    ClusterName,
    Json,
    OverlayFile,
    find_source,
    open_catalogue,
    with_options,
)
from featurelib.core.batch import NOT_HERE
from featurelib.errors import ConfigError, UnreachableError
from featurelib.feature import METADATA_VERSION
from featurelib.model import Proof
from featurelib.planning.goal import read_level, software_of
from featurelib.questions.describe import Description, describe
from featurelib.questions.muted import as_json, over_reason, over_row
from featurelib.questions.roll import First, Roll, WayBack, roll
from featurelib.questions.what_if import Changes, Refused, WhatIf, what_if
from featurelib.questions.why_not import WhyNot, why_not
from featurelib.source import NEWEST, Source, Wanted
from featurelib.view.describe import describe_page
from featurelib.view.election import election_document
from featurelib.view.layout import iso_moment
from featurelib.view.roll import roll_page
from featurelib.view.what_if import what_if_page
from featurelib.view.why_not import Places, why_not_page
from featurelib.words import clean

WHY_NOT_VERSION = 1  # of the JSON output

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[CLUSTER] FEATURE=LEVEL",
        help="Id or name of the cluster (not with --capture or addresses), and the level asked "
        "about: a number or, of metadata.version, a name as 3.9-IV0.",
    ),
]


@with_options(wanted=ASKED)
def why_not_command(
    words: Words,
    wanted: Wanted,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """Why a level cannot be finalized, and what helps.

    All the proof, and the smallest change that unlocks it:

    \b
        featurelib why-not payments-eu metadata.version=4.1
        featurelib why-not ghost-broker metadata.version=27 --tables build/samples/tables
        featurelib why-not payments-eu transaction.version=2 --json

    Kafka names the first node that is in the way. Here every node is named, with the range it
    supports, when that was seen and in which landing line; every rule, and who asks it: the policy,
    and each generation of controllers that may answer. What nobody knows is said apart. A level
    below the finalized one is judged as a downgrade that loses nothing.

    The answer is read from the nightly's tables, from landing files, or by looking at the cluster.
    Exit codes: 0 answered, also where the level is blocked; 2 usage; 5 no evidence.
    """
    cluster, feature, text = _split(words)
    catalogue = open_catalogue(overlay)
    asked = ask(replace(wanted, cluster=cluster), catalogue)
    sight = asked.source.sight
    found = why_not(sight, feature, level_asked(sight, feature, text, catalogue), catalogue)
    places = asked.places((p.line_id, p.seen_at) for p in (*found.proofs, *found.unknown))
    if as_json:
        print(json.dumps(_why_not_document(found, asked, places), ensure_ascii=False))
    else:
        source = asked.source
        print(
            why_not_page(
                found, asked.name, asked.ways, source.made_from, places, catalogue, source.muted
            )
        )
    return 0


def level_asked(sight: Sight, feature: str, text: str, catalogue: Catalogue) -> int:
    """The level that FEATURE=LEVEL means. Raises ConfigError for a feature or level that nobody
    knows."""
    cluster = sight.cluster
    listed = {name for node in cluster.nodes for name in node.supported}
    known = sorted({*listed, *cluster.finalized, *catalogue.features})
    if feature not in known:
        near = get_close_matches(feature, known, n=3, cutoff=0.4) or known[:8]
        raise ConfigError(
            f"{feature}={text}: expected a feature that a node or the catalogue knows, found none "
            f"of that name; the nearest are {', '.join(map(clean, near))}."
        )
    level = read_level(feature, text, cluster, catalogue)
    if level is None or level not in LEVELS:
        if feature == METADATA_VERSION and (newer := catalogue.of(ANY).level_of(text)) is not None:
            runs = f"the controller runs {cluster.release} and does not know {text}"
            if software_of(cluster, catalogue) is None:
                runs = "which release the controller runs is not known"
            name = catalogue.level_name(feature, newer)
            raise ConfigError(
                f"{feature}={text}: expected a release that the controller knows, found another: "
                f"{runs}. Write {name} or {newer}."
            )
        raise ConfigError(
            f"{feature}={text}: expected a level as a number up to {LEVELS[-1]} or, of "
            "metadata.version, a name or release, as 3.9-IV0 or 4.1; found neither. "
            "`featurelib version-mapping` lists the names."
        )
    return level


def _split(words: list[str]) -> tuple[str | None, str, str]:
    """The cluster, the feature, and the level as it was written. Raises ConfigError."""
    feature, sign, level = words[-1].partition("=")
    if not (sign and feature and level) or len(words) > 2:
        raise ConfigError(
            f"{' '.join(words)}: expected [CLUSTER] FEATURE=LEVEL, as payments-eu "
            f"metadata.version=4.1, found {words[-1] if len(words) < 3 else len(words)!r}"
            f"{' words' if len(words) > 2 else ''}."
        )
    return words[0] if len(words) == 2 else None, feature, level


_PROOF_KEYS = (
    *("judge", "rule", "source", "feature", "level", "message", "node", "role", "node_id"),
    *("needed", "is_answer", "seen_at", "line_id", "remedy", "command"),
)


def _why_not_document(found: WhyNot, asked: Asked, places: Places) -> dict[str, object]:
    def proof(one: Proof) -> dict[str, object]:
        low, high = one.supported or (None, None)
        said = {name: getattr(one, name) for name in _PROOF_KEYS}
        said |= {"seen_at": iso_moment(one.seen_at), "min_version": low}
        said |= {"max_version": high, "line": places.get(one.line_id)}
        return said | as_json(over_reason(asked.source.muted, one))

    way = found.unlock
    return {
        "version": WHY_NOT_VERSION,
        "cluster": found.cluster_id,
        "name": asked.source.entry.title or None,
        "made_from": asked.source.made_from,
        "feature": found.feature,
        "level": found.level,
        "finalized_level": found.current,
        "answer": found.answer,
        "moves": [{"feature": name, "level": level} for name, level in found.moves],
        "dialects": found.dialects,
        "proofs": [proof(one) for one in found.proofs],
        "unknown": [proof(one) for one in found.unknown],
        "agreed": None if found.agreed is None else proof(found.agreed),
        "unlock": None
        if way is None
        else {
            "release": way.release or None,
            "fixes": [
                {"role": fix.role.text, "node_id": fix.node_id, "action": fix.action}
                for fix in way.fixes
            ],
            "only_own_controllers": [
                {"role": role.text, "node_id": node_id} for role, node_id in found.also_refused_over
            ],
            "rules": way.also,
        },
        "plan": found.words or None,
    }


# ----------------------------------------
# `featurelib what-if`: the verdicts if nodes ran other software, were gone or came.

VERSION = 1  # of the JSON output
_NODE = re.compile("[0-9]{1,10}")

Nodes = Annotated[
    list[str],
    typer.Option("--node", metavar="ID=RELEASE", help="A node runs that release; repeatable."),
]
Removed = Annotated[
    list[int],
    typer.Option("--remove", metavar="ID", help="A node is gone for good; repeatable."),
]
Added = Annotated[
    list[str],
    typer.Option("--add", metavar="ID=RELEASE", help="A new broker comes; repeatable."),
]
Release = Annotated[
    str | None,
    typer.Option("--release", metavar="RELEASE", help="All nodes that run are of that release."),
]
Finalized = Annotated[
    list[str],
    typer.Option(
        "--finalize",
        metavar="FEATURE=LEVEL",
        help="A feature is finalized at that level, 0 = not at all; repeatable.",
    ),
]
ProtocolVersion = Annotated[
    str | None,
    typer.Option(
        "--ibp",
        metavar="VERSION",
        help="A controller is elected, and every broker runs with that "
        "inter.broker.protocol.version (ZooKeeper mode).",
    ),
]


@with_options(wanted=ASKED)
def what_if_command(
    *,
    cluster: ClusterName = None,
    nodes: Nodes = [],  # noqa: B006  # typer reads the default and never changes it
    removed: Removed = [],  # noqa: B006
    added: Added = [],  # noqa: B006
    release: Release = None,
    finalized: Finalized = [],  # noqa: B006
    protocol_version: ProtocolVersion = None,
    wanted: Wanted,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """The verdicts if nodes or levels were others.

    If nodes ran other software, were gone, or came:

    \b
        featurelib what-if payments-eu --node 7=4.1.2 --remove 9
        featurelib what-if payments-eu --release 4.2
        featurelib what-if payments-eu --add 10=4.2 --finalize metadata.version=4.1
        featurelib what-if ghost-broker --remove 2 --tables build/samples/tables
        featurelib what-if old-cluster --ibp 2.6

    The evidence is changed as the nodes' own answers would change it, and judged again as the
    nightly judges. A node advertises what production software of its release does. Whether it may
    join is asked of every generation of controllers that may lead now; one that may not does not
    come. Only what differs is shown. Nothing is sent, and no table is written.

    --ibp is for ZooKeeper mode: what the next elected controller makes of the features node when
    every broker runs with that inter.broker.protocol.version, after all other changes. Below 2.7
    it disables the node, and every finalized level is lost. It is known for 2.7 to 3.9, and said
    for each dialect that may lead (zk-2.7: 2.7 to 3.2; zk-3.3: 3.3 to 3.9).

    Exit codes: 0 answered; 2 usage; 5 no evidence.
    """
    catalogue = open_catalogue(overlay)
    if not (nodes or removed or added or release or finalized or protocol_version is not None):
        raise ConfigError(
            "expected a change, found none. Give --node ID=RELEASE, --remove ID, --add ID=RELEASE, "
            "--release RELEASE, --finalize FEATURE=LEVEL or --ibp VERSION."
        )
    asked = ask(replace(wanted, cluster=cluster), catalogue)
    sight = asked.source.sight
    changes = Changes(
        nodes=_releases("--node", nodes),
        removed=tuple(dict.fromkeys(removed)),
        added=_releases("--add", added),
        release=release,
        finalized=_levels(sight, finalized, asked),
        protocol_version=protocol_version,
    )
    _show(what_if(sight, changes, asked.terms), changes, asked, as_json=as_json)
    return 0


def _show(found: WhatIf, changes: Changes, asked: Asked, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_document(found, asked), default=str, ensure_ascii=False))
        return
    name, made_from, said = asked.name, asked.source.made_from, say_changes(changes)
    catalogue, mutes = asked.terms.catalogue, asked.source.muted
    print(what_if_page(found, said, name, made_from, catalogue, mutes))


def _releases(option: str, texts: list[str]) -> dict[int, str]:
    """`ID=RELEASE` texts by node id. Raises ConfigError for what is none, or comes twice."""
    found: dict[int, str] = {}
    for text in texts:
        node, _, release = text.partition("=")
        if not (release and _NODE.fullmatch(node)) or int(node) >= 2**31:
            raise ConfigError(f"{option} {text}: expected ID=RELEASE, as 7=4.1.2, found {text!r}.")
        if int(node) in found:
            raise ConfigError(f"{option} {text}: expected node {node} once, found it twice.")
        found[int(node)] = release
    return found


def _levels(sight: Sight, texts: list[str], asked: Asked) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, _, level = text.partition("=")
        if not (name and level) or name in found:
            raise ConfigError(
                f"--finalize {text}: expected FEATURE=LEVEL, each feature once, as "
                f"group.version=1, found {text!r}."
            )
        found[name] = level_asked(sight, name, level, asked.terms.catalogue)
    return found


def say_changes(changes: Changes) -> str:
    """The change as a clause after `if`."""
    parts = [f"node {node} runs {release}" for node, release in changes.nodes.items()]
    parts += [f"node {node} is gone" for node in changes.removed]
    parts += [f"broker {node} of {release} comes" for node, release in changes.added.items()]
    if changes.release is not None:
        others = " other" if changes.nodes else ""
        parts.append(f"every{others} node that runs is of {changes.release}")
    parts += [f"{name} is finalized at {level}" for name, level in changes.finalized.items()]
    if changes.protocol_version is not None:
        version = changes.protocol_version
        parts.append(f"a controller is elected at inter.broker.protocol.version {version}")
    return ", ".join(parts)


def _document(found: WhatIf, asked: Asked) -> dict[str, object]:
    def side(sight: Sight) -> dict[str, object]:
        row = sight.judged.plans.to_pylist()[0]
        return {name: row[name] for name in ("verdict", "phase", "may_join", "may_join_after")}

    def refusal(one: Refused) -> dict[str, object]:
        return asdict(one) | {"role": one.role.text}

    return {
        "version": VERSION,
        "cluster": found.before.cluster_id,
        "name": asked.source.entry.title or None,
        "made_from": asked.source.made_from,
        "before": side(found.before),
        "after": side(found.after),
        "features": [asdict(turn) for turn in found.turns],
        "unchanged": found.unchanged,
        "new": [row | as_json(over_row(asked.source.muted, row)) for row in found.new],
        "gone": [row | as_json(over_row(asked.source.muted, row)) for row in found.gone],
        "joined": found.joined,
        "refused": [refusal(one) for one in found.refused],
        "not_running": found.idle,
        "election": None if found.election is None else election_document(found.election),
    }


# ----------------------------------------
# `featurelib roll`: may software of a release join, and may one roll back afterwards.

ROLL_VERSION = 1  # of the JSON output


@with_options(wanted=ASKED)
def roll_command(
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="RELEASE", help="The software to roll to, as 4.2.")
    ],
    cluster: ClusterName = None,
    wanted: Wanted,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """May a release join now, and be rolled back later?

    \b
        featurelib roll payments-eu --to 4.2
        featurelib roll k42-dynamic --to 4.1 --tables build/samples/tables
        featurelib roll payments-eu --to 4.0 --json

    Every node is tried with the ranges that production software of the release advertises, by every
    generation of controllers that may lead now, in Kafka's words. If levels have to go down or up
    first, the plan of it is shown, or why there is none. Said is also whether the software that
    runs now may come back: right after the roll, and once what the release brings is finalized;
    and from which level on it may not. Nothing is sent.

    Exit codes: 0 answered, also where it may not join; 2 usage; 5 no evidence.
    """
    catalogue = open_catalogue(overlay)
    asked = ask(replace(wanted, cluster=cluster), catalogue)
    found = roll(asked.source.sight, to, asked.terms)
    if as_json:
        print(json.dumps(_roll_document(found, asked), ensure_ascii=False))
    else:
        print(roll_page(found, asked.name, asked.source.made_from, catalogue))
    return 0


def _roll_document(found: Roll, asked: Asked) -> dict[str, object]:
    return {
        "version": ROLL_VERSION,
        "cluster": found.cluster_id,
        "name": asked.source.entry.title or None,
        "made_from": asked.source.made_from,
        "release": found.release,
        "mode": found.mode,
        "may_join": found.may_join,
        "finalized": found.levels,
        "finalized_known": found.levels_known,
        "misfits": [asdict(one) for one in found.misfits],
        "only_with_unstable_features": found.only_unstable,
        "refused": [asdict(one) | {"role": one.role.text} for one in found.refused],
        "first": [_first(one) for one in found.first],
        "joins_now": found.joins_now,
        "way_back": None if found.way_back is None else _way_back(found.way_back),
    }


def _way_back(way: WayBack) -> dict[str, object]:
    return {
        "brings": way.brings,
        "joins_after_finalizing": way.joins_after,
        "back": [asdict(one) for one in way.back],
        "downgrade_floor": _level(way.floor),
        "point_of_no_return": _level(way.no_return),
    }


def _level(level: int) -> int | None:
    return None if level == NOT_HERE else level


def _first(first: First) -> dict[str, object]:
    planned = first.planned
    steps = planned.plan.steps if planned.plan is not None else ()
    return {
        "intent": planned.intent.text,
        "steps": [asdict(step) for step in steps],
        "refusals": [asdict(reason) for reason in planned.refusals],
    }


# ----------------------------------------
# `featurelib describe`: all nodes of one cluster, what each supports, and what is finalized.
#
# Kafka's own tool asks one node and shows its view. Here everybody is asked, and whoever
# contradicts
# or is silent is shown.

DESCRIBE_VERSION = 1  # of the JSON output


@with_options(wanted=EVIDENCE.without("as_of"))
def describe_command(
    wanted: Wanted,
    cluster: ClusterName = None,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """Every node of a cluster, and what is finalized.

    Who is there, and what each supports.

    Every listener is asked, and nothing is changed. Equal nodes stand together; a range that does
    not hold the finalized level is marked. Exit codes: 0 done; 2 usage; 5 nothing answered.

    \b
        featurelib describe payments-eu
        featurelib describe --bootstrap kafka-1.example:9092
        featurelib describe --capture landing/payments-eu.jsonl --json
    """
    catalogue = open_catalogue(overlay)
    stored = wanted.capture is not None or wanted.tables is not None
    as_of = NEWEST if stored else None  # ages are for the audit
    if wanted.tables is not None:
        from featurelib.cli.asked import usual_tables

        wanted = replace(wanted, fleet=usual_tables(wanted.tables, wanted.fleet)[1])
    source = find_source(replace(wanted, cluster=cluster, as_of=as_of), catalogue)
    described = describe(source.sight, catalogue)
    if as_json:
        print(json.dumps(_describe_document(described, source), ensure_ascii=False))
    else:
        print(describe_page(described, source.entry, source.made_from))
    return 0 if described.answered else UnreachableError.exit_code


def _describe_document(described: Description, source: Source) -> dict[str, object]:
    """The description as JSON; profiles are named by their position."""
    entry = source.entry
    said: dict[str, object] = asdict(described)
    said["profiles"] = [
        {name: {"min_version": low, "max_version": high} for name, (low, high) in ranges.items()}
        for ranges in described.profiles
    ]
    said["seen_at"] = _time(described.seen_at)
    said["nodes"] = [
        asdict(node) | {"seen_at": None if node.seen_at is None else _time(node.seen_at)}
        for node in described.nodes
    ]
    said["witnesses"] = [asdict(w) | {"seen_at": _time(w.seen_at)} for w in described.witnesses]
    about = {"name": entry.title or None, "owner": entry.owner or None}
    about |= {"managed_by": entry.managed_by or None, "made_from": source.made_from}
    return {"version": DESCRIBE_VERSION, **about, **said}


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
