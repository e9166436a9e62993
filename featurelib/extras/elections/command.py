"""`featurelib election`: what the next controller writes to /feature, before it is elected."""

from __future__ import annotations

from dataclasses import dataclass

from featurelib.api.clusters import Answer, AnyCluster, choose
from featurelib.api.questions import answer_about, mark_muted, turn_row
from featurelib.extras.elections.foresee import Foreseen, expect_protocol_version, hold_election
from featurelib.extras.elections.page import show_election
from featurelib.questions.what_if import WhatIf, compare
from featurelib.view.questions import what_if_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The next election, and the verdicts after it."""

    election: Foreseen
    what_if: WhatIf


def election(cluster: AnyCluster, ibp: str) -> Answer[Election]:
    """Show what the next elected controller would write to /feature, and the verdicts after it.

    \b
        featurelib election old-cluster --ibp 2.6

    ZooKeeper mode, 2.7 to 3.9, with every broker at that inter.broker.protocol.version. Below 2.7
    all finalized levels are lost. Nothing is sent or written.

    Exit codes: 0 answered; 2 usage; 5 no evidence.
    """
    source = choose(cluster).question()
    expect_protocol_version(source.sight, ibp, source.terms)
    foreseen, after = hold_election(source.sight, ibp, source.terms)
    differences = mark_muted(compare(source.sight, after), source)
    change = f"a controller is elected at inter.broker.protocol.version {ibp}"
    return answer_about(
        Election(election=foreseen, what_if=differences),
        source,
        lambda: map(turn_row, differences.turns),
        lambda width: what_if_page(
            differences, change, source, width, lambda page: show_election(foreseen, page)
        ),
    )
