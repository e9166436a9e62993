"""What conf/audit.toml mutes of the reasons that are shown: said below them, never left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from featurelib.core.mutes import SetAside
from featurelib.questions.muted import told
from featurelib.view import digest
from featurelib.view.layout import wrap
from featurelib.words import clean

HEAD = "muted in conf/audit.toml, and in the way all the same"


def muted_lines(found: Iterable[SetAside | None], width: int, head: str = HEAD) -> Iterator[str]:
    """A heading and a line for each code and reason, after an empty line; nothing without any."""
    muted = told(found)
    if muted:
        yield ""
        yield from wrap(head, width)
        for text in digest.muted_lines(muted):
            yield from wrap(clean(text, 600), width, "  ", "    ")
