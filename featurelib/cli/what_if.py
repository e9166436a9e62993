"""`featurelib what-if`: the verdicts if nodes ran other software, were gone or came."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Annotated

import typer

from featurelib.cli.asked import Asked, ask
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.common import ASKED, with_options
from featurelib.cli.election_text import election_document
from featurelib.cli.plan_source import Wanted
from featurelib.cli.reach import ClusterName
from featurelib.cli.what_if_text import what_if_lines
from featurelib.cli.why_not import level_asked
from featurelib.errors import ConfigError
from featurelib.questions.muted import as_json, over_row
from featurelib.questions.what_if import Changes, Refused, WhatIf, what_if
from featurelib.sight import Sight
from featurelib.view.layout import terminal_width

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
    catalogue, width = asked.terms.catalogue, terminal_width()
    mutes = asked.source.muted
    for line in what_if_lines(found, said, name, made_from, catalogue, width, mutes):
        print(line)


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
