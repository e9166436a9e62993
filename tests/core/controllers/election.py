"""What a newly elected controller of ZooKeeper mode makes of the features node."""

from __future__ import annotations

from dataclasses import dataclass

from tests.core.controllers.node import Content, DamagedError, WrongTypeError, read_node
from tests.core.controllers.words import Range, minor


@dataclass(frozen=True)
class Election:
    """`node`: the content afterwards; `written`: the node's version moved (or began at 0)."""

    elected: bool
    node: Content | None
    written: bool


def elect(release: str, ibp: str, content: str | None, supported: dict[str, Range]) -> Election:
    if minor(release) < (3, 3):
        return elect_27(ibp, content, supported)
    return elect_33(ibp, content, supported)


def elect_27(ibp: str, content: str | None, supported: dict[str, Range]) -> Election:
    """2.7 to 3.2: schema 1 with minimum levels; the schema alone is no reason to write."""
    on = minor(ibp) >= (2, 7)
    if content is None:
        return Election(True, Content(1, on, dict(supported) if on else {}), True)
    try:
        node = read_node("zk-2.7", content)
    except (DamagedError, WrongTypeError):
        return Election(False, None, False)
    if on and node.enabled:
        return Election(True, node, False)
    if not on and not node.enabled and not node.features:
        return Election(True, node, False)
    return Election(True, Content(1, on, {}), True)


def elect_33(ibp: str, content: str | None, supported: dict[str, Range]) -> Election:
    """3.3 to 3.9: schema 2 from protocol version 3.3 on, else 1 with minimum = level."""
    on = minor(ibp) >= (2, 7)
    schema = 2 if minor(ibp) >= (3, 3) else 1
    if content is None:
        best = {name: (high, high) for name, (_, high) in supported.items()} if on else {}
        return Election(True, Content(schema, on, best), True)
    try:
        node = read_node("zk-3.3", content)
    except (DamagedError, WrongTypeError):
        return Election(False, None, False)
    if on and node.enabled:
        if node.schema == schema:
            return Election(True, node, False)
        return Election(True, Content(schema, True, node.features), True)
    if not on and not node.enabled and not node.features and node.schema == schema:
        return Election(True, node, False)
    return Election(True, Content(schema, on, {}), True)
