"""What changes a cluster. Looking comes first, sending once, looking again after it.

Everything that is sent is in the journal of this machine, and `featurelib resume` settles what is
not known.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from featurelib.api.clusters import (
    Answer,
    AnyCluster,
    Embedded,
    Live,
    Readable,
    choose,
    choose_live,
)
from featurelib.api.documents import PlanDocument, RefusalDocument
from featurelib.backends.embedded import Captured, Formatted, make_embedded
from featurelib.catalogue import NEWEST_RELEASE, Catalogue
from featurelib.collect import landing_lines
from featurelib.config.catalogue import choose_software, open_catalogue
from featurelib.config.files import find_settings, journal_path
from featurelib.controller import apply as controller
from featurelib.controller import update as updating
from featurelib.controller.apply import ApplyOrder, Mode
from featurelib.controller.journal import Clearance, Journal
from featurelib.controller.send import Waits
from featurelib.controller.signing import checker
from featurelib.controller.update import FeatureUpdate, UpdateResult
from featurelib.core.outcome import Ending, EndingKind
from featurelib.errors import ApprovalError, ConfigError, RefusedError
from featurelib.model import Guards, Reason
from featurelib.planning import files
from featurelib.planning.files import ForPeople, PlanFile
from featurelib.planning.goal import Command, Intent
from featurelib.planning.night import level_names
from featurelib.planning.planner import Planned, PlanProbe, make_plan, plan_by_probe
from featurelib.planning.requirements import features_of
from featurelib.questions.muted import as_json, over_reason
from featurelib.source import Chosen, Source, Wanted
from featurelib.view.documents import VERSION, fill
from featurelib.view.outcome import sentence, update_line
from featurelib.view.plan import named_cluster, planning_page
from featurelib.words import clean

Levels = Mapping[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanAnswer(Answer[Planned]):
    """What came of planning: with `is_made` something to send, else every reason in `refusals`, or
    nothing to do."""

    file: PlanFile | None
    path: str | None = None  # where it is to stand

    @property
    def is_made(self) -> bool:
        """Whether there is something to send."""
        return self.file is not None

    @property
    def planned(self) -> Planned:
        """The goal, the plan, and what is against it."""
        return self.value

    @property
    def refusals(self) -> tuple[Reason, ...]:
        """Everything that is in the way or, of upgrade-all, that had to be left out."""
        return self.value.refusals

    def expect_made(self) -> PlanFile:
        """The plan's file. Raises RefusedError where nothing came of it, with every reason."""
        if self.file is None:
            raise RefusedError(f"expected a plan to go on with, found none:\n{self.text}")
        return self.file

    def content(self) -> str:
        """The text of the plan's file. Raises RefusedError."""
        file = self.expect_made()
        return files.write_plan(file.plan, file.for_people)

    def save(self, path: str) -> None:
        """Write the file that `featurelib show` and the others read, whole or not at all. Raises
        RefusedError, ConfigError."""
        content, target = self.content(), Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=target.parent, prefix=".", delete=False, encoding="utf-8"
            ) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, target)
        except OSError as error:
            raise ConfigError(
                f"--out {path}: expected a place to write to, found: {error.strerror}. "
                "Name another file with --out FILE."
            ) from error


def plan(
    cluster: AnyCluster,
    command: str = "upgrade-all",
    *,
    release_version: str | None = None,
    up: Levels | None = None,
    down: Levels | None = None,
    delete: Collection[str] = (),
    unsafe: bool = False,
) -> PlanAnswer:
    """A plan for one cluster, or every reason why there is none; nothing is sent.

        plan("payments-eu")                                      # as far as each feature is READY
        plan("payments-eu", "upgrade", release_version="4.1")
        plan("payments-eu", "update", up={"group.version": 1}, down={"share.version": 0})

    `command` is one of upgrade-all, downgrade-all, upgrade, downgrade, disable, update, as of
    `featurelib plan`; levels are numbers or names. Raises ConfigError, BackendError.
    """
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
    return plan_intent(choose(cluster), intent)


def plan_intent(
    chosen: Chosen,
    intent: Intent,
    *,
    probe: bool = False,
    where: Callable[[Source], str] | None = None,
) -> PlanAnswer:
    """The plan for what is wanted. `probe`: the live cluster's controller is asked to validate it
    where registrations are not seen. `where` says in which file it will stand."""
    catalogue = chosen.catalogue
    if probe:
        source, planned = _plan_by_probe(chosen, intent)
    else:
        source = chosen.source()
        planned = make_plan(source.sight, intent, catalogue, guards=source.guards)
    warnings = [*planned.warnings, *_managed(planned, source.guards)]
    file = None
    if planned.plan is not None:
        people = _for_people(planned, source, warnings, catalogue)
        file = files.read_plan(files.write_plan(planned.plan, people), "the plan")
    path = where(source) if where is not None and file is not None else None
    return PlanAnswer(
        value=planned,
        make_rows=lambda: (asdict(reason) for reason in planned.refusals),
        make_document=lambda: _plan_document(planned, source, warnings, path),
        page=lambda width: planning_page(
            planned,
            named_cluster(source.sight.cluster_id, source.entry.name),
            f"{clean(_made_from(planned, source), 600)}, last seen {source.seen_at}",
            catalogue,
            warnings=warnings,
            muted=[over_reason(source.muted, reason) for reason in planned.refusals],
            path=path,
            width=width,
        ),
        file=file,
        path=path,
    )


def _made_from(planned: Planned, source: Source) -> str:
    """Where the evidence came from, and the controller's word where the plan rests on it."""
    if not planned.probed:
        return source.made_from
    return f"{source.made_from} and a probe: its controller would accept {planned.probed}"


def _plan_by_probe(chosen: Chosen, intent: Intent) -> tuple[Source, Planned]:
    with chosen.live() as (source, backend):
        probe = PlanProbe(
            backend=backend,
            sight=source.sight,
            as_if_seen=lambda: source.terms.see(source.sight.rows, controller_decides=True),
            catalogue=chosen.catalogue,
            say=chosen.say,
            guards=source.guards,
        )
        return source, plan_by_probe(probe, intent)


def _plan_document(
    planned: Planned, source: Source, warnings: list[str], path: str | None
) -> PlanDocument:
    made = planned.plan
    return PlanDocument(
        version=VERSION,
        cluster=source.sight.cluster_id,
        name=source.entry.name,
        intent=planned.intent.text,
        made_from=_made_from(planned, source),
        seen_at=source.seen_at,
        outcome="refused" if planned.is_refused else "planned" if made else "nothing to do",
        file=path,
        digest=files.digest(made) if made else None,
        plan=files.plain(made) if made else None,
        refusals=[
            fill(RefusalDocument, reason, **as_json(over_reason(source.muted, reason)))
            for reason in planned.refusals
        ],
        stays=planned.goal.stays,
        warnings=warnings,
    )


def _managed(planned: Planned, guards: Guards) -> Iterator[str]:
    """Who else finalizes what would be moved."""
    steps = () if planned.plan is None else planned.plan.steps
    moved = features_of(steps) if steps else tuple(sorted(planned.goal.levels))
    if theirs := [name for name in moved if guards.manages(name)]:
        yield (
            f"{guards.managed_by} finalizes {', '.join(map(clean, theirs))} there (managed_by in "
            "the inventory): `featurelib apply` refuses it, the plan says what to ask for there."
        )


def _for_people(
    planned: Planned, source: Source, warnings: list[str], catalogue: Catalogue
) -> ForPeople:
    """What the plan's file says beside its meaning."""
    assert planned.plan is not None
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return ForPeople(
        name=source.entry.name,
        written_at=now,
        made_from=_made_from(planned, source),
        seen_at=source.seen_at,
        level_names=level_names(planned.plan, catalogue),
        left_out=tuple(reason.message for reason in planned.refusals),
        stays=tuple(stay.text for stay in planned.goal.stays),
        warnings=tuple(warnings),
    )


def approve(
    plan: PlanAnswer | str, *, hours: float = 1.0, by: str | None = None, reason: str | None = None
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


def read_plan(plan: PlanAnswer | str) -> PlanFile:
    """The plan itself, or the one in that file. Raises RefusedError, PlanError, ConfigError."""
    if isinstance(plan, PlanAnswer):
        return plan.expect_made()
    return files.read_plan(read_bytes(plan, "a plan file"), plan)


def read_bytes(path: str, what: str) -> bytes:
    """What is in a file. Raises ConfigError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: expected {what}, found: {error.strerror}.") from error


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Carried(Readable):
    """What became of a plan: `ending.kind` says how it ended. `text` has a line an update, in
    KIP-584's form, and one sentence that says what is true."""

    ending: Ending
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def is_done(self) -> bool:
        """Whether every level of the plan is there, and every node reports it."""
        return self.ending.kind in (EndingKind.APPLIED, EndingKind.NOTHING_TO_DO)


def update_features(
    cluster: str | Live,
    updates: Mapping[str, FeatureUpdate],
    *,
    validate_only: bool = False,
    timeout_ms: int = updating.TIMEOUT_MS,
    journal: str | None = None,
) -> UpdateResult:
    """Send one UpdateFeatures request, and say of each feature what became of it (KIP-584).

        update_features(cluster, {"group.version": FeatureUpdate(level=1)})
        update_features(cluster, {"group.version": FeatureUpdate(
            level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)}, validate_only=True).is_ok

    For who knows what to send; `plan` and `apply` find out, and bind it to what was seen. The
    cluster is looked at before and after. `result.features[name]` has the controller's code and
    words and what is true now; `result.expect_ok()` raises. Refused before anything is sent: no
    updates, a blank name, level 0 without a downgrade type (ConfigError), a cluster that somebody
    else finalizes, `validate_only` in ZooKeeper mode, which would be applied (RefusedError).
    """
    live = choose_live(cluster)
    opened = Journal(journal_path(journal))
    try:
        with live.watcher() as watcher:
            return updating.update_features(
                watcher,
                opened,
                updates,
                validate_only=validate_only,
                timeout_ms=timeout_ms,
                way=live.way(journal),
            )
    finally:
        opened.close()


def apply(
    plan: PlanAnswer | str,
    cluster: str | Live,
    *,
    approval: bytes | str | None = None,
    dry_run: bool = False,
    validate_only: bool = False,
    journal: str | None = None,
    wait: float = Waits().nodes,
) -> Carried:
    """Carry out an approved plan on its cluster, and say what is true afterwards.

        apply(made, cluster, dry_run=True)                       # looks and judges, sends nothing
        apply("plans/payments.json", "payments-eu", approval="payments.approval.json")

    The cluster is looked at again first: if anything is not as the plan saw it, nothing is sent.
    `plan` and `approval` may be files. `wait`: seconds nodes may take to report a level. Raises
    RefusedError (stale plan, no approval that holds, another run), BackendError, and
    OutcomeUnknownError where a request may have been applied: `featurelib resume` settles it.
    """
    live, file = choose_live(cluster), read_plan(plan)
    if dry_run and validate_only:
        raise ConfigError("apply: expected dry_run or validate_only, found both. Leave one out.")
    mode = Mode.REHEARSE if dry_run else Mode.VALIDATE if validate_only else Mode.SEND
    order = ApplyOrder(
        plan=file.plan,
        check_approval=_checker(file, approval, live, mode),
        mode=mode,
        command="featurelib.apply",
        way=live.way(journal),
        waits=Waits(nodes=wait),
        name=live.reached().entry_of(file.plan.cluster).name,
        settings=find_settings(live.wanted.config)[1],
    )
    opened = Journal(journal_path(journal))
    try:
        with live.watcher() as watcher:
            ending = controller.apply(order, watcher, opened)
    finally:
        opened.close()
    lines = [
        update_line(outcome.update, outcome) for step in ending.steps for outcome in step.updates
    ]
    lines.append(sentence(ending, live.catalogue, resume=order.way.resume))
    return Carried(ending=ending, text="\n".join(lines))


def embedded(
    file: str,
    *,
    software: str = NEWEST_RELEASE,
    metadata: str | None = None,
    brokers: int = 3,
    controllers: int = 3,
    capture: str | None = None,
    overlay: str | None = None,
) -> Embedded:
    """A new cluster in a file, which answers as Kafka's controllers do: to learn, and to try plans.

        cluster = embedded("cluster.db", software="4.1", metadata="3.9")
        copy = embedded("copy.db", capture="data/samples/ghost-broker")

    `capture` makes it like the cluster of these landing lines, a file or a folder. One that is
    there already is reached with connect(file=…). Raises ConfigError, LandingError.
    """
    catalogue = open_catalogue(overlay)
    like: Formatted | Captured
    if capture is not None:
        like = Captured(path=capture, lines=landing_lines("--capture", capture))
    else:
        own = choose_software(catalogue, software)
        like = Formatted(own=own, metadata=metadata, brokers=brokers, controllers=controllers)
    make_embedded(file, like, catalogue)
    return Embedded(wanted=Wanted(file=file), catalogue=catalogue)


def _checker(
    file: PlanFile, approval: bytes | str | None, live: Chosen, mode: Mode
) -> Callable[[datetime], Clearance]:
    """What says whether the plan is approved, as of a time. Only what sends needs an approval."""
    if approval is None:
        if mode is Mode.SEND:
            raise ApprovalError(
                "expected an approval of this plan, found none. Nothing was sent. Look at the "
                "plan, then: apply(plan, cluster, approval=approve(plan))"
            )
        return lambda now: Clearance(approval="")
    where = approval if isinstance(approval, str) else "the approval"
    text = read_bytes(approval, "an approval") if isinstance(approval, str) else approval
    return checker(file, text, settings=live.settings, where=where)
