"""Every error featurelib raises for a caller, as one tree.

    FeatureLibError
    ├── InputError           LandingError · PlanError · TableError
    │                        ConfigError (CredentialsError)
    ├── RefusedError         StalePlanError · ApprovalError · RejectedError · BusyError
    │                        JournalError
    ├── OutcomeUnknownError
    └── BackendError         UnreachableError · ProtocolError · NoEvidenceError
                             SurroundingsError

A message says what, where, expected and found, and the next command. Each class carries the exit
code of the process it ends, so that no command decides that for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar


class FeatureLibError(Exception):
    """An error that the caller can act on. Programming errors are not of this tree."""

    exit_code: ClassVar[int] = 2
    facts: Mapping[str, object] = MappingProxyType({})  # what a program is told beside the message


class InputError(FeatureLibError):
    """The caller's file, table or argument is at fault; nothing was written."""


class LandingError(InputError):
    """A landing folder that is missing, empty or unreadable."""


class PlanError(InputError):
    """A plan or approval file that cannot be read."""


class ConfigError(InputError):
    """A configuration file or command line argument that cannot be used."""


class CredentialsError(ConfigError):
    """A secret or a file that a cluster is spoken to by, which is not there or cannot be used."""


class TableError(InputError):
    """A table whose schema is not the one this release reads and writes."""


class RefusedError(FeatureLibError):
    """The request was understood and declined; nothing was written."""

    exit_code = 3


class StalePlanError(RefusedError):
    """The evidence a plan was made from no longer holds."""


class ApprovalError(RefusedError):
    """The approval is missing, expired, unsigned or of another plan."""


class RejectedError(RefusedError):
    """The controller refused the request."""


class BusyError(RefusedError):
    """An error because another run holds these tables, or this cluster."""


class JournalError(RefusedError):
    """A request that cannot be written down, so it is not sent."""


class OutcomeUnknownError(FeatureLibError):
    """An error after which something may have been written: read the cluster, and resume."""

    exit_code = 4


class BackendError(FeatureLibError):
    """An error because no data could be read."""

    exit_code = 5


class UnreachableError(BackendError):
    """No node of the cluster answered. `lines` are the landing lines of those whose own listeners
    were asked: none where the cluster itself never said who there is. `reason` is the message
    without the `advice` behind it."""

    def __init__(self, reason: str, lines: Sequence[bytes] = (), advice: str = "") -> None:
        super().__init__(f"{reason} {advice}".rstrip())
        self.reason, self.lines = reason, tuple(lines)


class ProtocolError(BackendError):
    """An answer that does not have the shape the protocol gives it."""


class NoEvidenceError(BackendError):
    """An error because there is no data to judge."""


class SurroundingsError(BackendError):
    """A disk, a store, a worker or a file of a table failed: fix it, and run again."""


def install_line(extra: str) -> str:
    """The command that installs an optional part, from a checkout.

    Not by the bare name: on the public index that is another project's.
    """
    return f"in a checkout of featurelib: pip install '.[{extra}]'"
