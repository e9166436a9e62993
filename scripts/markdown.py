"""Make Markdown from values, and read the comments beside the members of a class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

MEMBER = re.compile(r"^    (?P<name>\w+)(?:: [^=#]+)?(?: = [^#]+?)?(?:  # (?P<comment>.+))?$")
GENERATED = "<!-- Generated: .venv/bin/python -m scripts.write_docs -->"


def comments_of(owner: type) -> dict[str, str]:
    """Return member → comment in its line, for the members of a class."""
    found = {}
    for line in inspect.getsource(owner).splitlines()[1:]:
        member = MEMBER.match(line)
        if member and not line.strip().startswith(('"""', "@", "def ", "return ")):
            found[member["name"]] = member["comment"] or ""
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Cells are escaped."""
    lines = [_row(head), "|" + "---|" * len(head)]
    lines += [_row([cell.replace("|", "\\|") for cell in row]) for row in rows]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def code(text: object) -> str:
    """Return a name or value, formatted as code."""
    return f"`{text}`"


def page(*parts: str) -> str:
    """Return the parts joined to a Markdown page."""
    return "\n\n".join(part.strip() for part in (parts[0], GENERATED, *parts[1:]) if part) + "\n"
