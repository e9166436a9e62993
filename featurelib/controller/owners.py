"""Whose it is to finalize a feature, where it is not ours, and how it is changed there.

The plan says it, as it was decided where it was made, and so does the inventory (`managed_by`,
`managed_features`): what either calls managed is never sent a request, since its owner would put
back what we wrote, or fail over it. The other features of such a cluster are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from shlex import quote

from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.errors import RefusedError
from featurelib.feature import METADATA_VERSION
from featurelib.model import Guards, Move

# How levels are changed there, and which features that moves, None = as far as known all. Strimzi:
# Kafka resource, spec.kafka.metadataVersion; MSK: the AWS command line raises the Kafka version.
COMMANDS = {
    "strimzi": (
        METADATA_VERSION,
        "kubectl patch kafka {name} --type merge --patch "
        """'{{"spec":{{"kafka":{{"metadataVersion":"{level}"}}}}}}'""",
    ),
    "msk": (
        None,
        "aws kafka update-cluster-kafka-version --cluster-arn ARN --current-version VERSION "
        "--target-kafka-version RELEASE",
    ),
}


def expect_ours(
    cluster: str,
    moves: Iterable[Move],
    fleet: Fleet,
    catalogue: Catalogue,
    guards: Guards | None = None,
) -> None:
    """Raises RefusedError where the inventory, or the `guards` of a plan, say that somebody else
    finalizes what is to move, with that owner's commands and the one that plans the rest."""
    entry = fleet.of(cluster, FleetEntry(id=cluster))
    here = Guards(
        require_signature=False, managed_by=entry.managed_by, managed_features=entry.managed
    )
    theirs, rest = dict[tuple[str, str], list[Move]](), list[Move]()
    for move in {move.feature: move for move in moves}.values():  # where each goes in the end
        rules = ((here, "the inventory"), (guards, "the plan"))
        who = [(one.managed_by, where) for one, where in rules if one and one.manages(move.feature)]
        (theirs.setdefault(who[0], []) if who else rest).append(move)
    if not theirs:
        return
    said = "; ".join(
        f"{', '.join(sorted(move.feature for move in found))}, managed by {owner} "
        f"(managed_by in {where})"
        for (owner, where), found in theirs.items()
    )
    ways = (_ways(owner, found, entry, catalogue) for (owner, _), found in theirs.items())
    ours = " ".join(map(_option, rest))
    plan = f"\nThe rest is ours: featurelib plan {quote(entry.title)} update {ours}"
    raise RefusedError(
        f"cluster {entry.title} ({cluster}): expected features that we finalize, found {said}. "
        f"Nothing was sent. {' '.join(chain.from_iterable(ways))}{plan if rest else ''}"
    )


def _ways(
    owner: str, moves: Sequence[Move], entry: FleetEntry, catalogue: Catalogue
) -> Iterator[str]:
    """The owner's command for what it moves, filled in, or whom to ask where none is known."""
    moved, command = COMMANDS.get(owner.casefold(), ("", ""))
    known = [move for move in moves if moved in (None, move.feature)]
    if known:
        level = catalogue.level_name(known[0].feature, known[0].to_level)
        yield f"Use its command: {command.format(name=quote(entry.title), level=level)}"
    if len(known) < len(moves):
        asked = " ".join(text for text in (entry.owner, entry.contact) if text)
        yield f"Change levels through {owner}" + (f"; ask {asked}." if asked else ".")


def _option(move: Move) -> str:
    """What plans this update, as an option of `featurelib plan CLUSTER update`."""
    if move.to_level == 0:
        return f"--delete {quote(move.feature)}"
    way = "upgrade" if move.is_upgrade else "downgrade"
    return f"--{way} {quote(f'{move.feature}:{move.to_level}')}"
