"""At which line of an inventory a cluster and its keys stand, for whoever has to mend it.

TOML readers keep no places, so the text is looked through again. What is written in an unusual form
(all clusters in one list) has no line here, and then none is said.
"""

from __future__ import annotations

import re
from itertools import count

_CLUSTER = re.compile(r"\s*\[\[\s*cluster\s*\]\]")
_TABLE = re.compile(r"\s*\[\s*cluster\s*\.\s*\"?(\w+)\"?\s*\]")
_KEY = re.compile(r"\s*\"?(\w+)\"?\s*[=.]")


def line_of(text: str, position: int, key: str = "") -> int | None:
    """The line, from 1, of a key of the [[cluster]] at a position, from 0; of a key in a table it
    has, as `security.protocol`; of its head where the key does not stand there."""
    table, _, inner = key.rpartition(".")
    clusters, found, inside = count(), None, ""
    at = -1
    for number, line in enumerate(text.splitlines(), start=1):
        if _CLUSTER.match(line):
            at, inside = next(clusters), ""
            if at == position:
                found = number
        elif at == position:
            head, said = _TABLE.match(line), _KEY.match(line)
            if head is not None:
                inside = head[1]
                found = number if inside in (table, key) else found
            elif said is not None and (inside, said[1]) in ((table, inner), ("", table)):
                return number
    return found
