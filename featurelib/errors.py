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
    """An error that the caller can act on. Programming errors have other classes."""

    exit_code: ClassVar[int] = 2
    facts: Mapping[str, object] = MappingProxyType({})  # keys for programs, besides the message


class InputError(FeatureLibError):
    """An error because a file, table or argument is invalid; nothing was written."""


class LandingError(InputError):
    """An error because a landing folder is missing, empty or unreadable."""


class PlanError(InputError):
    """An error because a plan or approval file cannot be read."""


class ConfigError(InputError):
    """An error because a configuration file or command line argument is invalid."""


class CredentialsError(ConfigError):
    """An error because a secret or file for the connection is missing or unusable."""


class TableError(InputError):
    """An error because a table has the schema of another release."""


class RefusedError(FeatureLibError):
    """An error because featurelib or the controller declined the request; nothing was written."""

    exit_code = 3


class StalePlanError(RefusedError):
    """An error because the evidence behind a plan has changed."""


class ApprovalError(RefusedError):
    """An error because the approval is missing, expired, unsigned or of another plan."""


class RejectedError(RefusedError):
    """An error because the controller refused the request."""


class BusyError(RefusedError):
    """An error because another process holds the tables or the cluster."""


class JournalError(RefusedError):
    """An error because the journal cannot record a request; the request is not sent."""


class OutcomeUnknownError(FeatureLibError):
    """An error after which the outcome of a request is unknown. Run `featurelib resume`."""

    exit_code = 4


class BackendError(FeatureLibError):
    """An error because no data could be read."""

    exit_code = 5


class UnreachableError(BackendError):
    """An error because no node of the cluster responded. `lines`: landing lines about the queried
    nodes; `reason`: the message without `advice`."""

    def __init__(self, reason: str, lines: Sequence[bytes] = (), advice: str = "") -> None:
        super().__init__(f"{reason} {advice}".rstrip())
        self.reason, self.lines = reason, tuple(lines)


class ProtocolError(BackendError):
    """An error because a response does not have the form that the protocol defines."""


class NoEvidenceError(BackendError):
    """An error because there is no data to judge."""


class SurroundingsError(BackendError):
    """An error of the surroundings: disk, store, worker or table file."""


@contextmanager
def needing(need: str, extra: str) -> Iterator[None]:
    """Convert an ImportError in the block to a ConfigError that says how to install the package.
    `need`: a sentence with the missing package."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{need}. Install it, {install_line(extra)}") from error


def install_line(extra: str) -> str:
    """Return the command that installs the optional part `extra` from a checkout. The name alone
    belongs to another project on the public index."""
    return f"in a checkout of featurelib: pip install '.[{extra}]'"
