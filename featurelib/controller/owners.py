"""Whose it is to finalize a cluster's levels, where it is not ours, and how they are changed there.

The inventory's `managed_by` says it. What is managed from elsewhere is never sent a request: its
owner would put back what we wrote, or fail over it.
"""

from __future__ import annotations

from shlex import quote

from featurelib.configuration.fleet import Cluster, Fleet
from featurelib.errors import RefusedError

# How levels are changed there; Strimzi: Kafka resource, spec.kafka.metadataVersion; MSK: the AWS
# command line raises metadata.version with the Kafka version.
_COMMANDS = {
    "strimzi": "kubectl patch kafka {name} --type merge --patch "
    """'{{"spec":{{"kafka":{{"metadataVersion":"VERSION"}}}}}}'""",
    "msk": "aws kafka update-cluster-kafka-version --cluster-arn ARN --current-version VERSION "
    "--target-kafka-version RELEASE",
}


def command_of(entry: Cluster) -> str:
    """The owner's command, or whom to ask where none is known."""
    known = _COMMANDS.get(entry.managed_by.casefold())
    if known is not None:
        return f"Use its command: {known.format(name=quote(entry.title))}"
    asked = " ".join(text for text in (entry.owner, entry.contact) if text)
    return f"Change levels through {entry.managed_by}" + (f"; ask {asked}." if asked else ".")


def expect_ours(cluster: str, fleet: Fleet) -> None:
    """Raises RefusedError where the inventory says that somebody else finalizes there."""
    for entry in fleet.cluster:
        if entry.id == cluster and entry.managed_by:
            raise RefusedError(
                f"cluster {entry.title} ({entry.id}): expected one whose levels we finalize, found "
                f"one managed by {entry.managed_by} (managed_by in the inventory). Nothing was "
                f"sent. {command_of(entry)}"
            )
