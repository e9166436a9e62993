"""An entry of a snapshot row's `oddities`: a code, perhaps when and in which line, and what was
seen, as `code:detail` or `code@MICROSECONDS,LINE:detail`. The fold writes it, the core reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from featurelib.feature import Role

FUTURE = "evidence_from_the_future"  # lines that are dated later than what is judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """One entry. `at` in microseconds and `line` as in bronze; 0 = it names no line."""

    code: str
    detail: str
    at: int = 0
    line: int = 0


def write_oddity(oddity: Oddity) -> str:
    """The entry as the row holds it."""
    place = f"@{oddity.at},{oddity.line}" if oddity.at else ""
    return f"{oddity.code}{place}:{oddity.detail}"


def read_oddity(entry: str) -> Oddity:
    """The entry that `write` wrote. Raises ValueError for any other text."""
    head, detail = entry.split(":", 1)
    code, at_sign, place = head.partition("@")
    if not at_sign:
        return Oddity(code=code, detail=detail)
    at, line = place.split(",")
    return Oddity(code=code, detail=detail, at=int(at), line=int(line))


# ----------------------------------------
# A request that was refused for want of a right, as the snapshot row carries it.
#
# The fold writes it among the `oddities`, the core reads it there; what follows from it is said by
# featurelib.audit.missing.

NOT_AUTHORIZED = 31  # CLUSTER_AUTHORIZATION_FAILED
# Operations on the resource CLUSTER.
DESCRIBE, ALTER, DESCRIBE_CONFIGS = "DESCRIBE", "ALTER", "DESCRIBE_CONFIGS"
QUORUM, MEMBERS, PROBE = "describe_quorum", "describe_cluster", "probe"
CONFIGS = "describe_configs"
REFUSED = "right_refused"  # the oddity
_REQUESTS: Final = "|".join((QUORUM, MEMBERS, PROBE, CONFIGS))
_DETAIL: Final = re.compile(
    rf"({_REQUESTS}) (broker|controller) (-1|\d{{1,10}}) (elsewhere|nowhere) (.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One request that one half of the nodes refused last for want of a right.

    `node_id` -1 = the active controller, whoever it was. `elsewhere`: the other half answered it.
    `principal` "" = the collector did not know it.
    """

    request: str
    role: Role
    node_id: int
    elsewhere: bool
    principal: str
    at: int = 0
    line: int = 0


def needed(request: str, role: Role) -> str:
    """The operation on CLUSTER that a request asks for (ControllerApis and KafkaApis, 3.3 to 4.4).

    A controller lists controllers to those only who may alter the cluster.
    """
    if request == CONFIGS:
        return DESCRIBE_CONFIGS
    to_alter = request == PROBE or (request == MEMBERS and role is Role.CONTROLLER)
    return ALTER if to_alter else DESCRIBE


def write_refusal(refusal: Refusal) -> str:
    """The refusal as an entry of `oddities`."""
    words = [refusal.request, refusal.role.text, str(refusal.node_id)]
    words += ["elsewhere" if refusal.elsewhere else "nowhere", refusal.principal]
    return write_oddity(
        Oddity(code=REFUSED, detail=" ".join(words), at=refusal.at, line=refusal.line)
    )


def read_refusal(entry: Oddity) -> Refusal:
    """What `write` wrote. Raises ValueError for any other text."""
    found = _DETAIL.fullmatch(entry.detail)
    if found is None:
        raise ValueError(f"{REFUSED}: expected a refusal, found {entry.detail!r}")
    request, role, node_id, elsewhere, principal = found.groups()
    return Refusal(
        request=request,
        role=Role[role.upper()],
        node_id=int(node_id),
        elsewhere=elsewhere == "elsewhere",
        principal=principal,
        at=entry.at,
        line=entry.line,
    )


# ----------------------------------------
# What a controller answered to a request to validate only, as the snapshot row carries it.
#
# The fold writes it among the `oddities`, the core reads it there; what it proves is said by
# featurelib.audit.probe.

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


def write_probe(asked: Sequence[Asked], at: int, line: int) -> str:
    """A probe as an entry of `oddities`; `at` in microseconds."""
    rows = [[one.feature, one.from_level, one.to_level, one.code, one.message] for one in asked]
    return write_oddity(Oddity(code=PROBED, detail=json.dumps(rows), at=at, line=line))


def read_probe(entry: Oddity) -> tuple[Asked, ...]:
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
