"""One look at a cluster: every listener that can be found is asked once, and what it answers
becomes landing lines (docs/landing.md).

Lines come in an order that does not depend on who answered first. What is not in a landing line is
left out: addresses of clients, throttle times, and whatever a later version may add.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from featurelib.backends.base import Say
from featurelib.backends.kafka.connection import MOST_NODES
from featurelib.backends.kafka.discover import Map, Reach, Search
from featurelib.backends.kafka.protocol import (
    ASKED_API_VERSIONS,
    NOT_OFFERED,
    SHOWS_FENCED_FROM,
    NodeAnswers,
)
from featurelib.backends.kafka.responses import Api, ListenerAnswer, configurations
from featurelib.config.fleet import split_id
from featurelib.errors import UnreachableError
from featurelib.landing.fields import write_line
from featurelib.landing.responses import NOT_AUTHORIZED
from featurelib.words import some

if TYPE_CHECKING:
    from featurelib.backends.zookeeper import Znodes

SHOWN = 10  # nodes, or reasons, of a kind
_KINDS = {
    Api.DESCRIBE_CLUSTER: "describe_cluster",
    Api.DESCRIBE_QUORUM: "describe_quorum",
    Api.DESCRIBE_CONFIGS: "describe_configs",
}
_FEATURES = ("error_code", "supported_features", "finalized_features_epoch", "finalized_features")
_SOMETIMES = ("zk_migration_ready", "api_keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLook:
    """One look: everybody who was asked, in the order of role and id."""

    map: Map
    asked: tuple[NodeAnswers, ...]
    znodes: Znodes | None


def look(reach: Reach, say: Say) -> LiveLook:
    """Ask every listener that can be found. Raises UnreachableError where nobody answers."""
    search = Search(reach, Map(), say, asks=True)
    search.run()
    asked = sorted(search.asked.values(), key=lambda one: (-one.target.role, one.target.node_id))
    silent = [f"{one.target.title}: {one.error}" for one in asked if one.error is not None]
    for text in silent[:SHOWN]:
        say(text)
    if len(silent) > SHOWN:
        say(f"{reach.where}: {len(silent) - SHOWN:,} more listeners did not answer")
    if search.known.is_full:
        say(f"{reach.where}: {MOST_NODES:,} nodes or more are named; no more than that are asked")
    if search.znodes is None and len(silent) == len(asked):
        raise UnreachableError(_nobody(reach, (*search.failures, *silent)))
    say(f"{reach.where}: {len(asked) - len(silent)} of {len(asked)} listeners answered")
    for text in (*_refusals(asked), *voters_not_asked(search.known)):
        say(text)
    return LiveLook(map=search.known, asked=tuple(asked), znodes=search.znodes)


def _nobody(reach: Reach, reasons: Iterable[str]) -> str:
    """That nobody answered, and each reason once. An address that a reason names is not repeated,
    and a reason that stands alone and says what was expected is enough."""
    found = [reason.rstrip(".") for reason in dict.fromkeys(reasons)]
    if len(found) > SHOWN:
        found[SHOWN:] = [f"and {len(found) - SHOWN:,} more"]
    if len(found) == 1 and "expected" in found[0]:
        return f"{found[0]}."
    alone = f"{reach.where}: " if len(found) == 1 else ""
    said = " · ".join(found).removeprefix(alone)
    given = (*reach.bootstrap, *reach.controllers)
    is_named = all(split_id(address)[1] in said for address in given) and bool(given)
    where = "" if is_named else f"{reach.where}: "
    return f"{where}expected at least one node to answer, found: {said}."


def explore(reach: Reach, known: Map) -> None:
    """Who there is, from the addresses that are given; brokers that are known already are asked
    where no given one answers. Raises ConfigError."""
    Search(reach, known, _quietly, asks=False).run()


def _refusals(asked: Iterable[NodeAnswers]) -> Iterator[str]:
    """What nodes that answered did not answer, each reason once."""
    reasons: dict[str, list[str]] = {}
    for one in asked:
        for silence in one.silent:
            if silence.why != NOT_OFFERED.format(silence.api.title):
                reasons.setdefault(silence.why, []).append(one.target.title)
    for why, titles in reasons.items():
        yield f"{some(titles, SHOWN)}: {why}"


def voters_not_asked(known: Map) -> Iterator[str]:
    """Voters nobody knows an address of, and addresses nobody knows a node id of."""
    lost = sorted(known.voters - set(known.controllers))
    if not lost:
        return
    yield (
        f"voters {some([*map(str, lost)], SHOWN)}: not asked, because no address is known. Add "
        "ID@HOST:PORT of each to "
        "controller_bootstrap (--controllers)."
    )
    for address in known.nameless[:SHOWN]:
        yield (
            f"{address}: expected a controller that says its node id, found one that does not "
            "(before 3.7, or under another address). Write it as ID@HOST:PORT."
        )


def _quietly(text: str) -> None:
    """Whoever asks again has heard of it before."""


def lines_of(asked: NodeAnswers, cluster_id: str) -> Iterator[bytes]:
    """Every line of one half of one node."""
    target = asked.target
    who = {
        "node_id": target.node_id,
        "role": target.role.text,
        "endpoint": asked.address,
        "asked_version": ASKED_API_VERSIONS,
    }
    for answer in asked.answers:
        if answer.api is Api.API_VERSIONS:
            said = {key: answer.body[key] for key in _FEATURES}
            said |= {key: answer.body[key] for key in _SOMETIMES if key in answer.body}
            said |= {"answered_version": answer.version}
            yield line("api_versions", cluster_id, answer.at, **who, **said)
        else:
            yield _list_line(asked, answer, cluster_id)
    if asked.error is not None:
        yield line("api_versions", cluster_id, asked.at, **who, error=asked.error)
    for silence in asked.silent:
        not_offered = silence.why == NOT_OFFERED.format(silence.api.title)
        if not_offered and not asked.is_kraft:
            continue  # ZooKeeper mode has no quorum, and 2.7 no DescribeCluster
        said = _who(asked, silence.api)
        said["why" if not_offered else "error"] = silence.why
        if silence.code is not None:
            said["error_code"] = silence.code
        if silence.code == NOT_AUTHORIZED and asked.principal:
            said["principal"] = asked.principal
        yield line(_KINDS[silence.api], cluster_id, silence.at, **said)


def _list_line(asked: NodeAnswers, answer: ListenerAnswer, cluster_id: str) -> bytes:
    version, body = answer.version, dict(answer.body)
    said = _who(asked, answer.api) | {"version": version}
    if answer.api is Api.DESCRIBE_CLUSTER:
        body.pop("authorized_operations", None)  # never asked for
        said["endpoint_type"] = body.get("endpoint_type")  # version 0 knows brokers only
        said["include_fenced_brokers"] = version >= SHOWS_FENCED_FROM
    elif answer.api is Api.DESCRIBE_CONFIGS:
        return line(
            _KINDS[answer.api], cluster_id, answer.at, **said, answer=configurations(answer)
        )
    return line(_KINDS[answer.api], cluster_id, answer.at, **said, answer=body)


def _who(asked: NodeAnswers, api: Api) -> dict[str, object]:
    target = asked.target
    if api is Api.DESCRIBE_CONFIGS:
        who = {"role": target.role.text, "endpoint": asked.address}
    else:
        who = {"listener": target.role.text}
    return {"asked_node": target.node_id, **who}


def line(kind: str, cluster_id: str, at: datetime, **keys: object) -> bytes:
    """One landing line, without its line end."""
    return write_line(kind, cluster_id, round(at.timestamp() * 1_000_000), keys)
