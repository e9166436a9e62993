"""What conf/audit.toml mutes of the reasons that are shown: said below them, never left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from featurelib.cli.layout import wrapped
from featurelib.core.mutes import SetAside
from featurelib.questions.muted import told
from featurelib.report.clean import clean
from featurelib.report.muted import say_muted

HEAD = "muted in conf/audit.toml, and in the way all the same"


def muted_lines(found: Iterable[SetAside | None], width: int, head: str = HEAD) -> Iterator[str]:
    """A heading and a line for each code and reason, after an empty line; nothing without any."""
    muted = told(found)
    if muted:
        yield ""
        yield from wrapped(head, width)
        for text in say_muted(muted):
            yield from wrapped(clean(text, 600), width, "  ", "    ")
