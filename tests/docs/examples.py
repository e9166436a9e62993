"""Examples of the pages: where they stand, what they type, and what they say is printed.

A fenced block ```console is executed: a line that begins with `$ ` is typed, those below it are
what is printed. `…` stands for anything within a line, or, alone on a line, for any lines. Times
and digests may differ. A command may fail only if the next thing typed is `echo $?`.
A comment `<!-- not executed: REASON -->` right above a block leaves it out. A block with a title
is a file of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts),
)
BLOCK = re.compile(
    r"(?:<!-- not executed: (?P<why>[^\n]+) -->\n+)?^```console\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
FILE = re.compile(
    r'^```\w+ title="(?P<name>[\w.-]+)"\n(?P<text>.*?)^```$', re.DOTALL | re.MULTILINE
)
# A fenced or indented line that runs featurelib, in any kind of block.
TYPED = re.compile(r"^(?: {4}|\$ )?(?:\$ )?(?:\.venv/bin/)?(featurelib .*)$", re.MULTILINE)
DIFFERENT = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC)?"), "<time>"),
    (re.compile(r"sha256:[0-9a-f]{64}"), "<digest>"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One thing that is typed, and what a page says is printed."""

    page: str
    line: int
    command: str
    printed: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.command}"


def name_of(page: Path) -> str:
    """A page's path, as people say it."""
    return page.relative_to(ROOT).as_posix()


def examples(page: Path) -> list[Example]:
    """Everything a page types that is to be executed, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in BLOCK.finditer(text):
        if block["why"] is None:
            first = text.count("\n", 0, block.start("text")) + 1
            found += list(_typed(name_of(page), first, block["text"]))
    return found


def files(page: Path) -> dict[str, str]:
    """Files that a page shows whole, by name."""
    return {file["name"]: file["text"] for file in FILE.finditer(page.read_text(encoding="utf-8"))}


def left_out(page: Path) -> list[str]:
    """The reasons of the blocks of a page that are not executed."""
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [block["why"] for block in found if block["why"]]


def _typed(page: str, line: int, text: str) -> Iterator[Example]:
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert parts[0] == "", f"{page}:{line}: a console block begins with a line that is typed"
    for part in parts[1:]:
        command, _, printed = part.partition("\n")
        while command.endswith("\\"):
            more, _, printed = printed.partition("\n")
            command = f"{command}\n{more}"
        yield Example(page=page, line=line, command=command, printed=printed)
        line += part.count("\n")


def is_as_printed(expected: str, found: str) -> bool:
    """Whether what was printed is what the page says."""
    return bool(re.fullmatch(_pattern(_same(expected.strip())), _same(found.strip()), re.DOTALL))


def _same(text: str) -> str:
    for pattern, word in DIFFERENT:
        text = pattern.sub(word, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _pattern(expected: str) -> str:
    """A line of `…` is any lines, none as well; within a line it is anything in that line."""
    found = ""
    for line in expected.splitlines():
        if line.strip() == "…":
            found += r"(?:[^\n]*\n)*"
        else:
            found += "[^\n]*".join(re.escape(part) for part in line.split("…")) + "\n"
    return found


def commands_in(page: Path) -> list[str]:
    """Every command line of featurelib in a page's blocks, also in blocks that are not executed."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:console|bash|sh)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    indented = "\n".join(re.findall(r"^ {4}.*$", outside, re.MULTILINE))
    lines = "\n".join([*blocks, indented]).replace("\\\n", " ")
    return [line.strip() for line in TYPED.findall(lines)]
