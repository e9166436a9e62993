"""What was heard, as landing lines: docs/landing.md says what each kind holds.

Lines come in an order that does not depend on who answered first. What is not in a landing line is
left out: addresses of clients, throttle times, and whatever a later version may add.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from featurelib.backends.kafka_answers import Answer, Api, configurations
from featurelib.backends.kafka_asking import NOT_OFFERED, Asked
from featurelib.backends.kafka_wire import ASKED_API_VERSIONS, SHOWS_FENCED_FROM
from featurelib.core.refusals import NOT_AUTHORIZED

_KINDS = {
    Api.DESCRIBE_CLUSTER: "describe_cluster",
    Api.DESCRIBE_QUORUM: "describe_quorum",
    Api.DESCRIBE_CONFIGS: "describe_configs",
}
_FEATURES = ("error_code", "supported_features", "finalized_features_epoch", "finalized_features")
_SOMETIMES = ("zk_migration_ready", "api_keys")


def lines_of(asked: Asked, cluster_id: str) -> Iterator[bytes]:
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


def _list_line(asked: Asked, answer: Answer, cluster_id: str) -> bytes:
    version, body = answer.version, dict(answer.body)
    said = _who(asked, answer.api) | {"version": version}
    if answer.api is Api.DESCRIBE_CLUSTER:
        body.pop("authorized_operations", None)  # never asked for
        said["endpoint_type"] = body.get("endpoint_type")  # version 0 knows brokers only
        said["include_fenced_brokers"] = version >= SHOWS_FENCED_FROM
    elif answer.api is Api.DESCRIBE_CONFIGS:
        body = configurations(answer)
    return line(_KINDS[answer.api], cluster_id, answer.at, **said, answer=body)


def _who(asked: Asked, api: Api) -> dict[str, object]:
    target = asked.target
    if api is Api.DESCRIBE_CONFIGS:
        who = {"role": target.role.text, "endpoint": asked.address}
    else:
        who = {"listener": target.role.text}
    return {"asked_node": target.node_id, **who}


def line(kind: str, cluster_id: str, at: datetime, **content: object) -> bytes:
    """One landing line, without its line end."""
    time = at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    head = {"kind": kind, "cluster_id": cluster_id, "observed_at": time}
    return msgspec.json.encode(head | content)
