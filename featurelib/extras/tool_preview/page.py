"""What kafka-features.sh would print and change, as text."""

from __future__ import annotations

from featurelib.extras.tool_preview.tool import ToolRun
from featurelib.view.questions import QuestionPage, judges_line
from featurelib.view.words import show_change
from featurelib.words import clean, releases_text


def show_tool_run(run: ToolRun, page: QuestionPage) -> None:
    """Show the output of kafka-features.sh, and its effects, expected or not."""
    by = f", asked of {judges_line(run.dialects)}" if run.dialects else ", before it asks anybody"
    page.head(f"kafka-features.sh {run.release}{by}, would print")
    for line in (*run.stdout, *run.stderr):
        page.item(clean(line, 600), 2)
    page.line(f"and end with exit code {run.exit_code}")
    if run.ignores_dry_run:
        page.text(f"THE TOOL OF {run.release} IGNORES --dry-run: it applies")
    for name in run.unmoved:
        page.text(f"{clean(name)} stays as it is, although the tool prints that it was moved")
    if run.exit_code and run.moves:
        page.text("ALTHOUGH IT SAYS THAT IT FAILED, levels would move:")
    elif not run.moves:
        page.text("no level would move")
    for change in run.ahead.changes if run.ahead else ():
        show_change(change, page.catalogue, page)
        for note in change.loses:
            page.item(f"may lose what {note.name} brought: {clean(note.purpose)}", 4)
    if run.unsure:
        page.text("whether kraft.version moves depends on the order of a hash map", 2)
    if run.joins_no_more:
        names = releases_text(page.catalogue, run.joins_no_more)
        page.text(f"software of {names} can register now, and not after that", 2)
