"""Answer questions about one cluster from a live reading or from a run's tables, and draw them.

Nothing is sent or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from featurelib.api.clusters import Answer, AnyCluster, Value, choose
from featurelib.api.documents import OfCluster, document, plain
from featurelib.audit.audit import Judged
from featurelib.errors import ConfigError, needing
from featurelib.questions.muted import as_json, over_reason
from featurelib.questions.why_not import Proof, WhyNot, named_level
from featurelib.questions.why_not import why_not as ask_why_not
from featurelib.source import Chosen, Source
from featurelib.view.documents import fill
from featurelib.view.layout import Page
from featurelib.view.questions import why_not_page
from featurelib.view.report import add_details, read_profiles, report_run, summarize

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
    """Return the answer to a question about the cluster in `source`."""
    name, made_from = source.entry.title or None, source.made_from
    common = fill(OfCluster, cluster=source.view.cluster_id, name=name, made_from=made_from)
    return Answer(
        value=value, make_rows=rows, make_document=lambda: document(common, value), page=page
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
    number = named_level(source.view, feature, str(level), catalogue)
    answered = ask_why_not(source.view, feature, number, catalogue)
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
        report_run(chosen.catalogue, 0, source.inputs.as_of or source.view.newest),
        chosen.catalogue,
        inventory=source.inputs.fleet,
    )
    profiles = read_profiles(source.view.evidence)
    [drawn] = add_details(report, profiles, {}, chosen.catalogue).clusters
    plots = draw(drawn)
    names = [plot.feature for plot in plots]
    if unknown := sorted(set(features) - set(names)):
        raise ConfigError(
            f"range_plot: {drawn.name} does not have the features {', '.join(unknown)}. Its "
            f"features: {', '.join(names) or 'none'}."
        )
    plots_shown = tuple(plot for plot in plots if not features or plot.feature in features)
    return RangePlot(title=f"{drawn.name}: {drawn.summary}", plots=plots_shown)


def _judged(chosen: Chosen, source: Source) -> Judged:
    """Return the judgement of a cluster: from the tables of a run if it is stored, otherwise from
    the lines just read."""
    if source.lake is None:
        return source.view.judged
    return source.lake.judged(chosen.wanted.run, source.view.cluster_id)
