"""`featurelib kafka-features`: a command of Kafka's own tool, before somebody runs it."""

from __future__ import annotations

from dataclasses import dataclass

from featurelib.api.clusters import Answer, AnyCluster, choose
from featurelib.api.questions import answer_about, mark_muted, turn_row
from featurelib.extras.tool_preview.page import show_tool_run
from featurelib.extras.tool_preview.tool import ToolRun, read_command, run_tool
from featurelib.questions.what_if import Changes, WhatIf, what_if
from featurelib.view.questions import QuestionPage, what_if_page


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPreview:
    """The runs of the tool, the likeliest first, and the verdicts after that one."""

    runs: tuple[ToolRun, ...]
    what_if: WhatIf


def kafka_features(
    cluster: AnyCluster, tool_command: str, *, tool: str | None = None
) -> Answer[ToolPreview]:
    """Show what a command of kafka-features.sh would print, change and make irreversible.

    \b
        featurelib kafka-features payments-eu --command "upgrade --release-version 4.3"
        featurelib kafka-features payments-eu --command "downgrade --metadata 4.0" --tool 4.2

    Word for word, for the tool of each release from 3.3 on. Nothing is sent or written.

    Exit codes: 0 answered; 2 usage; 5 no evidence.
    """
    source, words = choose(cluster).question(), read_command(tool_command)
    runs = run_tool(source.sight, words, tool, source.terms)
    levels = {move.feature: move.to_level for move in runs[0].moves}
    differences = what_if(source.sight, Changes(finalized=levels), source.terms)
    answer = ToolPreview(runs=runs, what_if=mark_muted(differences, source))

    def show_runs(page: QuestionPage) -> None:
        for run in runs:
            show_tool_run(run, page)

    change = f"kafka-features.sh {words.text} is run"
    return answer_about(
        answer,
        source,
        lambda: map(turn_row, answer.what_if.turns),
        lambda width: what_if_page(answer.what_if, change, source, width, show_runs),
    )
