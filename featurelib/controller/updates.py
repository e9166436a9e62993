"""Updates as a program asks for them, and what became of them: of each feature, and of all.

What no controller ever takes cannot be made (KIP-584, Admin API changes; KIP-778).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from featurelib.core.outcome import Fate
from featurelib.core.reply import NO_ERROR
from featurelib.errors import ConfigError, OutcomeUnknownError, RejectedError
from featurelib.feature import UpgradeType
from featurelib.planning.requirements import HIGHEST_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """Where one feature is to go: FeatureUpdate of Kafka's Admin (KIP-584, KIP-778).

    `level` 0 takes the feature away, and needs an upgrade type that says so. Raises ConfigError
    for what no controller takes.
    """

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE

    def __post_init__(self) -> None:
        if not 0 <= self.level <= HIGHEST_LEVEL:
            raise ConfigError(
                f"FeatureUpdate: expected a level of 0 to {HIGHEST_LEVEL}, found {self.level}."
            )
        if not isinstance(self.upgrade_type, UpgradeType):
            names = ", ".join(kind.name for kind in UpgradeType)
            raise ConfigError(
                f"FeatureUpdate: expected one of the upgrade types {names}, found "
                f"{self.upgrade_type!r}."
            )
        if self.level < 1 and self.upgrade_type is UpgradeType.UPGRADE:
            raise ConfigError(
                f"FeatureUpdate: expected SAFE_DOWNGRADE or UNSAFE_DOWNGRADE for level "
                f"{self.level}, which takes the feature away, found UPGRADE."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureResult:
    """What became of one update. `is_ok`: the level is there or, where it was only to be
    validated, would be accepted. `code` and `message` are the controller's, None = it said nothing;
    `level` is the feature's now, None = not known; `fate` None = nothing was to be written."""

    feature: str
    is_ok: bool
    fate: Fate | None
    code: int | None
    message: str | None
    level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What became of a request: of each feature, and of all. `late` are nodes that do not report
    the levels yet. `resume` is the command that settles what is not known."""

    cluster_id: str
    validate_only: bool
    features: Mapping[str, FeatureResult]
    late: tuple[str, ...] = ()
    resume: str = field(default="featurelib resume", repr=False)

    @property
    def is_ok(self) -> bool:
        """Whether every update is there or, where it was only validated, would be accepted."""
        return all(result.is_ok for result in self.features.values())

    def __str__(self) -> str:
        lines = [f"{result.feature}: {_say(result)}" for result in self.features.values()]
        return "\n".join([*lines, *(f"not reported yet by {node}" for node in self.late)])

    def expect_ok(self) -> None:
        """Raises OutcomeUnknownError where something may have been written that nobody saw, else
        RejectedError where an update is not there; both name every feature that is not."""
        odd = [result for result in self.features.values() if not result.is_ok]
        if not odd:
            return
        said = "; ".join(f"{one.feature}: {_say(one)}" for one in odd)
        if any(one.fate is Fate.UNKNOWN for one in odd):
            raise OutcomeUnknownError(f"cluster {self.cluster_id}: {said}. Look: {self.resume}")
        raise RejectedError(f"cluster {self.cluster_id}: {said}.")


def _say(result: FeatureResult) -> str:
    """`rejected (error 95): …; it is at 25`."""
    validated = "would be accepted" if result.is_ok else "would be refused"
    what = validated if result.fate is None else result.fate.value
    code = f" (error {result.code})" if result.code not in (None, NO_ERROR) else ""
    words = f": {result.message}" if result.message and not result.is_ok else ""
    level = "nobody says its level" if result.level is None else f"it is at {result.level}"
    return f"{what}{code}{words}; {level}"
