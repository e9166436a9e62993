"""What the finalized minimums become: question (e) of the core (M5).

By KIP-584's text the highest minimum that any live broker supports is finalized, which deprecates
all levels below it; no release has ever done that. From 2.7 to 3.2 an update of a feature stores
the controller's own minimum, which can only keep or lower it. Before a minimum rises, a person must
have checked that no client uses what goes away: no cluster knows that.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from featurelib.core.answer import Outcome
from featurelib.core.batch import Batch, Flags, Levels
from featurelib.core.dialect import Dialect
from featurelib.core.rules import RULES
from featurelib.core.standing import Members, Standing

CHECK_CLIENTS = "check_clients"
SOURCE = "KIP-584, Feature version deprecation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimums:
    """Finalized minimums before and after, and what a person has to see to. [C, F]"""

    before: Levels  # 0 = none
    after: Levels
    check_clients: Flags  # the minimum rises: levels below it go away
    impossible: Flags  # it would rise above the level, so it stays as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Something only a person can see to before minimums rise."""

    code: str
    feature: str
    first_lost: int  # levels first_lost..last_lost cannot be used any more
    last_lost: int
    text: str
    source: str = SOURCE


def minimums_by_text(standing: Standing, members: Members) -> Minimums:
    """What KIP-584 wants: per feature the highest minimum any live broker supports, never less than
    what is finalized. A feature that no live broker lists stays as it is."""
    least = np.zeros_like(standing.minimum)
    live = np.flatnonzero(members.live)
    profile = members.profile[live]
    lists = standing.ranges.lists[profile]
    np.maximum.at(
        least, members.cluster[live], np.where(lists, standing.ranges.min_version[profile], 0)
    )
    before = np.where(standing.finalized, standing.minimum, 0)
    above = RULES["below_finalized_min"].ask(
        SimpleNamespace(level=standing.level, finalized_min=least)
    )
    impossible = above & standing.finalized
    rises = standing.finalized & ~impossible & (least > before)
    return Minimums(
        before=before,
        after=np.where(rises, least, before),
        check_clients=rises,
        impossible=impossible,
    )


def minimums_by_update(batch: Batch, outcome: Outcome, dialect: Dialect) -> Minimums:
    """What an update really does to them (KafkaController.updateFeatures of 2.7 to 3.2).

    Where the schema has no minimums the stored one is the level again, and says nothing of clients.
    """
    before, after = batch.state.minimum, outcome.after_min
    means_something = dialect.can.stores_min == "local"
    return Minimums(
        before=before,
        after=after,
        check_clients=(before > 0) & (after > before) & means_something,
        impossible=np.zeros(before.shape, dtype=bool),
    )


def requirements(
    minimums: Minimums, names: tuple[str, ...], cluster: int
) -> tuple[Requirement, ...]:
    """What a person must have seen to in one cluster, by the order of the features."""
    found = []
    for feature in np.flatnonzero(minimums.check_clients[cluster]).tolist():
        low = int(minimums.before[cluster, feature])
        high = int(minimums.after[cluster, feature]) - 1
        name = names[feature]
        levels = f"level {low}" if low == high else f"levels {low} to {high}"
        found.append(
            Requirement(
                code=CHECK_CLIENTS,
                feature=name,
                first_lost=low,
                last_lost=high,
                text=f"Check that no client uses {levels} of {name} any more; "
                "the cluster does not know, ask the clients' own metrics.",
            )
        )
    return tuple(found)
