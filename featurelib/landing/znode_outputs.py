"""What ZooKeeper's shell prints for `get -s PATH`, as the keys of `znode` lines.

The shell prints the data as it is and then its stat. `dataLength` says which lines before the stat
are the data: nothing else is taken for it, and what does not fit is an error. A path is read from
the command where the output shows it, and otherwise has to be told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from featurelib.errors import LandingError

_PROMPT = re.compile(r"^(?:\[zk: [^\]]*\] ?)+")
_COMMAND = re.compile(r"(?:\S*zookeeper-shell(?:\.sh)? \S+ |\S*zkCli\.sh .*)?get(?: -[sw])* (/\S*)")
_ABSENT = re.compile(r"(?:Node does not exist: |.*KeeperErrorCode = NoNode for )(/\S+)")
_STAT = re.compile(r"(cZxid|dataVersion|ephemeralOwner|dataLength|numChildren) = (\S+)")
_OTHER_STAT = re.compile(r"(?:ctime|mZxid|mtime|pZxid|cversion|aclVersion) = ")
_LONGEST = 1 << 16  # lines of one znode

Fault = Callable[[str, int | None], LandingError]


def znodes(
    lines: Iterator[tuple[int, str]], paths: tuple[str, ...], chroot: str, fault: Fault
) -> Iterator[tuple[int, dict[str, object]]]:
    """(line number, keys) of every znode shown; raises what `fault` makes of a sentence.

    `paths` name, in order, those that the output does not. Source: ZooKeeper, GetCommand.
    """
    left = list(paths)
    reader = _Reader(fault)
    some = False
    for number, text in lines:
        keys = reader.take(number, _PROMPT.sub("", text, count=1))
        if keys is None:
            continue
        some = True
        path = keys["path"] or (left.pop(0) if left else "")
        if not path:
            raise fault(
                "which znode this is does not show: expected a line 'get -s PATH' before it, or "
                "one more --path PATH.",
                number,
            )
        if keys["path"] and left[:1] == [keys["path"]]:
            left.pop(0)
        yield number, keys | {"path": _below(str(path), chroot, number, fault)}
    if not some:
        raise fault("expected what 'get -s PATH' prints, found no stat (cZxid = …).", None)
    if left:
        raise fault(f"expected {', '.join(left)} too (--path), found no more znodes.", None)


class _Reader:
    """The lines since the last znode, and the stat that is being read."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.path = ""
        self.before: list[str] = []
        self.stat: dict[str, int] = {}

    def take(self, number: int, text: str) -> dict[str, object] | None:
        """The keys of a znode whose last line this is, else None."""
        if command := _COMMAND.fullmatch(text.strip()):
            self.path, self.before = command[1], []
            return None
        if absent := _ABSENT.fullmatch(text.strip()):
            self.path, self.before = "", []
            return {"path": absent[1], "version": None, "data": None}
        if found := _STAT.fullmatch(text):
            self.stat[found[1]] = self._number(found[2], number)
            return self._end(number) if found[1] == "numChildren" else None
        if not (self.stat and _OTHER_STAT.match(text)):
            self.before = [*self.before[-_LONGEST:], text]
        return None

    def _number(self, text: str, number: int) -> int:
        try:
            return int(text, 0)
        except ValueError:
            raise self.fault(f"expected a number, found {text!r}.", number) from None

    def _end(self, number: int) -> dict[str, object]:
        stat, self.stat = self.stat, {}
        missing = [name for name in ("cZxid", "dataVersion", "dataLength") if name not in stat]
        if missing:
            raise self.fault(f"expected a whole stat, found none of {', '.join(missing)}.", number)
        data = self._data(stat["dataLength"], number)
        path, self.path, self.before = self.path, "", []
        return {
            "path": path,
            "version": stat["dataVersion"],
            "czxid": stat["cZxid"],
            "ephemeral_owner": stat.get("ephemeralOwner"),
            "data": data,
        }

    def _data(self, length: int, number: int) -> str:
        """The lines just before the stat that are `length` bytes together."""
        if length == 0:
            return ""
        size = -1
        for i in range(len(self.before) - 1, -1, -1):
            size += len(self.before[i].encode()) + 1
            if size == length:
                return "\n".join(self.before[i:])
            if size > length:
                break
        raise self.fault(
            f"expected {length} bytes of data before this stat (dataLength), found none that "
            "fit: the output was cut or changed, or the data is no text.",
            number,
        )


def _below(path: str, chroot: str, number: int, fault: Fault) -> str:
    """`path` from the cluster's chroot on."""
    root = chroot.rstrip("/")
    if not path.startswith(f"{root}/"):
        raise fault(f"expected a path below --chroot {chroot}, found {path}.", number)
    return path.removeprefix(root)
