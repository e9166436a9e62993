"""How listeners are written in the inventory: HOST:PORT, a controller's also as ID@HOST:PORT.

An IPv6 address stands in brackets, with its zone where it has one: [fe80::1%eth0]:9092.
"""

from __future__ import annotations

import re

LARGEST_ID = 2**31 - 1  # of a node
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|[^\s,/:@\[\]]+):(\d{1,5})", re.ASCII)
_WITH_ID = re.compile(r"(?:(\d{1,10})@)?(.*)", re.ASCII | re.DOTALL)
_CHROOT = re.compile(r"(?:/[^/\s,]+)*/?")


def is_address(text: str) -> bool:
    """Whether `text` is HOST:PORT; an IPv6 address stands in brackets."""
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[1]) < 2**16


def is_controller_address(text: str) -> bool:
    """Whether `text` is HOST:PORT, with or without the node id before it, as 100@[::1]:9093."""
    node, address = split_id(text)
    return (node is None or node <= LARGEST_ID) and is_address(address)


def split_id(text: str) -> tuple[int | None, str]:
    """The node id before an address, None where there is none, and the address."""
    found = _WITH_ID.fullmatch(text)
    assert found is not None  # the pattern takes any text
    return (None if found[1] is None else int(found[1])), found[2]


def is_ensemble(text: str) -> bool:
    """Whether `text` is HOST:PORT[,HOST:PORT …][/CHROOT], as ZooKeeper is written."""
    hosts, slash, chroot = text.partition("/")
    return all(map(is_address, hosts.split(","))) and _CHROOT.fullmatch(slash + chroot) is not None
