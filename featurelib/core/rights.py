"""Requests that are refused for want of a right: the error, and the operation each needs."""

from __future__ import annotations

from featurelib.feature import Role

NOT_AUTHORIZED = 31  # CLUSTER_AUTHORIZATION_FAILED
# Operations on the resource CLUSTER.
DESCRIBE, ALTER, DESCRIBE_CONFIGS = "DESCRIBE", "ALTER", "DESCRIBE_CONFIGS"
# The requests, named as the landing lines that hold their answers.
QUORUM, MEMBERS, PROBE = "describe_quorum", "describe_cluster", "probe"
CONFIGS = "describe_configs"
HONOURED = "honoured"  # of a dialect: a request to validate is not applied


def needed(request: str, role: Role) -> str:
    """The operation on CLUSTER that a request asks for (ControllerApis and KafkaApis, 3.3 to 4.4).

    A controller lists controllers to those only who may alter the cluster.
    """
    if request == CONFIGS:
        return DESCRIBE_CONFIGS
    to_alter = request == PROBE or (request == MEMBERS and role is Role.CONTROLLER)
    return ALTER if to_alter else DESCRIBE
