"""A plan for one cluster, and somebody's word for it. Nothing is sent."""

from __future__ import annotations

import getpass
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from featurelib.api.clusters import AnyCluster, choose
from featurelib.api.shown import Readable
from featurelib.catalogue import Catalogue
from featurelib.cli.plan_output import all_warnings, for_people, plan_lines
from featurelib.core.intents import Command, Intent
from featurelib.errors import ConfigError, RefusedError
from featurelib.planning import files
from featurelib.planning.files import PlanFile
from featurelib.planning.planner import Planned, make_plan
from featurelib.planning.reasons import Reason
from featurelib.source import Source

Levels = Mapping[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Readable):
    """What came of planning: with `is_made` something to send, else every reason in `refusals`, or
    nothing to do. `text` is what `featurelib plan` says."""

    planned: Planned
    text: str
    file: PlanFile | None

    def __str__(self) -> str:
        return self.text

    @property
    def is_made(self) -> bool:
        """Whether there is something to send."""
        return self.file is not None

    @property
    def refusals(self) -> tuple[Reason, ...]:
        """Everything that is in the way or, of upgrade-all, that had to be left out."""
        return self.planned.refusals

    def expect_made(self) -> PlanFile:
        """The plan's file. Raises RefusedError where nothing came of it, with every reason."""
        if self.file is None:
            raise RefusedError(f"expected a plan to go on with, found none:\n{self.text}")
        return self.file

    def save(self, path: str) -> None:
        """Write the file that `featurelib show` and the others read. Raises RefusedError."""
        file = self.expect_made()
        Path(path).write_text(files.write_plan(file.plan, file.for_people), encoding="utf-8")


def plan(
    cluster: AnyCluster,
    command: str = "upgrade-all",
    *,
    release_version: str | None = None,
    up: Levels | None = None,
    down: Levels | None = None,
    delete: Collection[str] = (),
    unsafe: bool = False,
) -> Plan:
    """A plan for one cluster, or every reason why there is none; nothing is sent.

        plan("payments-eu")                                      # as far as each feature is READY
        plan("payments-eu", "upgrade", release_version="4.1")
        plan("payments-eu", "update", up={"group.version": 1}, down={"share.version": 0})

    `command` is one of upgrade-all, downgrade-all, upgrade, downgrade, disable, update, as of
    `featurelib plan`; levels are numbers or names. Raises ConfigError, BackendError.
    """
    chosen = choose(cluster)
    if command not in tuple(Command):
        raise ConfigError(
            f"plan: expected one of the commands {', '.join(Command)}, found {command!r}."
        )
    intent = Intent(
        command=Command(command),
        release_version=release_version,
        up={name: str(level) for name, level in (up or {}).items()},
        down={name: str(level) for name, level in (down or {}).items()},
        delete=tuple(delete),
        unsafe=unsafe,
    )
    source = chosen.source()
    planned = make_plan(source.sight, intent, chosen.catalogue, guards=source.guards)
    warnings = all_warnings(planned, source)
    lines = plan_lines(planned, source, warnings, None, chosen.catalogue)
    file = _file(planned, source, warnings, chosen.catalogue)
    return Plan(planned=planned, text="\n".join(lines), file=file)


def approve(
    plan: Plan | str, *, hours: float = 1.0, by: str | None = None, reason: str | None = None
) -> bytes:
    """Somebody's word for one plan and no other, for some hours; it goes to `apply`.

        apply(plan, cluster, approval=approve(plan, reason="CHG-17"))

    `by` is this login where it is not said. It is not signed: where conf/audit.toml asks for a
    signature, use `featurelib approve --key`. Raises RefusedError for a plan that came to nothing.
    """
    file = read_plan(plan)
    given = files.approve(
        file.plan,
        by=by or getpass.getuser(),
        at=datetime.now(UTC),
        expires=timedelta(hours=hours),
        reason=reason,
    )
    return files.write_approval(given)


def _file(
    planned: Planned, source: Source, warnings: list[str], catalogue: Catalogue
) -> PlanFile | None:
    if planned.plan is None:
        return None
    said = for_people(planned, source, warnings, catalogue)
    return files.read_plan(files.write_plan(planned.plan, said), "the plan")


def read_plan(plan: Plan | str) -> PlanFile:
    """The plan itself, or the one in that file. Raises RefusedError, PlanError, ConfigError."""
    if isinstance(plan, Plan):
        return plan.expect_made()
    return files.read_plan(read_bytes(plan, "a plan file"), plan)


def read_bytes(path: str, what: str) -> bytes:
    """What is in a file. Raises ConfigError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: expected {what}, found: {error.strerror}.") from error
