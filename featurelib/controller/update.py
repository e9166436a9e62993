"""One UpdateFeatures request as a program asks for it, without a plan: KIP-584's Admin call.

What can never be right is refused before anything is sent. What is sent is written down first and
looked after like a plan's step, so a result says what is true, not only what was answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from featurelib.backends.base import validate
from featurelib.controller.journal import Clearance, Journal, Way
from featurelib.controller.look import Look, Watcher
from featurelib.controller.owners import expect_ours
from featurelib.controller.send import LOCK_SECONDS, Sender, Waits, expect_settled
from featurelib.core.outcome import Fate
from featurelib.core.reply import NO_ERROR
from featurelib.errors import ConfigError, NoEvidenceError, OutcomeUnknownError, RejectedError
from featurelib.feature import UpgradeType
from featurelib.model import Move, Step
from featurelib.planning.requirements import HIGHEST_INT32, HIGHEST_LEVEL

NO_PLAN = "none"  # what the journal has in the place of a plan's digest, and of an approval
TIMEOUT_MS = 60_000  # UpdateFeaturesRequest's default


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

    @property
    def text(self) -> str:
        """`rejected (error 95): …; it is at 25`."""
        validated = "would be accepted" if self.is_ok else "would be refused"
        what = validated if self.fate is None else self.fate.value
        code = f" (error {self.code})" if self.code not in (None, NO_ERROR) else ""
        words = f": {self.message}" if self.message and not self.is_ok else ""
        level = "nobody says its level" if self.level is None else f"it is at {self.level}"
        return f"{what}{code}{words}; {level}"


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
        lines = [f"{result.feature}: {result.text}" for result in self.features.values()]
        return "\n".join([*lines, *(f"not reported yet by {node}" for node in self.late)])

    def expect_ok(self) -> None:
        """Raises OutcomeUnknownError where something may have been written that nobody saw, else
        RejectedError where an update is not there; both name every feature that is not."""
        odd = [result for result in self.features.values() if not result.is_ok]
        if not odd:
            return
        said = "; ".join(f"{one.feature}: {one.text}" for one in odd)
        if any(one.fate is Fate.UNKNOWN for one in odd):
            raise OutcomeUnknownError(f"cluster {self.cluster_id}: {said}. Look: {self.resume}")
        raise RejectedError(f"cluster {self.cluster_id}: {said}.")


def update_features(
    watcher: Watcher,
    journal: Journal,
    updates: Mapping[str, FeatureUpdate],
    *,
    validate_only: bool = False,
    timeout_ms: int = TIMEOUT_MS,
    way: Way | None = None,
    waits: Waits | None = None,
) -> UpdateResult:
    """Send one request with these updates, once, and find out what became of it.

    Raises before anything is sent: ConfigError (no updates, a blank name), RefusedError (another
    owner, another run, ZooKeeper mode with `validate_only`, which it would apply), BackendError
    (nothing answers, nobody says what is finalized), OutcomeUnknownError (an earlier request is
    not settled).
    """
    expect_updates(updates, timeout_ms)
    look, way = watcher.look(), way or Way()
    cluster, step = look.sight.cluster_id, _step(look, updates, timeout_ms)
    moved = {move.feature: move for move in step.updates}
    expect_ours(cluster, moved, watcher.fleet, watcher.catalogue)
    if validate_only:
        reply = validate(watcher.backend, step)
        answers = ((move, *reply.of(move.feature)) for move in step.updates)
        validated = [
            _result(move, None, code, message, move.from_level) for move, code, message in answers
        ]
        features = {one.feature: one for one in validated}
        return UpdateResult(cluster_id=cluster, validate_only=True, features=features)
    with journal.lock(cluster, "featurelib.update_features", seconds=LOCK_SECONDS) as lock:
        expect_settled(journal, cluster, way)
        sender = Sender(
            watcher=watcher,
            journal=journal,
            lock=lock,
            waits=waits or Waits(),
            way=way,
            cluster=cluster,
            plan=NO_PLAN,
            total=1,
            name=next((e.name for e in watcher.fleet.cluster if e.id == cluster), ""),
        )
        outcome = sender.send(step, 0, look, lambda: Clearance(approval=NO_PLAN, signed=None))
    if sender.unwritten:
        raise OutcomeUnknownError(
            f"cluster {cluster}: {outcome.fate.value}, which could not be written down: "
            f"{sender.unwritten}. Look: {way.resume}"
        )
    results = [
        _result(one.update, one.fate, one.code, one.message, one.level) for one in outcome.updates
    ]
    return UpdateResult(
        cluster_id=cluster,
        validate_only=False,
        features={one.feature: one for one in results},
        late=outcome.late,
        resume=way.resume,
    )


def _result(
    move: Move, fate: Fate | None, code: int | None, message: str | None, level: int | None
) -> FeatureResult:
    is_ok = code == NO_ERROR if fate is None else fate is Fate.APPLIED
    return FeatureResult(
        feature=move.feature, is_ok=is_ok, fate=fate, code=code, message=message, level=level
    )


def expect_updates(updates: Mapping[str, FeatureUpdate], timeout_ms: int) -> None:
    """Raises ConfigError for what Admin.updateFeatures refuses itself, and for a time limit of 0,
    with which a controller of ZooKeeper mode writes and then answers that it failed."""
    if not updates:
        raise ConfigError("update_features: expected an update, found none. Nothing was sent.")
    if blank := [name for name in updates if not name.strip()]:
        raise ConfigError(
            f"update_features: expected a feature's name, found {blank[0]!r}. Nothing was sent."
        )
    if not 0 < timeout_ms <= HIGHEST_INT32:
        raise ConfigError(
            f"update_features: expected a timeout_ms of 1 to {HIGHEST_INT32}, found {timeout_ms}. "
            "Nothing was sent."
        )


def _step(look: Look, updates: Mapping[str, FeatureUpdate], timeout_ms: int) -> Step:
    """The request, its levels before as they were seen. Raises NoEvidenceError."""
    seen = look.seen(updates)
    if unknown := sorted(seen.unknown & updates.keys()):
        raise NoEvidenceError(
            f"cluster {look.sight.cluster_id}: expected a node that says at which level "
            f"{', '.join(unknown)} is finalized, found none. Nothing was sent. See who answers: "
            "describe_features."
        )
    return Step(
        updates=tuple(
            Move(
                feature=name,
                from_level=seen.level(name) or 0,
                to_level=update.level,
                upgrade_type=update.upgrade_type.name,
            )
            for name, update in updates.items()
        ),
        timeout_ms=timeout_ms,
    )
