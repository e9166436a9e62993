"""Plan and apply changes of a cluster: read the cluster, send each request once, and read it again.

The journal of this machine has every sent request, and `featurelib resume` settles unknown outcomes
(featurelib.api.journal).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote

import msgspec

from featurelib.api.clusters import NOBODY, Answer, Approved, Live, Person, choose_live, made_at
from featurelib.api.documents import (
    ApplyDocument,
    RequestDocument,
    ShowDocument,
    UpdateResultDocument,
)
from featurelib.api.plans import PlanAnswer
from featurelib.catalogue import Catalogue
from featurelib.config.files import (
    find_settings,
    journal_path,
    open_catalogue,
    open_settings,
    read_bytes,
)
from featurelib.config.fleet import FleetEntry
from featurelib.controller import apply as controller
from featurelib.controller.apply import ApplyOrder, FeatureUpdate, Mode, UpdateResult
from featurelib.controller.journal import Clearance, Journal, Withdrawal
from featurelib.controller.send import Waits
from featurelib.controller.signing import check_approval, find_writable, needs_none
from featurelib.core.outcome import Ending, EndingKind, MoveOutcome
from featurelib.errors import (
    ApprovalError,
    ConfigError,
    FeatureLibError,
    RefusedError,
    UnreachableError,
)
from featurelib.model import Plan
from featurelib.planning import files
from featurelib.planning.files import PlanFile
from featurelib.planning.outlook import look_ahead
from featurelib.planning.owners import expect_ours
from featurelib.source import Chosen, Wanted, open_fleet
from featurelib.view.documents import ERROR_WORDS, fill
from featurelib.view.layout import UNWRAPPED
from featurelib.view.outcome import (
    before_return,
    danger_page,
    ending_page,
    named,
    operation,
    order_page,
    sentence,
)
from featurelib.view.plan import contradictions, plan_page
from featurelib.words import clean


def show(plan: str, fleet: str | None = None, overlay: str | None = None) -> Answer[PlanFile]:
    """Show what a plan would do, request by request.

    The text has the effects of each request, and the possible downgrades:

    \b
        featurelib show plans/payments-eu.json
        featurelib show plans/payments-eu.json --json

    It lists each level with its name and purpose, the possible downgrade of metadata.version
    afterwards, the releases that can register, and the conditions that `featurelib apply` checks. A
    plan that was changed later is rejected. Parts that the digest does not cover are shown
    separately, and the cluster's name comes from the inventory. Nothing is sent. Exit codes: 0
    done, 2 usage, or no plan.
    """
    path, catalogue = plan, open_catalogue(overlay)
    file = read_plan(path)
    entry, refusal = known_entry(file.plan.cluster, fleet, catalogue), None
    words, name = quote(path) + Wanted(fleet=fleet, overlay=overlay).of_files, entry.name
    command = files.approve_command(words, find_settings(None)[0].longest_approval)
    try:
        expect_finalized_by_us(file.plan, fleet, catalogue)
    except RefusedError as error:
        refusal = str(error)
    steps = look_ahead(file.plan, catalogue, entry.address)
    return Answer(
        value=file,
        make_rows=lambda: map(asdict, steps),
        make_document=lambda: fill(
            ShowDocument,
            file,
            name=name or None,
            catalogue=catalogue.label,
            plan=files.plain(file.plan),
            outlook=steps,
            contradictions=[*contradictions(file, name, catalogue)],
            refusal=refusal,
        ),
        page=lambda width: plan_page(
            file, command, name, catalogue, width, refusal=refusal, address=entry.address
        ),
    )


def expect_finalized_by_us(
    plan: Plan, fleet: str | None, catalogue: Catalogue, config: str | None = None
) -> None:
    """Raise RefusedError if plan or inventory assigns a planned feature to another owner."""
    inventory, options = open_fleet(fleet, catalogue)[1], Wanted(fleet=fleet, config=config).ways[0]
    expect_ours(plan.cluster, plan.moves, inventory, catalogue, plan.guards, options)


def known_entry(cluster: str, fleet: str | None, catalogue: Catalogue) -> FleetEntry:
    """Return the inventory's entry of a cluster; without one, an entry that has only the id."""
    return open_fleet(fleet, catalogue)[1].of(cluster, FleetEntry(id=cluster))


def read_plan(plan: PlanAnswer | str) -> PlanFile:
    """Return the plan file of an answer, or read it from a path. Raises RefusedError, PlanError,
    ConfigError."""
    if isinstance(plan, PlanAnswer):
        return plan.expect_made()
    advice = "The nightly removes plans that it does not make any more. "
    advice += f"Make one: featurelib plan CLUSTER upgrade-all --out {quote(plan)}"
    return files.read_plan(read_bytes(plan, "the plan", advice), plan)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Carried(Answer[Ending]):
    """The result of applying a plan. `ending.kind` is the outcome of the whole plan. `text` has one
    line for each update, as KIP-584 prints it, and the state of the cluster."""

    @property
    def text(self) -> str:
        """The output of `featurelib apply` without line wrapping, for scripts."""
        return str(self.page(UNWRAPPED))

    @property
    def ending(self) -> Ending:
        """The ending of `apply`: the outcome of the plan and of each request."""
        return self.value

    @property
    def is_done(self) -> bool:
        """True if every level of the plan is finalized, and every node reports it."""
        return self.ending.kind in (EndingKind.APPLIED, EndingKind.NOTHING_TO_DO)


def update_features(
    cluster: str | Live,
    updates: Mapping[str, FeatureUpdate],
    *,
    validate_only: bool = False,
    timeout_ms: int = controller.TIMEOUT_MS,
    journal: str | None = None,
) -> UpdateResult:
    """Send one UpdateFeatures request, and return the outcome of each feature (KIP-584).

        update_features(cluster, {"group.version": FeatureUpdate(level=1)})
        update_features(cluster, {"group.version": FeatureUpdate(
            level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)}, validate_only=True).is_ok

    Use it if you know the request to send; `plan` and `apply` find the requests and check the
    cluster's state. The cluster is read before and after. `result.features[name]` has the
    controller's code and message and the present level; `result.expect_ok()` raises. Rejected
    before sending: no updates, a blank name, level 0 without a downgrade type (ConfigError),
    another owner's feature, `validate_only` in ZooKeeper mode, which applies it (RefusedError).
    """
    live = choose_live(cluster)
    with closing(Journal(journal_path(journal))) as opened, live.watcher() as watcher:
        return controller.update_features(
            watcher,
            opened,
            updates,
            validate_only=validate_only,
            timeout_ms=timeout_ms,
            choice=live.way(journal),
        )


def apply(
    plan: PlanAnswer | str,
    cluster: str | Chosen | None = None,
    *,
    approval: Approved | bytes | str | None = None,
    dry_run: bool = False,
    validate_only: bool = False,
    journal: str | None = None,
    wait: float = Waits().nodes,
    person: Person = NOBODY,
) -> Carried:
    """Apply an approved plan to its cluster.

    First the plan's cluster is read again: if it differs from the plan's conditions, nothing is
    sent. After each step the cluster is read until every node reports the new level. --dry-run and
    --validate-only write nothing and need no approval.

    \b
        featurelib apply payments.json
        featurelib apply payments.json --dry-run --bootstrap kafka-1:9092

    In Python: apply(plan, "payments-eu", approval=approve(plan, "1h")). Raises RefusedError,
    BackendError and OutcomeUnknownError. Exit codes: 0 applied, or nothing to do; 1 stopped after
    some steps, or some nodes do not report the level; 2 usage; 3 rejected, nothing written; 4
    unknown, run featurelib resume; 5 the cluster could not be read.
    """
    if dry_run and validate_only:
        raise ConfigError("--dry-run and --validate-only exclude each other. Leave one out.")
    mode = Mode.REHEARSE if dry_run else Mode.VALIDATE if validate_only else Mode.SEND
    is_sent, file = mode is Mode.SEND, read_plan(plan)
    chosen = choose_live(cluster or Chosen(wanted=Wanted(), catalogue=open_catalogue(None)))
    options, path = chosen.wanted, plan if isinstance(plan, str) else ""
    approval_path = Path(path or "PLAN").with_suffix(".approval.json")
    if is_sent and path and approval_path.is_file():
        approval = approval or str(approval_path)
    if is_sent and approval is None:
        words = quote(path or "PLAN") + options.of_files
        approve = files.approve_command(words, open_settings(options.config).longest_approval)
        raise ConfigError(f"The plan has no approval. Write one: {approve}")
    entry = known_entry(file.plan.cluster, options.fleet, chosen.catalogue)
    command = made_at(person.command, file, entry)
    if not (options.cluster or options.addresses):
        if not entry.is_reachable:
            name = named(entry.id, entry.name or file.for_people.name)
            advice = command or "Add its address: --bootstrap HOST:PORT."
            raise ConfigError(f"{path}: no inventory has an address of cluster {name}. {advice}")
        chosen = replace(chosen, wanted=replace(options, cluster=entry.id))
    try:
        content = approval.content if isinstance(approval, Approved) else approval
        return _apply_file(
            file, chosen, person, mode, wait, journal=journal, approval=content, path=path or "PLAN"
        )
    except UnreachableError as error:
        error.args = (f"{error} {command}".rstrip(),)
        raise


def _apply_file(
    file: PlanFile,
    chosen: Chosen,
    person: Person,
    mode: Mode,
    wait: float,
    *,
    journal: str | None,
    approval: bytes | str | None,
    path: str,
) -> Carried:
    """Apply the plan in the file `path`. The person confirms after all checks that need no
    connection. An error has the plan's values in `facts`."""
    plan, reached = file.plan, chosen.reached()
    settings, ruled = find_settings(chosen.wanted.config)
    if writable := find_writable(Path(ruled)):
        chosen.say(f"warning: every user of this machine can write {writable}: {ruled} is no guard")
    entry, check, approve = reached.entry_of(plan.cluster), needs_none, ""
    if approval is not None:
        words = quote(path) + chosen.wanted.of_files
        approve = files.approve_command(words, settings.longest_approval)
        raw, source = approval, "the approval"
        if isinstance(approval, str):
            remedy = "" if Path(approval).exists() else _withdrawn_text(file, approve, journal)
            raw, source = read_bytes(approval, "the approval", remedy), approval
        check = partial(check_approval, file, raw, settings=settings, source=source, path=path)
    order = ApplyOrder(
        plan=plan,
        check_approval=check,
        mode=mode,
        command=person.command or "featurelib.apply",
        way=replace(chosen.way(journal, cluster=plan.cluster), intent=plan.intent),
        waits=Waits(nodes=wait),
        name=entry.name,
        settings=ruled,
    )
    name, document = named(plan.cluster, entry.title), partial(_apply_document, file, entry, ruled)
    clearance = Clearance(approval="")
    try:
        catalogue, options = chosen.catalogue, chosen.wanted.ways[0]
        expect_ours(plan.cluster, plan.moves, reached.fleet, catalogue, plan.guards, options)
        clearance = check(datetime.now(UTC))
        rules = [("settings", clean(ruled, 400)), ("approval", clean(clearance.text, 2000))]
        rules, address = rules if clearance.by else rules[:1], reached.entry.address
        if mode is Mode.SEND:
            person.show(order_page(file, name, rules, catalogue, address))
            person.confirm(f"Apply this plan to cluster {name}?")
        else:
            for rule, value in rules:
                chosen.say(f"{rule}: {value}")
            if str(page := danger_page(plan, catalogue, address)):
                person.show(page)
        with (
            person.sending(),
            closing(Journal(journal_path(journal))) as opened,
            reached.watcher(settings.max_age, chosen.say) as watcher,
        ):
            if opened.is_new:
                chosen.say(f"new journal: {opened.path}")
            ending = controller.apply(order, watcher, opened)
            with suppress(ApprovalError):  # the approval was withdrawn or expired since
                controller.check_clearance(order, opened)
                approve = ""
    except FeatureLibError as error:
        status, code = ERROR_WORDS[error.exit_code], error.exit_code
        error.facts = msgspec.to_builtins(document(clearance, status, code, str(error)))
        raise
    command = person.command
    message = sentence(ending, catalogue, name, order.way, again=command, approve=approve)
    return _apply_answer(ending, plan, message, partial(document, clearance))


def _apply_answer(
    ending: Ending, plan: Plan, message: str, document: Callable[..., ApplyDocument]
) -> Carried:
    kind, text = ending.kind, message + before_return(ending, plan)
    usual = None if sys.stdout.isatty() else UNWRAPPED
    updates = [outcome for step in ending.steps for outcome in step.updates]
    return Carried(
        value=ending,
        make_rows=lambda: map(msgspec.to_builtins, result_documents(updates)),
        make_document=lambda: document(kind.value, kind.exit_code, text, ending),
        page=lambda width: ending_page(ending, plan, text, width or usual),
        exit_code=kind.exit_code,
    )


def _withdrawn_text(file: PlanFile, approve_command: str, journal: str | None) -> str:
    """Return the advice to approve a plan again. If the journal has a withdrawal of the approval,
    the text begins with it."""
    taken, path = list[Withdrawal](), journal_path(journal)
    if path.exists():
        with closing(Journal(path)) as opened:
            taken = [entry for entry in opened.withdrawals() if entry.plan == file.digest]
    taken_text = f"An approval of this plan was {taken[-1].text}. " if taken else ""
    return f"{taken_text}Approve it again: {approve_command}"


def _apply_document(
    file: PlanFile,
    entry: FleetEntry,
    settings: str,
    clearance: Clearance,
    status: str,
    code: int,
    message: str,
    ending: Ending | None = None,
) -> ApplyDocument:
    """Return the JSON document of an `apply`: the result, or the last completed check."""
    return fill(
        ApplyDocument,
        cluster=file.plan.cluster,
        name=entry.title,
        plan=file.digest,
        settings=settings,
        approved_by=clearance.by or None,
        reason=clearance.reason or None,
        signed=clearance.signed if clearance.by else None,
        outcome=status,
        exit_code=code,
        says=message,
        steps=len(file.plan.steps),
        applied_before=ending.before if ending else 0,
        requests=[
            RequestDocument(
                step=step.position + 1,
                outcome=step.fate.value,
                nodes_asked=step.asked,
                nodes_late=step.late,
                updates=result_documents(step.updates),
            )
            for step in (ending.steps if ending else ())
        ],
        reasons=ending.reasons if ending else (),
    )


def result_documents(updates: Sequence[MoveOutcome]) -> list[UpdateResultDocument]:
    """Return the outcome of each update as a JSON document."""
    return [
        fill(
            UpdateResultDocument,
            outcome,
            **asdict(outcome.update),
            operation=operation(outcome.update).lower(),
            outcome=outcome.fate.value,
        )
        for outcome in updates
    ]
