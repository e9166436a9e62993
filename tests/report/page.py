"""Reads a page back as a browser would see it: its counts, its rows, and every piece of text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from featurelib.feature import Verdict

VOID = {"meta", "wbr", "input", "path", "line", "br", "rect"}
ENDS = {"tr": ("td", "th", "tr"), "td": ("td", "th"), "th": ("td", "th")}  # what a tag ends unsaid


@dataclass
class Page:
    """What stands on a page."""

    tiles: list[tuple[str, str]] = field(default_factory=list)  # number, label
    rows: list[str] = field(default_factory=list)  # the verdict of each row of the grid
    verdicts: list[str] = field(default_factory=list)  # of the features of clusters in full
    tasks: list[str] = field(default_factory=list)  # the verb of each thing to do today
    mutes: list[str] = field(default_factory=list)  # the state of each
    articles: int = 0
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._in: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        while self._in and self._in[-1][0] in ENDS.get(tag, ()):
            self._in.pop()
        self.page.tags.append((tag, given))
        if given.get("id"):
            self.page.ids.append(given["id"] or "")
        if tag == "a":
            self.page.links.append(given.get("href") or "")
        self.page.articles += tag == "article"
        verdict = (given.get("class") or "").removesuffix(" critical")
        if "data-s" in given and verdict in set(Verdict):
            self.page.rows.append(verdict)
        if tag not in VOID:
            self._in.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        text = data.strip()
        if not text or any(tag in ("style", "script") for tag, _ in self._in):
            return
        self.page.texts.append(text)
        names = [tag for tag, _ in self._in]
        lists = [given.get("class") for tag, given in self._in if tag in ("ul", "section")]
        if "today" in lists:
            self.page.tasks += [text] if names[-2:] == ["li", "b"] else []
        elif "tiles" in lists and names[-1] == "b":
            self.page.tiles.append((text, ""))
        elif names[-2:] == ["li", "strong"]:
            self.page.mutes.append(text)
        elif "tiles" in lists and self.page.tiles[-1][1] == "":
            self.page.tiles[-1] = (self.page.tiles[-1][0], text)
        if names[-1:] == ["td"] and "article" in names:
            self.page.verdicts += [text] if (self._in[-1][1].get("class") or "") == text else []


def read_page(text: str) -> Page:
    """The page in `text`."""
    reader = _Reader()
    reader.feed(text)
    return reader.page
