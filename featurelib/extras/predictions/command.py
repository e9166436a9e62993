"""Define `featurelib what-if` and `featurelib can-roll`: verdicts and registrations after a change.

Nothing is sent or written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

from featurelib.api.clusters import Answer, AnyCluster, choose
from featurelib.api.documents import KEYS, row_of
from featurelib.api.questions import answer_about
from featurelib.cli.choosing import CHOOSING
from featurelib.cli.options import read_pairs
from featurelib.config.files import journal_path
from featurelib.controller.journal import Journal
from featurelib.errors import ConfigError
from featurelib.extras.predictions.page import roll_page, what_if_page
from featurelib.extras.predictions.rolling import Roll
from featurelib.extras.predictions.rolling import roll as ask_roll
from featurelib.extras.predictions.what_if import Changes, FeatureDiff, WhatIf, software_of_release
from featurelib.extras.predictions.what_if import what_if as ask_what_if
from featurelib.questions.muted import as_json, over_row
from featurelib.questions.why_not import named_level
from featurelib.source import Source

VERDICT = ("verdict", "finalized_level", "target", "ceiling")
Row = dict[str, object]
KEYS |= {
    WhatIf: row_of(
        "before=was after=now features=turns unchanged new gone=resolved critical joined refused "
        "not_running=off not_answering=silent removed_and_running=runs"
    ),
    Roll: row_of(
        "release mode may_join finalized=levels finalized_known=levels_known mend_first replays "
        "conditions misfits only_with_unstable_features=only_unstable refused not_running=off "
        "not_answering=silent first joins_now format_with way_back"
    ),
}


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
            "No change is named. Give --node ID=RELEASE, --remove ID, --add ID=RELEASE, --release "
            "RELEASE or --finalize FEATURE=LEVEL."
        )
    chosen = choose(cluster)
    source, catalogue = chosen.question(), chosen.catalogue
    changes = Changes(
        nodes=nodes or {},
        removed=tuple(dict.fromkeys(remove)),
        added=add or {},
        release=release,
        finalized={
            name: named_level(source.view, name, str(level), catalogue)
            for name, level in (finalize or {}).items()
        },
    )
    answer = mark_muted(ask_what_if(source.view, changes, source.inputs), source)
    return answer_about(
        answer,
        source,
        lambda: map(turn_row, answer.turns),
        lambda width: what_if_page(answer, changes.text, source, width),
    )


def mark_muted(answer: WhatIf, source: Source) -> WhatIf:
    """Return an answer of `what-if` in which muted findings are marked."""
    new, resolved = (
        tuple(row | as_json(over_row(source.muted, row)) for row in rows)
        for rows in (answer.new, answer.resolved)
    )
    return replace(answer, new=new, resolved=resolved)


def turn_row(change: FeatureDiff) -> Row:
    """Return the table row of a feature: verdict and levels before and after the change."""
    row: Row = {"feature": change.feature}
    for moment, side in (("before", change.before), ("after", change.after)):
        row |= {f"{key}_{moment}": (side or {}).get(key) for key in VERDICT}
    return row


def can_roll(cluster: AnyCluster, to: str, journal: str | None = None) -> Answer[Roll]:
    """Say whether nodes can run another release.

    \b
        featurelib can-roll payments-eu --to 4.2
        featurelib can-roll orders-prod-us --to 4.4 --tables build/samples/tables
        featurelib can-roll payments-eu --to 4.0 --json

    The command judges every node with the ranges of the release's production software, by every
    generation of controllers that may lead now. If a level must change first, the output has the
    plan, or the reason why there is none. It also shows whether the present software can register
    again after the rolling upgrade, and after the new levels are finalized, and the first level
    that prevents it. Nothing is sent.

    In Python: can_roll("payments-eu", "4.2").value.may_join. A row is one finalized feature: its
    level, the range of that software (None if it has no such feature), and whether the range
    contains the level.

    Exit codes: 0 answered, also "cannot register"; 2 usage; 5 no evidence.
    """
    chosen = choose(cluster)
    source = chosen.question()
    sent = _levels_sent(source.view.cluster_id, journal)
    answer = ask_roll(source.view, to, source.inputs, sent)
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
    """Yield (feature, level, time in microseconds) of each level that the journal shows as
    finalized, before or after a request."""
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


def _nodes(nodes: list[str] = []) -> dict[int, str]:  # noqa: B006  # typer reads it and no more
    return _releases("--node", nodes)


def _add(add: list[str] = []) -> dict[int, str]:  # noqa: B006
    return _releases("--add", add)


def _finalize(finalize: list[str] = []) -> dict[str, str]:  # noqa: B006
    return read_pairs("--finalize", finalize, "FEATURE=LEVEL, as group.version=1")


def _releases(option: str, texts: list[str]) -> dict[int, str]:
    """Return node id → release from texts `ID=RELEASE`. Raises ConfigError."""
    expected, node = "ID=RELEASE, as 7=4.1.2", re.compile("0|[1-9][0-9]{0,9}")
    pairs = read_pairs(
        option, texts, expected, fits=lambda id_, _: bool(node.fullmatch(id_)) and int(id_) < 2**31
    )
    return {int(node): release for node, release in pairs.items()}


CHOOSING |= {"what-if.nodes": _nodes, "what-if.add": _add, "what-if.finalize": _finalize}
