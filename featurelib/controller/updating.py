"""One UpdateFeatures request as a program asks for it, without a plan: KIP-584's Admin call.

What can never be right is refused before anything is sent. What is sent is written down first and
looked after like a plan's step, so a result says what is true, not only what was answered.
"""

from __future__ import annotations

from collections.abc import Mapping

from featurelib.controller.applying import expect_settled
from featurelib.controller.commands import Way
from featurelib.controller.looking import Look, Watcher
from featurelib.controller.owners import expect_ours
from featurelib.controller.sending import LOCK_SECONDS, Waits, aim, send
from featurelib.controller.updates import FeatureResult, FeatureUpdate, UpdateResult
from featurelib.controller.validating import ask
from featurelib.core.outcome import Fate, Heard, StepOutcome, settle
from featurelib.core.reply import NO_ERROR
from featurelib.errors import ConfigError, NoEvidenceError, OutcomeUnknownError
from featurelib.journal.journal import Intent, Journal
from featurelib.model import Move, Step
from featurelib.planning.requirements import HIGHEST_INT32

NO_PLAN = "none"  # what the journal has in the place of a plan's digest, and of an approval
TIMEOUT_MS = 60_000  # UpdateFeaturesRequest's default


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
    look = watcher.look()
    cluster = look.sight.cluster_id
    step = _step(look, updates, timeout_ms)
    moved = {update.feature: update for update in step.updates}
    expect_ours(cluster, moved, watcher.fleet, watcher.catalogue)
    if validate_only:
        return _validate(watcher, cluster, step)
    times, way = waits or Waits(), way or Way()
    with journal.lock(cluster, "featurelib.update_features", seconds=LOCK_SECONDS) as lock:
        expect_settled(journal, cluster, way)
        aimed = aim(watcher)
        if isinstance(aimed, Heard):
            return _result(cluster, settle(step, 0, aimed, None, proven=False), way)
        intent = Intent(
            cluster=cluster,
            where=watcher.backend.where,
            reach=way.text,
            plan=NO_PLAN,
            approval=NO_PLAN,
            position=0,
            total=1,
            step=step,
            who=lock.who,
            at=times.clock(),
            over_at=times.over_at(step),
            sent_to=aimed,
            name=next((e.name for e in watcher.fleet.cluster if e.id == cluster), ""),
        )
        try:
            sent = send(watcher, journal, lock, intent, look, times)
        except KeyboardInterrupt as error:
            raise OutcomeUnknownError(
                "interrupted while the request was being sent: it may have been applied. "
                f"Look: {way.resume}"
            ) from error
    if sent.unwritten:
        raise OutcomeUnknownError(
            f"cluster {cluster}: {sent.result.fate.value}, which could not be written down: "
            f"{sent.unwritten}. Look: {way.resume}"
        )
    return _result(cluster, sent.result, way)


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


def _validate(watcher: Watcher, cluster: str, step: Step) -> UpdateResult:
    heard = ask(watcher.backend, step)
    results = {}
    for update in step.updates:
        code, message = heard.of(update.feature)
        results[update.feature] = FeatureResult(
            feature=update.feature,
            is_ok=code == NO_ERROR,
            fate=None,
            code=code,
            message=message,
            level=update.from_level,
        )
    return UpdateResult(cluster_id=cluster, validate_only=True, features=results)


def _result(cluster: str, outcome: StepOutcome, way: Way) -> UpdateResult:
    results = {
        one.update.feature: FeatureResult(
            feature=one.update.feature,
            is_ok=one.fate is Fate.APPLIED,
            fate=one.fate,
            code=one.code,
            message=one.message,
            level=one.level,
        )
        for one in outcome.updates
    }
    return UpdateResult(
        cluster_id=cluster,
        validate_only=False,
        features=results,
        late=outcome.late,
        resume=way.resume,
    )
