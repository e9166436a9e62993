"""Questions about one cluster, asked of a look or of a night's tables, and drawn.

The answers are those of featurelib.questions and the commands; nothing is sent, nothing written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from featurelib.api.clusters import INSTALL, Answer, AnyCluster, Chosen, choose
from featurelib.audit.audit import Judged
from featurelib.cli.asked import Asked
from featurelib.cli.questions import level_asked, say_changes
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError
from featurelib.questions.muted import as_json, over_reason
from featurelib.questions.roll import Roll
from featurelib.questions.roll import roll as ask_roll
from featurelib.questions.what_if import Changes, Turn, WhatIf, software_of_release
from featurelib.questions.what_if import what_if as ask_what_if
from featurelib.questions.why_not import WhyNot
from featurelib.questions.why_not import why_not as ask_why_not
from featurelib.source import Source
from featurelib.tables import FEATURE_READINESS, FINDINGS, INCOMPATIBLE_BROKERS, UPGRADE_PLANS
from featurelib.view.layout import WIDEST
from featurelib.view.plot import portraits
from featurelib.view.report import RunInfo, summarize
from featurelib.view.roll import roll_page
from featurelib.view.what_if import what_if_page
from featurelib.view.why_not import why_not_page

if TYPE_CHECKING:
    from featurelib.view.html import RangePlot

VERDICT = ("verdict", "finalized_level", "target", "ceiling")


def why_not(cluster: AnyCluster, feature: str, level: int | str) -> Answer[WhyNot]:
    """Why a level cannot be finalized: every proof, and the smallest change that unlocks it.

        why_not("payments-eu", "metadata.version", "4.1")
        why_not(tables["ghost-broker"], "metadata.version", 27).frame()

    `level` is a number or, of metadata.version, a name or release. The value has `answer`
    (blocked, unknown, nothing, finalized), `proofs`, `unknown` and `unlock`; a row is one proof:
    who refuses, which node, with which range, by which rule. Raises ConfigError, BackendError.
    """
    chosen = choose(cluster)
    asked = _ask(chosen)
    sight, catalogue = asked.source.sight, chosen.catalogue
    number = level_asked(sight, feature, str(level), catalogue)
    found = ask_why_not(sight, feature, number, catalogue)
    all_of_them, mutes = (*found.proofs, *found.unknown), asked.source.muted
    places = asked.places((proof.line_id, proof.seen_at) for proof in all_of_them)
    page = why_not_page(
        found, asked.name, asked.ways, asked.source.made_from, places, catalogue, mutes, WIDEST
    )
    rows: list[dict[str, object]] = [
        {
            "node": proof.node or None,
            "feature": proof.feature,
            "level": proof.level,
            "min_version": proof.supported[0] if proof.supported else None,
            "max_version": proof.supported[1] if proof.supported else None,
            "rule": proof.code,
            "judge": proof.judge,
            "says": proof.message,
            "source": proof.source,
            "line": places.get(proof.line_id),
            **as_json(over_reason(mutes, proof)),
        }
        for proof in all_of_them
    ]
    return Answer(value=found, text=str(page), rows=tuple(rows))


def what_if(
    cluster: AnyCluster,
    *,
    nodes: Mapping[int, str] | None = None,
    remove: Collection[int] = (),
    add: Mapping[int, str] | None = None,
    release: str | None = None,
    finalize: Mapping[str, int | str] | None = None,
    ibp: str | None = None,
) -> Answer[WhatIf]:
    """The verdicts before and after nodes run other software, are gone or come, or levels move.

        what_if(tables["ghost-broker"], remove=[2])
        what_if("payments-eu", nodes={7: "4.1.2"}, finalize={"group.version": 1})
        what_if("payments-eu", release="4.2")       # every node that runs
        what_if("old-cluster", ibp="2.6").value.election     # ZooKeeper mode: what is lost

    `nodes` and `add` map a node id to a release; `ibp` is the inter.broker.protocol.version of
    every broker when the next controller is elected. The value has `before` and `after`, what
    differs, and `election`; a row is one feature that does. Raises ConfigError for a node, release
    or protocol version that is not there, BackendError.
    """
    if not (nodes or remove or add or release or finalize or ibp is not None):
        raise ConfigError(
            "what_if: expected a change, found none. Give nodes, remove, add, release, finalize or "
            "ibp."
        )
    chosen = choose(cluster)
    asked = _ask(chosen)
    sight, catalogue = asked.source.sight, chosen.catalogue
    changes = Changes(
        nodes=nodes or {},
        removed=tuple(remove),
        added=add or {},
        release=release,
        finalized={
            name: level_asked(sight, name, str(level), catalogue)
            for name, level in (finalize or {}).items()
        },
        protocol_version=ibp,
    )
    found = ask_what_if(sight, changes, asked.terms)
    said, made_from = say_changes(changes), asked.source.made_from
    mutes = asked.source.muted
    page = what_if_page(found, said, asked.name, made_from, catalogue, mutes, WIDEST)
    rows = [_turn_row(turn) for turn in found.turns]
    return Answer(value=found, text=str(page), rows=tuple(rows))


def roll(cluster: AnyCluster, to: str) -> Answer[Roll]:
    """Whether software of a release may join now, what must happen first, and the way back.

        roll("payments-eu", "4.2").value.may_join
        roll(tables["k42-dynamic"], "4.1").frame()

    The value has `misfits`, `refused` (in the controllers' words), `first` (what has to go down or
    up before, as plans) and `way_back`; a row is one finalized feature: its level, the range that
    production software of the release supports, None = no such feature, and whether that fits.
    Raises ConfigError for a release that nobody knows, BackendError.
    """
    chosen = choose(cluster)
    asked = _ask(chosen)
    catalogue = chosen.catalogue
    found = ask_roll(asked.source.sight, to, asked.terms)
    page = roll_page(found, asked.name, asked.source.made_from, catalogue, WIDEST)
    software = software_of_release(found.release, found.mode, catalogue)
    rows: list[dict[str, object]] = [
        {
            "feature": name,
            "level": level,
            "min_version": software.get(name, (None, None))[0],
            "max_version": software.get(name, (None, None))[1],
            "fits": name not in {misfit.feature for misfit in found.misfits},
        }
        for name, level in sorted(found.levels.items())
    ]
    return Answer(value=found, text=str(page), rows=tuple(rows))


def range_plot(cluster: AnyCluster, features: Sequence[str] = ()) -> RangePlot:
    """Who supports what, drawn: the range plots of the report's page, shown by a notebook.

        range_plot(tables["ghost-broker"])
        range_plot("payments-eu", ["metadata.version"])

    A bar for each range that nodes have, red where a node is in the way or does not fit; lines
    where the feature is finalized, could go, and ends. Without `features` all of them. Raises
    ConfigError for a feature that no node lists, BackendError.
    """
    try:
        from featurelib.view.html import RangePlot
        from featurelib.view.plot import draw
    except ImportError as error:
        raise ConfigError(f"drawing needs the package jinja2. {INSTALL}") from error
    chosen = choose(cluster)
    source = chosen.source()
    evidence = source.sight.judged.evidence
    assert evidence is not None
    [shown] = summarize(
        _judged(chosen, source),
        RunInfo(number=0, as_of=source.as_of or source.sight.newest),
        chosen.catalogue,
        load(STRICT),
        inventory=source.fleet,
    ).clusters
    plots = draw(shown, portraits(evidence)[source.sight.cluster_id])
    known = [plot.feature for plot in plots]
    if strange := sorted(set(features) - set(known)):
        raise ConfigError(
            f"range_plot: expected features of {shown.name} ({', '.join(known) or 'none'}), found "
            f"{', '.join(strange)}."
        )
    wanted = tuple(plot for plot in plots if not features or plot.feature in features)
    return RangePlot(title=f"{shown.name}: {shown.summary}", plots=wanted)


def _turn_row(turn: Turn) -> dict[str, object]:
    """One feature before and after, by what its verdict says."""
    row: dict[str, object] = {"feature": turn.feature}
    for when, said in (("before", turn.before), ("after", turn.after)):
        row |= {f"{key}_{when}": (said or {}).get(key) for key in VERDICT}
    return row


def _ask(chosen: Chosen) -> Asked:
    source = chosen.source()
    return Asked(source=source, terms=chosen.terms(source), wanted=chosen.wanted)


def _judged(chosen: Chosen, source: Source) -> Judged:
    """What the night said of the cluster, where the look came from its tables."""
    if source.lake is None:
        return source.sight.judged
    lake, run, cluster = source.lake, chosen.wanted.run, source.sight.cluster_id
    return Judged(
        findings=lake.rows(FINDINGS, run=run, cluster=cluster),
        incompatible=lake.rows(INCOMPATIBLE_BROKERS, run=run, cluster=cluster),
        readiness=lake.rows(FEATURE_READINESS, run=run, cluster=cluster),
        plans=lake.rows(UPGRADE_PLANS, run=run, cluster=cluster),
    )
