"""What a controller answered to a request to validate only, as the snapshot row carries it.

The fold writes it among the `oddities`, the core reads it there; what it proves is said by
featurelib.core.probes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from featurelib.core import oddity

PROBED = "probed"  # the oddity
HONOURED = "honoured"  # of a dialect: a request to validate is not applied
_ANSWERED_OK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One update the controller validated, and its code and words about it."""

    feature: str
    from_level: int
    to_level: int
    code: int
    message: str

    @property
    def is_agreed(self) -> bool:
        return self.code == _ANSWERED_OK


def write(asked: Sequence[Asked], at: int, line: int) -> str:
    """A probe as an entry of `oddities`; `at` in microseconds."""
    rows = [[one.feature, one.from_level, one.to_level, one.code, one.message] for one in asked]
    return oddity.write(oddity.Oddity(code=PROBED, detail=json.dumps(rows), at=at, line=line))


def read(entry: oddity.Oddity) -> tuple[Asked, ...]:
    """What `write` wrote. Raises ValueError for any other text."""
    rows: object = json.loads(entry.detail)
    if not isinstance(rows, list):
        raise ValueError(f"{PROBED}: expected a list, found {entry.detail!r}")
    return tuple(map(_asked, rows))


def _asked(row: object) -> Asked:
    match row:
        case [str(name), int(low), int(high), int(code), str(message)]:
            return Asked(feature=name, from_level=low, to_level=high, code=code, message=message)
    raise ValueError(f"{PROBED}: expected feature, levels, code and words, found {row!r}")
