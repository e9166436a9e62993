"""A request that was refused for want of a right, as the snapshot row carries it.

The fold writes it among the `oddities`, the core reads it there; what follows from it is said by
featurelib.core.rights.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from featurelib.core import oddity
from featurelib.feature import Role

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


def write(refusal: Refusal) -> str:
    """The refusal as an entry of `oddities`."""
    words = [refusal.request, refusal.role.text, str(refusal.node_id)]
    words += ["elsewhere" if refusal.elsewhere else "nowhere", refusal.principal]
    return oddity.write(
        oddity.Oddity(code=REFUSED, detail=" ".join(words), at=refusal.at, line=refusal.line)
    )


def read(entry: oddity.Oddity) -> Refusal:
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
