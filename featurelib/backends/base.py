"""What a backend is: one cluster that can be looked at, and asked to change levels.

It holds no rule. Looking gives landing lines, the same as a collector writes, so that a plan, an
audit and an applier see a cluster through one pair of eyes. Wire quirks end inside a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from featurelib.core.outcome import NotPassed, Passed, Recipient
from featurelib.core.reply import Reply
from featurelib.model import Step

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a backend can promise of its cluster; known once it was looked at.

    `validate_only`: a request to validate is never written. `compare_and_set`: a request can say
    in which state it is meant; Kafka has no such thing. `cannot` says what is left, in sentences.
    """

    mode: str  # kraft, zk
    validate_only: bool
    compare_and_set: bool = False
    cannot: tuple[str, ...] = ()


class Backend(Protocol):
    """One cluster. Close it when done; it may be used from one thread at a time."""

    @property
    def where(self) -> str:
        """How the cluster is reached, for messages: never a secret."""

    def describe(self, say: Say) -> tuple[bytes, ...]:
        """One look at every node, as landing lines; `say` hears of progress.

        A node that does not answer is a line that says so. Raises UnreachableError when no node
        answers, ProtocolError.
        """

    def abilities(self) -> Abilities:
        """What is promised of the cluster as it was last looked at; looks if it never was."""

    def recipient(self) -> Recipient:
        """Connect to whoever takes the next `update`, and say who it is; it goes there and to
        nobody else. Raises UnreachableError where nobody can be connected to."""

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        """Whether everybody who may hold a request that was sent to `sent` has handled all that
        came before now (None: an earlier release sent it, and did not write down to whom). Writes
        nothing; `features` are those of the request. Raises no BackendError."""

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        """Send one UpdateFeatures request to the active controller, once, and give its answer.

        Raises UnreachableError if nothing was sent, OutcomeUnknownError if it was sent and no
        answer came, RefusedError for `validate_only` where it would be written.
        """

    def close(self) -> None:
        """Let go of connections and files."""
