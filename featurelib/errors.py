"""The errors that featurelib raises for a caller, as one tree.

    FeatureLibError
    ├── InputError           LandingError · PlanError · TableError
    │                        ConfigError (CredentialsError)
    ├── RefusedError         StalePlanError · ApprovalError · RejectedError · BusyError
    │                        JournalError
    ├── OutcomeUnknownError
    └── BackendError         UnreachableError · ProtocolError · NoEvidenceError
                             SurroundingsError

A message says what is wrong, where, and which command is next. Each class has the exit code of the
process, so that no command chooses its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import ClassVar


class FeatureLibError(Exception):
    """An error that the caller can act on. Programming errors do not belong to this tree."""

    exit_code: ClassVar[int] = 2
    facts: Mapping[str, object] = MappingProxyType({})  # keys for programs, besides the message


class InputError(FeatureLibError):
    """An invalid file, table or argument of the caller; nothing was written."""


class LandingError(InputError):
    """A landing folder that is missing, empty or unreadable."""


class PlanError(InputError):
    """A plan or approval file that cannot be read."""


class ConfigError(InputError):
    """A configuration file or command line argument that cannot be used."""


class CredentialsError(ConfigError):
    """A missing or unusable secret or file for the connection to a cluster."""


class TableError(InputError):
    """A table whose schema is not the one this release reads and writes."""


class RefusedError(FeatureLibError):
    """The request was understood and declined; nothing was written."""

    exit_code = 3


class StalePlanError(RefusedError):
    """An error because the evidence behind a plan has changed."""


class ApprovalError(RefusedError):
    """An error because the approval is missing, expired, unsigned or of another plan."""


class RejectedError(RefusedError):
    """An error because the controller refused the request."""


class BusyError(RefusedError):
    """An error because another run holds these tables, or this cluster."""


class JournalError(RefusedError):
    """A request that cannot be recorded, so it is not sent."""


class OutcomeUnknownError(FeatureLibError):
    """An error after which something may have been written: read the cluster, and resume."""

    exit_code = 4


class BackendError(FeatureLibError):
    """An error because no data could be read."""

    exit_code = 5


class UnreachableError(BackendError):
    """An error because no node of the cluster responded. `lines` are landing lines about the
    queried nodes: none if the cluster itself never listed them. `reason` is the message without the
    `advice` behind it."""

    def __init__(self, reason: str, lines: Sequence[bytes] = (), advice: str = "") -> None:
        super().__init__(f"{reason} {advice}".rstrip())
        self.reason, self.lines = reason, tuple(lines)


class ProtocolError(BackendError):
    """A response without the shape that the protocol gives it."""


class NoEvidenceError(BackendError):
    """An error because there is no data to judge."""


class SurroundingsError(BackendError):
    """A failing disk, store, worker or table file: fix it, and run again."""


@contextmanager
def needing(need: str, extra: str) -> Iterator[None]:
    """Turn an ImportError in the block into a ConfigError that says how to install `need`."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{need}. Install it, {install_line(extra)}") from error


def install_line(extra: str) -> str:
    """Return the command that installs the optional part `extra` from a checkout.

    The bare name belongs to another project on the public index.
    """
    return f"in a checkout of featurelib: pip install '.[{extra}]'"
