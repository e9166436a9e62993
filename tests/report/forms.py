"""Text and page of a report taken apart: what stands in which of their parts, about which cluster.

A place is a part of the whole (`Today`), or of what stands of one cluster (`Findings`), and has
units: the rows, list entries or paragraphs in it, each as one line of text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from html.parser import HTMLParser

Place = tuple[str, str]  # the name of the cluster or "", and the part
Places = dict[Place, list[str]]
UNITS = {"tr", "li", "figure", "dt", "p", "pre", "header", "h4", "caption"}
HEAD = "head"  # of a cluster, before its first part
TABLE = "Clusters, worst first"
DETAILS = "What to do, cluster by cluster"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.places = defaultdict[Place, list[str]](list)
        self._cluster, self._part, self._title = "", HEAD, ""
        self._silent = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "article":
            self._cluster, self._part = "?", HEAD
        elif tag in ("h2", "h4") or (self._cluster == "?" and tag in ("h3", "h1")):
            self._title, self._part = tag, "" if tag in ("h2", "h4") else HEAD
        elif given.get("id") == "grid":
            self._part = "grid"
        is_finding = (given.get("class") or "").startswith("finding")
        if is_finding or (tag in UNITS and not (self._part == "Findings" and tag != "h4")):
            self.places[self._cluster, self._part].append("")
        self._silent = tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._cluster, self._part = "", "?"
        self._silent = False

    def handle_data(self, data: str) -> None:
        text = data.strip()
        if not text or self._silent:
            return
        if self._title in ("h1", "h3"):
            self._cluster, self._part = text, HEAD
        elif self._title in ("h2", "h4"):
            self._part = text
        self._title = ""
        units = self.places[self._cluster, self._part] or [""]
        units[-1] = f"{units[-1]} {text}"
        self.places[self._cluster, self._part] = units


def places_of_page(text: str) -> Places:
    """The places of a page; what stands of a cluster is called as its headings are."""
    reader = _Page()
    reader.feed(text.replace("<wbr>", ""))  # a name that may be parted is one
    return {place: list(map(_plain, units)) for place, units in reader.places.items()}


def places_of_text(text: str) -> Places:
    """The places of the text in full and unwrapped; what stands of a cluster is called as it is
    labelled, and its row in the table is of the part `TABLE`."""
    found = defaultdict[Place, list[str]](list)
    title, cluster, label = HEAD, "", HEAD
    lines = text.splitlines()
    for number, line in enumerate(lines):
        starts = number == 0 or not lines[number - 1]
        if starts and line and not line.startswith(" "):
            words = re.split(r"  +", line)
            if title == DETAILS and not line.startswith(("Mutes", "Over ", "Next ")):
                cluster, label = words[1], HEAD
            else:
                title, cluster, label = words[0], "", words[0]
        elif title == DETAILS and cluster and line:
            label = line[:10].strip() or label
        if line:
            found[cluster, label].append(_plain(line))
    return dict(found)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("–", "-").strip()
