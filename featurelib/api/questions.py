"""Answer questions about one cluster from a live reading or from a run's tables, and draw them.

Nothing is sent or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from featurelib.api.clusters import Answer, AnyCluster, Value, choose
from featurelib.api.documents import OfCluster, document, plain
from featurelib.audit.audit import Judged
from featurelib.config.files import journal_path
from featurelib.controller.journal import Journal
from featurelib.errors import ConfigError, needing
from featurelib.questions.muted import as_json, over_reason, over_row
from featurelib.questions.roll import Roll
from featurelib.questions.roll import roll as ask_roll
from featurelib.questions.what_if import Changes, Turn, WhatIf, software_of_release
from featurelib.questions.what_if import what_if as ask_what_if
from featurelib.questions.why_not import Proof, WhyNot, named_level
from featurelib.questions.why_not import why_not as ask_why_not
from featurelib.source import Chosen, Source
from featurelib.view.documents import fill
from featurelib.view.layout import Page
from featurelib.view.questions import what_if_page, why_not_page
from featurelib.view.report import add_details, read_profiles, report_run, summarize
from featurelib.view.roll import roll_page

if TYPE_CHECKING:
    from featurelib.view.html import RangePlot

VERDICT = ("verdict", "finalized_level", "target", "ceiling")
Row = dict[str, object]


def answer_about(
    value: Value,
    source: Source,
    rows: Callable[[], Iterable[Row]],
    page: Callable[[int | None], Page],
) -> Answer[Value]:
    """Return the answer to a question about the cluster that `source` shows."""
    name, made_from = source.entry.title or None, source.made_from
    head = fill(OfCluster, cluster=source.sight.cluster_id, name=name, made_from=made_from)
    return Answer(
        value=value, make_rows=rows, make_document=lambda: document(head, value), page=page
    )


def why_not(cluster: AnyCluster, feature: str, level: int | str) -> Answer[WhyNot]:
    """Explain why a level cannot be finalized.

    Print all blockers, and the smallest change that unlocks the level:

    \b
        featurelib why-not payments-eu metadata.version=4.1
        featurelib why-not orders-prod-us metadata.version=29 --tables build/samples/tables

    Kafka names the first node that blocks. `why-not` names every node, with its range, and the time
    and landing line of that data. It names every rule that rejects the level: rules of the policy,
    and of each generation of controllers that may respond. Missing data is listed separately. A
    level below the finalized one is judged as a lossless downgrade.

    In Python: why_not("payments-eu", "metadata.version", "4.1").value has `answer` (blocked,
    unknown, nothing, finalized), `proofs`, `unknown` and `unlock`; a row is one proof.
    Exit codes: 0 answered, also where the level is blocked; 2 usage; 5 no evidence.
    """
    chosen = choose(cluster)
    source, catalogue = chosen.question(), chosen.catalogue
    number = named_level(source.sight, feature, str(level), catalogue)
    answered = ask_why_not(source.sight, feature, number, catalogue)
    every = (*answered.proofs, *answered.unknown)
    places, muted = source.places((proof.line_id, proof.seen_at) for proof in every), source.muted

    def placed(proofs: Iterable[Proof]) -> tuple[Proof, ...]:
        return tuple(
            replace(proof, line=places.get(proof.line_id), **as_json(over_reason(muted, proof)))
            for proof in proofs
        )

    answer = replace(
        answered,
        proofs=placed(answered.proofs),
        unknown=placed(answered.unknown),
        agreed=answered.agreed and placed([answered.agreed])[0],
    )
    return answer_about(
        answer,
        source,
        lambda: map(plain, (*answer.proofs, *answer.unknown)),
        lambda width: why_not_page(answer, source, width),
    )


def what_if(
    cluster: AnyCluster,
    *,
    nodes: Mapping[int, str] | None = None,
    remove: list[int] = [],  # noqa: B006  # nobody changes it
    add: Mapping[int, str] | None = None,
    release: str | None = None,
    finalize: Mapping[str, int | str] | None = None,
) -> Answer[WhatIf]:
    """Predict verdicts after changes of nodes or levels.

    \b
        featurelib what-if payments-eu --node 7=4.1.2 --remove 9
        featurelib what-if payments-eu --release 4.2
        featurelib what-if payments-eu --add 10=4.2 --finalize metadata.version=4.1

    Nodes support what production software of their release supports. A node that no controller
    would register does not run. Only differences are shown. Nothing is sent or written. To predict
    a command of Kafka's own tool, use featurelib kafka-features.

    Exit codes: 0 answered; 2 usage; 5 no evidence.
    """
    if not (nodes or remove or add or release or finalize):
        raise ConfigError(
            "expected a change, found none. Give --node ID=RELEASE, --remove ID, --add ID=RELEASE, "
            "--release RELEASE or --finalize FEATURE=LEVEL."
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
    )
    answer = mark_muted(ask_what_if(source.sight, changes, source.terms), source)
    return answer_about(
        answer,
        source,
        lambda: map(turn_row, answer.turns),
        lambda width: what_if_page(answer, changes.text, source, width),
    )


def mark_muted(answer: WhatIf, source: Source) -> WhatIf:
    """Return the answer with muted findings marked."""
    new, resolved = (
        tuple(row | as_json(over_row(source.muted, row)) for row in rows)
        for rows in (answer.new, answer.gone)
    )
    return replace(answer, new=new, gone=resolved)


def turn_row(turn: Turn) -> Row:
    """Return one feature before and after, by its verdict's columns."""
    row: Row = {"feature": turn.feature}
    for moment, side in (("before", turn.before), ("after", turn.after)):
        row |= {f"{key}_{moment}": (side or {}).get(key) for key in VERDICT}
    return row


def can_roll(cluster: AnyCluster, to: str, journal: str | None = None) -> Answer[Roll]:
    """Say whether nodes can run another release.

    \b
        featurelib can-roll payments-eu --to 4.2
        featurelib can-roll orders-prod-us --to 4.4 --tables build/samples/tables
        featurelib can-roll payments-eu --to 4.0 --json

    The command judges every node with the ranges of the release's production software, by every
    generation of controllers that may lead now. Errors are in Kafka's words. If a level must change
    first, the output has the plan, or the reason why there is none. It also shows whether the
    present software can register again after the rolling upgrade, and after the new levels are
    finalized, and the first level that prevents it. Nothing is sent.

    In Python: can_roll("payments-eu", "4.2").value.may_join. A row is one finalized feature: its
    level, the range of that software (None = it has no such feature), and whether the range
    contains the level.

    Exit codes: 0 answered, also where it cannot register; 2 usage; 5 no evidence.
    """
    chosen = choose(cluster)
    source = chosen.question()
    sent = _levels_sent(source.sight.cluster_id, journal)
    answer = ask_roll(source.sight, to, source.terms, sent)
    software = software_of_release(answer.release, answer.mode, chosen.catalogue)
    misfits = {misfit.feature for misfit in answer.misfits}
    rows: list[Row] = [
        {
            "feature": name,
            "level": level,
            "min_version": software.get(name, (None, None))[0],
            "max_version": software.get(name, (None, None))[1],
            "fits": name not in misfits,
        }
        for name, level in sorted(answer.levels.items())
    ]
    return answer_about(
        answer, source, lambda: rows, lambda width: roll_page(answer, source, width)
    )


def _levels_sent(cluster: str, named: str | None) -> Iterator[tuple[str, int, int]]:
    """Yield feature, level and time (microseconds) of each level that the journal shows as
    finalized: before a request, and after it unless nothing was written."""
    path = journal_path(named)
    if not path.is_file():
        return
    with closing(Journal(path)) as journal:
        for entry in journal.entries(cluster=cluster):
            for update in entry.intent.step.updates:
                at = int(entry.intent.at * 1_000_000)
                yield update.feature, update.from_level, at
                if not entry.is_in_vain:
                    yield update.feature, update.to_level, at


def range_plot(cluster: AnyCluster, features: Sequence[str] = ()) -> RangePlot:
    """Draw the ranges that nodes support: the plots of the report's page, shown by a notebook.

        range_plot(tables["orders-prod-us"])
        range_plot("payments-eu", ["metadata.version"])

    Each range of nodes is a bar, red for nodes that block or do not support the finalized level.
    Lines mark the finalized level, the target and the maximum. Without `features` all features are
    drawn. Raises ConfigError for a feature that no node lists, BackendError.
    """
    with needing("drawing needs the package jinja2", "notebook"):
        from featurelib.view.html import RangePlot
        from featurelib.view.plot import draw
    chosen = choose(cluster)
    source = chosen.source()
    report = summarize(
        _judged(chosen, source),
        report_run(chosen.catalogue, 0, source.terms.as_of or source.sight.newest),
        chosen.catalogue,
        inventory=source.terms.fleet,
    )
    profiles = read_profiles(source.sight.evidence)
    [drawn] = add_details(report, profiles, {}, chosen.catalogue).clusters
    plots = draw(drawn)
    known = [plot.feature for plot in plots]
    if strange := sorted(set(features) - set(known)):
        raise ConfigError(
            f"range_plot: expected features of {drawn.name} ({', '.join(known) or 'none'}), found "
            f"{', '.join(strange)}."
        )
    kept = tuple(plot for plot in plots if not features or plot.feature in features)
    return RangePlot(title=f"{drawn.name}: {drawn.summary}", plots=kept)


def _judged(chosen: Chosen, source: Source) -> Judged:
    """Return the run's judgement of the cluster, if the source is a run's tables."""
    if source.lake is None:
        return source.sight.judged
    return source.lake.judged(chosen.wanted.run, source.sight.cluster_id)
