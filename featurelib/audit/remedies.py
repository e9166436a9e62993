"""What to do about a node that is in the way or gone: made here and nowhere else.

It depends on the role and on what the cluster can do: a broker can be unregistered, a controller
only from a metadata.version on. The words are in remedies.toml.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

import msgspec

from featurelib.feature import Role

# KIP-1312; FeatureControlManager refuses UnregisterController below it (MetadataVersion 4.4-IV2).
CONTROLLERS_UNREGISTER_FROM = 33
ANY_ADDRESS = "HOST:PORT"  # in a command: a broker of the cluster it is for


class Action(StrEnum):
    """What to do about a node that is in the way; a row of remedies.toml."""

    UPGRADE = "upgrade"  # its software
    DOWNGRADE = "downgrade"  # it no longer knows so low a level
    MIGRATE = "migrate"  # a broker in ZooKeeper mode, whose cluster migrates to KRaft
    START = "start"  # it does not answer us, and Kafka does not call it gone
    START_AGAIN = "start_again"  # it is gone, and nobody knows what its cluster allows
    START_NEWER = "start_newer"  # it does not answer, and is too old for what is finalized
    REGISTER_NEWER = "register_newer"  # it is not registered, and is too old for that
    REGISTER = "register"  # a voter that never did
    RECONFIGURE = "reconfigure"  # it only stands in the active controller's configuration
    UNREGISTER = "unregister"  # a broker that is gone
    REGISTER_ANEW = "register_anew"  # a controller that is gone, where none can be unregistered
    UNREGISTER_CONTROLLER = "unregister_controller"  # … where it can


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """The words of one action; {node} and {software} are to be filled in."""

    text: str
    command: str

    def of(self, node_id: int, release: str, address: str = "") -> Remedy:
        """The same words about one node; `release` and `address` as `software` and `filled` say."""
        known = {"node": node_id, "software": software(release)}
        command = filled(self.command.format_map(known), address)
        return Remedy(text=self.text.format_map(known), command=command)


def filled(command: str, address: str) -> str:
    """Fills in the brokers of a command, at `address`, host:port[,host:port]; "" = not known."""
    return command.replace(ANY_ADDRESS, shlex.quote(address)) if address else command


@cache
def remedies() -> dict[Action, Remedy]:
    """The words of every action."""
    table = resources.files(__package__).joinpath("remedies.toml").read_bytes()
    return msgspec.toml.decode(table, type=dict[Action, Remedy])


def action_for_gone(role: Role, metadata_version: int | None) -> Action:
    """What to do about a registered node that Kafka itself does not see.

    `metadata_version` as it is finalized; None = not known, or ZooKeeper mode, where a registration
    ends with its session.
    """
    if metadata_version is None:
        return Action.START_AGAIN
    if role is Role.BROKER:
        return Action.UNREGISTER
    can = metadata_version >= CONTROLLERS_UNREGISTER_FROM
    return Action.UNREGISTER_CONTROLLER if can else Action.REGISTER_ANEW


def software(release: str) -> str:
    """The least software that helps, in words; `release` "" = none is known."""
    return (
        f"Kafka {release} or later"
        if release
        else "software that supports what is finalized and what is wanted"
    )
