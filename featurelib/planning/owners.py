"""Split a plan into our moves and those of the cluster's owner, with the owner's command.

Plan and inventory name the managed features (`managed_by`, `managed_features`). featurelib never
plans or sends a managed feature: the owner would revert the level, or fail. featurelib plans the
other features of the cluster; features that need a level of the owner wait for a later plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from shlex import quote

import msgspec

from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.errors import RefusedError
from featurelib.feature import METADATA_VERSION
from featurelib.findings import code_of, finding_rows
from featurelib.model import Guards, Move, Step
from featurelib.planning.requirements import features_of, guards_of
from featurelib.words import clean, level_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSplit:
    """The parts of a plan. `ours`: featurelib can send it now; `theirs`: the owner's changes;
    `later`: ours, after the owner's."""

    ours: tuple[Step, ...]
    theirs: tuple[Move, ...] = ()
    later: tuple[Move, ...] = ()


NOTHING = PlanSplit(ours=())


def share(
    steps: Sequence[Step], guards: Guards | None, levels: Mapping[str, int], catalogue: Catalogue
) -> PlanSplit:
    """Split a plan's steps into featurelib's and the owner's. `levels`: the finalized levels."""
    owned = {name for name in features_of(steps) if guards is not None and guards.manages(name)}
    if not owned:
        return PlanSplit(ours=tuple(steps))
    moves = dict[str, Move]()
    for move in (move for step in steps for move in step.updates):
        first = moves.get(move.feature, move)  # the first of several moves of a feature
        moves[move.feature] = replace(move, from_level=first.from_level)
    later = _waiting(moves, owned, levels, catalogue)
    owners_moves = [move for name, move in moves.items() if name in owned]
    waiting = [move for name, move in moves.items() if name in later]
    return PlanSplit(
        ours=tuple(_without(owned | later, steps)), theirs=tuple(owners_moves), later=tuple(waiting)
    )


def _waiting(
    moves: Mapping[str, Move], owned: set[str], levels: Mapping[str, int], catalogue: Catalogue
) -> set[str]:
    """Return the features whose changes wait for the owner: they depend on a level that the owner
    finalizes."""
    ends = {name: (move.from_level, move.to_level) for name, move in moves.items()}
    later = catalogue.not_yet_defaults(ends) - owned if METADATA_VERSION in owned else set[str]()
    while True:
        unowned = {n: other.to_level for n, other in moves.items() if n not in owned | later}
        unmet = catalogue.whole.unmet({**levels, **unowned})
        waiting = {d.feature for d in unmet if d.feature in unowned and d.other in owned | later}
        if not waiting:
            return later
        later |= waiting


def _without(features: set[str], steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps without the updates of `features`. Empty steps are omitted."""
    for step in steps:
        if updates := tuple(move for move in step.updates if move.feature not in features):
            yield replace(step, updates=updates)


def owner_command(moves: Sequence[Move], entry: FleetEntry, catalogue: Catalogue) -> str:
    """Return the owner's command for these level changes, quoted for a shell; "" = unknown."""
    write, moves_known = COMMANDS.get(entry.managed_by.casefold()), _known(moves, entry.managed_by)
    return write(moves_known[-1], entry, catalogue) if write and moves_known else ""


def _known(moves: Sequence[Move], owner: str) -> list[Move]:
    """Return the level changes that this type of owner can make."""
    managed = FleetEntry(id="", managed_by=owner).managed
    return [move for move in moves if managed is None or move.feature in managed]


def _kubectl(move: Move, entry: FleetEntry, catalogue: Catalogue) -> str:
    """Return the command that sets spec.kafka.metadataVersion in Strimzi's Kafka resource."""
    space, _, name = entry.managed_as.rpartition("/")
    return finding_rows()[code_of("unpinned")].command.format(
        namespace=quote(space or "NAMESPACE"),
        name=quote(name or entry.title),
        version=catalogue.level_name(move.feature, move.to_level),
    )


# The command of each owner that changes levels, or the contact if there is no command.
COMMANDS = {"strimzi": _kubectl}
ADVICE = {"msk": "On MSK levels follow the Kafka version. Ask its support about one that did not."}


def whom_to_ask(owner: str, entry: FleetEntry) -> str:
    """Return a sentence with the contact for a change, used if the owner has no known command."""
    contact = " ".join(text for text in (entry.owner, entry.contact) if text)
    text = f"Change levels through {owner}" + (f"; ask {contact}." if contact else ".")
    return f"{text} {ADVICE.get(owner.casefold(), '')}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOver:
    """The level changes that a plan leaves to its owner or a later plan: sentence and command."""

    text: str
    command: str = ""

    @property
    def line(self) -> str:
        """The sentence and the command, in one line."""
        return f"{self.text} {self.command}".rstrip()


def left_over(shares: PlanSplit, entry: FleetEntry, catalogue: Catalogue) -> Iterator[LeftOver]:
    """Yield a sentence, with the owner's command, for the owner's changes; and one for waiting
    changes."""
    owner = clean(entry.managed_by)
    if shares.theirs:
        moves = ", ".join(
            f"{clean(move.feature)} {level_text(catalogue, move.feature, move.from_level)} → "
            f"{level_text(catalogue, move.feature, move.to_level)}"
            for move in shares.theirs
        )
        command = owner_command(shares.theirs, entry, catalogue)
        advice = "Its command:" if command else clean(whom_to_ask(owner, entry), 400)
        # The owner's move changes levels that featurelib's plan requires to stay.
        hint = " Apply featurelib's plan first: it fits today's levels." if shares.ours else ""
        text = f"{owner} finalizes {moves}; featurelib does not.{hint} {advice}"
        yield LeftOver(text=text, command=command)
    if shares.later:
        names = ", ".join(clean(move.feature) for move in shares.later)
        yield LeftOver(text=f"Once {owner} has done so, make a new plan for the rest: {names}.")


def expect_ours(
    cluster: str,
    moves: Iterable[Move],
    fleet: Fleet,
    catalogue: Catalogue,
    guards: Guards | None = None,
    options: str = "",
) -> None:
    """Raise RefusedError if the inventory or `guards` assign a level change to an owner. The error
    has the owner's commands and the plan command for the other changes, with `options`."""
    entry = fleet.of(cluster, FleetEntry(id=cluster))
    entry_guards = guards_of(entry)
    owned, moves_kept = dict[tuple[str, str], list[Move]](), list[Move]()
    for move in {move.feature: move for move in moves}.values():  # the final level of each feature
        rules = ((entry_guards, "the inventory"), (guards, "the plan"))
        managers = [(g.managed_by, index) for g, index in rules if g and g.manages(move.feature)]
        (owned.setdefault(managers[0], []) if managers else moves_kept).append(move)
    if not owned:
        return
    words = "; ".join(
        f"{', '.join(sorted(move.feature for move in own))}, managed by {owner} "
        f"(managed_by in {index})"
        for (owner, index), own in owned.items()
    )
    actions = (_owner_actions(owner, own, entry, catalogue) for (owner, _), own in owned.items())
    args = " ".join(map(option_of, moves_kept))
    plan = f"\nPlan the others: featurelib plan {quote(entry.argument)} update {args}{options}"
    raise RefusedError(
        f"cluster {entry.title} ({cluster}): featurelib does not finalize {words}. Nothing was "
        f"sent. {' '.join(chain.from_iterable(actions))}{plan if moves_kept else ''}"
    )


def _owner_actions(
    owner: str, moves: Sequence[Move], entry: FleetEntry, catalogue: Catalogue
) -> Iterator[str]:
    """Yield the owner's command for its level changes, or the contact if the command is unknown."""
    # The plan may have an owner that the inventory lacks.
    owned = msgspec.structs.replace(entry, managed_by=owner)
    if command := owner_command(moves, owned, catalogue):
        yield f"Use its command: {command}"
    if not command or len(_known(moves, owner)) < len(moves):
        yield whom_to_ask(owner, entry)


def option_of(move: Move) -> str:
    """Return the option of `featurelib plan CLUSTER update` for this level change."""
    if move.to_level == 0:
        return f"--delete {quote(move.feature)}"
    kind = "upgrade" if move.is_upgrade else "downgrade"
    return f"--{kind} {quote(f'{move.feature}:{move.to_level}')}"
