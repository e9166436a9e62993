"""Questions about one cluster, asked of a look or of a night's tables, and drawn.

Nothing is sent, nothing written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from featurelib.api.clusters import INSTALL, Answer, AnyCluster, choose
from featurelib.api.documents import (
    FirstDocument,
    FixDocument,
    LevelOf,
    ProofDocument,
    ReadinessDocument,
    RefusedDocument,
    RollDocument,
    UnlockDocument,
    WayBackDocument,
    WhatIfDocument,
    WhyNotDocument,
)
from featurelib.audit.audit import Judged
from featurelib.audit.cluster_view import Sight
from featurelib.core.batch import NOT_HERE
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError
from featurelib.model import Proof
from featurelib.questions.muted import as_json, over_reason, over_row
from featurelib.questions.roll import Roll
from featurelib.questions.roll import roll as ask_roll
from featurelib.questions.what_if import Changes, Refused, Turn, WhatIf, software_of_release
from featurelib.questions.what_if import what_if as ask_what_if
from featurelib.questions.why_not import WhyNot, named_level
from featurelib.questions.why_not import why_not as ask_why_not
from featurelib.source import Chosen, Source
from featurelib.view.documents import NodeOf, fill, moment
from featurelib.view.election import election_document
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
    source, catalogue = chosen.question(), chosen.catalogue
    number = named_level(source.sight, feature, str(level), catalogue)
    answer = ask_why_not(source.sight, feature, number, catalogue)
    proofs = (*answer.proofs, *answer.unknown)
    places = source.places((proof.line_id, proof.seen_at) for proof in proofs)
    document = _why_not_document(answer, source, places)
    return Answer(
        value=answer,
        make_rows=lambda: map(_proof_row, (*document.proofs, *document.unknown)),
        make_document=lambda: document,
        page=lambda width: why_not_page(
            answer,
            source.name,
            source.wanted.ways,
            source.made_from,
            places,
            catalogue,
            source.muted,
            width,
        ),
    )


def _about(source: Source) -> dict[str, Any]:
    """The keys every document about one cluster begins with."""
    return {
        "cluster": source.sight.cluster_id,
        "name": source.entry.title or None,
        "made_from": source.made_from,
    }


def _why_not_document(answer: WhyNot, source: Source, places: Mapping[int, str]) -> WhyNotDocument:
    def proof(one: Proof) -> ProofDocument:
        low, high = one.supported or (None, None)
        return fill(
            ProofDocument,
            one,
            rule=one.code,
            seen_at=moment(one.seen_at),
            min_version=low,
            max_version=high,
            line=places.get(one.line_id),
            **as_json(over_reason(source.muted, one)),
        )

    way = answer.unlock
    return fill(
        WhyNotDocument,
        answer,
        **_about(source),
        finalized_level=answer.current,
        moves=[LevelOf(feature=name, level=level) for name, level in answer.moves],
        proofs=[proof(one) for one in answer.proofs],
        unknown=[proof(one) for one in answer.unknown],
        agreed=answer.agreed and proof(answer.agreed),
        unlock=way
        and UnlockDocument(
            release=way.release or None,
            fixes=[fill(FixDocument, fix) for fix in way.fixes],
            only_own_controllers=[
                NodeOf(role=role.text, node_id=node_id)
                for role, node_id in answer.also_refused_over
            ],
            rules=way.also,
        ),
        plan=answer.words or None,
    )


def _proof_row(proof: ProofDocument) -> dict[str, object]:
    names = ("feature", "level", "min_version", "max_version", "rule", "judge")
    row: dict[str, object] = {"node": proof.node or None}
    row |= {name: getattr(proof, name) for name in names}
    row |= {"says": proof.message, "source": proof.source, "line": proof.line}
    return row | {"muted": proof.muted, "muted_until": proof.muted_until}


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
    source, catalogue = chosen.question(), chosen.catalogue
    changes = Changes(
        nodes=nodes or {},
        removed=tuple(dict.fromkeys(remove)),
        added=add or {},
        release=release,
        finalized={
            name: named_level(source.sight, name, str(level), catalogue)
            for name, level in (finalize or {}).items()
        },
        protocol_version=ibp,
    )
    answer = ask_what_if(source.sight, changes, source.terms)
    return Answer(
        value=answer,
        make_rows=lambda: map(_turn_row, answer.turns),
        make_document=lambda: _what_if_document(answer, source),
        page=lambda width: what_if_page(
            answer, changes.text, source.name, source.made_from, catalogue, source.muted, width
        ),
    )


def _what_if_document(answer: WhatIf, source: Source) -> WhatIfDocument:
    def side(sight: Sight) -> ReadinessDocument:
        row = sight.judged.plans.to_pylist()[0]
        return ReadinessDocument(
            **{name: row[name] for name in ReadinessDocument.__struct_fields__}
        )

    def findings(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row | as_json(over_row(source.muted, row)) for row in rows]

    return fill(
        WhatIfDocument,
        answer,
        **_about(source),
        before=side(answer.before),
        after=side(answer.after),
        features=answer.turns,
        new=findings(answer.new),
        gone=findings(answer.gone),
        refused=_refused_documents(answer.refused),
        not_running=answer.idle,
        election=None if answer.election is None else election_document(answer.election),
    )


def _refused_documents(refused: Iterable[Refused]) -> list[RefusedDocument]:
    return [fill(RefusedDocument, one) for one in refused]


def _turn_row(turn: Turn) -> dict[str, object]:
    """One feature before and after, by its verdict's columns."""
    row: dict[str, object] = {"feature": turn.feature}
    for when, side in (("before", turn.before), ("after", turn.after)):
        row |= {f"{key}_{when}": (side or {}).get(key) for key in VERDICT}
    return row


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
    source, catalogue = chosen.question(), chosen.catalogue
    answer = ask_roll(source.sight, to, source.terms)
    software = software_of_release(answer.release, answer.mode, catalogue)
    misfits = {misfit.feature for misfit in answer.misfits}
    rows: list[dict[str, object]] = [
        {
            "feature": name,
            "level": level,
            "min_version": software.get(name, (None, None))[0],
            "max_version": software.get(name, (None, None))[1],
            "fits": name not in misfits,
        }
        for name, level in sorted(answer.levels.items())
    ]
    return Answer(
        value=answer,
        make_rows=lambda: rows,
        make_document=lambda: _roll_document(answer, source),
        page=lambda width: roll_page(answer, source.name, source.made_from, catalogue, width),
    )


def _roll_document(answer: Roll, source: Source) -> RollDocument:
    way = answer.way_back
    return fill(
        RollDocument,
        answer,
        **_about(source),
        finalized=answer.levels,
        finalized_known=answer.levels_known,
        only_with_unstable_features=answer.only_unstable,
        refused=_refused_documents(answer.refused),
        first=[
            FirstDocument(
                intent=one.planned.intent.text,
                steps=one.planned.plan.steps if one.planned.plan is not None else (),
                refusals=one.planned.refusals,
            )
            for one in answer.first
        ],
        way_back=way
        and fill(
            WayBackDocument,
            way,
            joins_after_finalizing=way.joins_after,
            downgrade_floor=_level_or_none(way.floor),
            point_of_no_return=_level_or_none(way.no_return),
        ),
    )


def _level_or_none(level: int) -> int | None:
    return None if level == NOT_HERE else level


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
        RunInfo(number=0, as_of=source.terms.as_of or source.sight.newest),
        chosen.catalogue,
        load(STRICT),
        inventory=source.terms.fleet,
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


def _judged(chosen: Chosen, source: Source) -> Judged:
    """What the night said of the cluster, where the look came from its tables."""
    if source.lake is None:
        return source.sight.judged
    return source.lake.judged(chosen.wanted.run, source.sight.cluster_id)
