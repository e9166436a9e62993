"""Whose it is to finalize a feature, where it is not ours, and how it is changed there.

The plan says it, as it was decided where it was made, and so does the inventory (`managed_by`,
`managed_features`): what either calls managed is never sent a request, since its owner would put
back what we wrote, or fail over it. The other features of such a cluster are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.errors import RefusedError
from featurelib.feature import METADATA_VERSION
from featurelib.model import Guards, Move, Plan

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


def expect_plan_ours(plan: Plan, fleet: Fleet, catalogue: Catalogue) -> None:
    """Raises RefusedError where the plan or the inventory says that somebody else finalizes what
    the plan moves, with that owner's commands and the one that plans the rest."""
    last = {move.feature: move for move in plan.moves}
    expect_ours(plan.cluster, last, fleet, catalogue, plan.guards)


def expect_ours(
    cluster: str,
    updates: Mapping[str, Move],
    fleet: Fleet,
    catalogue: Catalogue,
    guards: Guards | None = None,
) -> None:
    """The same of single updates, by feature; `guards` are the plan's."""
    entry = next((one for one in fleet.cluster if one.id == cluster), FleetEntry(id=cluster))
    here = Guards(
        require_signature=False, managed_by=entry.managed_by, managed_features=entry.managed
    )
    theirs: dict[tuple[str, str], list[Move]] = {}
    for name, update in updates.items():
        for rule, where in ((here, "the inventory"), (guards, "the plan")):
            if rule is not None and rule.manages(name):
                theirs.setdefault((rule.managed_by, where), []).append(update)
                break
    if not theirs:
        return
    managed = {update.feature for found in theirs.values() for update in found}
    said = "; ".join(
        f"{', '.join(sorted(update.feature for update in found))}, managed by {owner} "
        f"(managed_by in {where})"
        for (owner, where), found in theirs.items()
    )
    how = [
        text
        for (owner, _), found in theirs.items()
        for text in _ways(owner, found, entry, catalogue)
    ]
    rest = [update for name, update in updates.items() if name not in managed]
    raise RefusedError(
        f"cluster {entry.title} ({cluster}): expected features that we finalize, found {said}. "
        f"Nothing was sent. {' '.join(how)}{_rest(rest, entry)}"
    )


def _ways(
    owner: str, updates: Sequence[Move], entry: FleetEntry, catalogue: Catalogue
) -> Iterator[str]:
    """The owner's command for what it moves, filled in, or whom to ask where none is known."""
    moved, command = COMMANDS.get(owner.casefold(), ("", ""))
    known = [update for update in updates if moved in (None, update.feature)]
    if known:
        level = catalogue.level_name(known[0].feature, known[0].to_level)
        yield f"Use its command: {command.format(name=quote(entry.title), level=level)}"
    if len(known) < len(updates):
        asked = " ".join(text for text in (entry.owner, entry.contact) if text)
        yield f"Change levels through {owner}" + (f"; ask {asked}." if asked else ".")


def _rest(updates: Sequence[Move], entry: FleetEntry) -> str:
    """The command that plans what is ours of a plan that was refused."""
    if not updates:
        return ""
    moves = " ".join(
        f"--delete {quote(move.feature)}"
        if move.to_level == 0
        else f"--{'up' if move.is_upgrade else 'down'}grade "
        f"{quote(f'{move.feature}:{move.to_level}')}"
        for move in updates
    )
    return f"\nThe rest is ours: featurelib plan {quote(entry.title)} update {moves}"
