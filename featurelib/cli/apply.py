"""`featurelib apply`: carries out one approved plan on one cluster, and says what is true then.

What is read of the plan is what its digest covers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import join, quote

import msgspec

from featurelib.api.documents import ApplyDocument, RequestDocument
from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue
from featurelib.cli.entrance import WORDS, say
from featurelib.cli.journal import result_documents
from featurelib.cli.options import confirm
from featurelib.cli.streams import INTERRUPTED, raising_at_interrupt
from featurelib.config.catalogue import open_catalogue
from featurelib.config.files import find_settings, journal_path
from featurelib.config.settings import Settings
from featurelib.controller.apply import ApplyOrder, Mode, apply
from featurelib.controller.journal import Clearance, Journal
from featurelib.controller.owners import expect_plan_ours
from featurelib.controller.send import NODES_SECONDS, Waits
from featurelib.core.outcome import Ending, EndingKind
from featurelib.errors import ApprovalError, ConfigError, FeatureLibError, PlanError
from featurelib.planning import files
from featurelib.planning.files import PlanFile, read_approval
from featurelib.source import Chosen, ReachedCluster, Wanted
from featurelib.view.documents import as_json as to_json
from featurelib.view.documents import fill
from featurelib.view.layout import terminal_width, wrap
from featurelib.view.outcome import danger_page, order_page, sentence, update_line
from featurelib.words import clean

# What `featurelib apply` shows: the plan before it asks, a line an update, one sentence after.
#
# Text goes to stdout; with JSON one object does, and what is asked goes to stderr.


def _wrapped_for_people(sentence: str) -> list[str]:
    """The sentence as one line, which a script takes; at a terminal as long as it is wide."""
    return wrap(sentence, terminal_width()) if sys.stdout.isatty() else [sentence]


@dataclass(slots=True, kw_only=True)
class Shown:
    """One plan, the cluster it is for, and by whose word it would be sent: `settings` is the file
    that rules, `clearance` the approval once it was checked."""

    made: PlanFile
    reached: ReachedCluster
    as_json: bool
    settings: str
    clearance: Clearance | None = None

    @property
    def name(self) -> str:
        """What people call the cluster, with its id."""
        cluster = clean(self.made.plan.cluster)
        title = clean(self.reached.entry_of(self.made.plan.cluster).title or cluster)
        return cluster if title == cluster else f"{title} ({cluster})"

    def ask(self, *, yes: bool) -> None:
        """What would be done, and what cannot be taken back; then the question."""
        page = order_page(self.made, self.name, self._rules(), self.reached.catalogue)
        (say if self.as_json else print)(str(page))
        confirm(f"Apply this plan to cluster {self.name}?", yes=yes)

    def warn(self) -> None:
        """What rules and what cannot be taken back, where nothing is asked because nothing is
        written."""
        for name, value in self._rules():
            say(f"{name}: {value}")
        if text := str(danger_page(self.made.plan, self.reached.catalogue)):
            (say if self.as_json else print)(text)

    def _rules(self) -> list[tuple[str, str]]:
        given = self.clearance
        rules = [("settings", clean(self.settings, 400))]
        if given is not None and given.by:
            rules.append(("approval", clean(given.text, 2000)))
        return rules

    def refused(self, error: FeatureLibError) -> None:
        """What ended it before anything was sent, for a program; people are told on stderr."""
        error.facts = msgspec.to_builtins(
            self._document(WORDS[error.exit_code], error.exit_code, str(error))
        )

    def ended(self, ending: Ending, says: str) -> None:
        """What became of it."""
        if self.as_json:
            document = self._document(ending.kind.value, ending.kind.exit_code, says, ending)
            print(to_json(document))
            return
        if ending.kind is not EndingKind.NOTHING_TO_DO:
            print("\n".join(self._lines(ending)))
        print("\n".join(_wrapped_for_people(says)))

    def _lines(self, ending: Ending) -> list[str]:
        """One line an update, in KIP-584's form: with its result, or without if it was not sent."""
        results = {
            (step.position, outcome.update.feature): outcome
            for step in ending.steps
            for outcome in step.updates
        }
        lines = []
        for position, step in enumerate(self.made.plan.steps):
            for update in step.updates:
                outcome = results.get((position, update.feature))
                line = update_line(update, outcome)
                if outcome is None and ending.steps:
                    line += " Result: " + ("OK, before" if position < ending.before else "NOT SENT")
                lines.append(line)
        return lines

    def _document(
        self, word: str, code: int, says: str, ending: Ending | None = None
    ) -> ApplyDocument:
        plan, given = self.made.plan, self.clearance or Clearance(approval="")
        return fill(
            ApplyDocument,
            cluster=plan.cluster,
            name=self.reached.entry_of(plan.cluster).title,
            plan=self.made.digest,
            settings=self.settings,
            approved_by=given.by or None,
            reason=given.reason or None,
            signed=given.signed if given.by else None,
            outcome=word,
            exit_code=code,
            says=says,
            steps=len(plan.steps),
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


def apply_command(
    plan: str,
    approval: str | None = None,
    dry_run: bool = False,
    validate_only: bool = False,
    yes: bool = False,
    bootstrap: str | None = None,
    controllers: str | None = None,
    zookeeper: str | None = None,
    file: str | None = None,
    fleet: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    wait: float = NODES_SECONDS,
    journal: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Carry out an approved plan on its cluster.

    The cluster is the plan's, as the inventory reaches it, unless addresses are given. It is looked
    at again first: if anything is not as the plan saw it, nothing is sent. Then one request a step
    goes to the controller, and each is looked after until every node reports it. --dry-run and
    --validate-only write nothing and need no approval.

    \b
        featurelib apply payments.json --approval payments.approval.json
        featurelib apply payments.json --dry-run --bootstrap kafka-1:9092

    Exit codes: 0 applied, or nothing to do; 1 stopped part of the way, or not every node reports
    it; 2 usage; 3 refused, nothing written; 4 outcome unknown, run featurelib resume; 5 could not
    look.
    """
    mode = _mode(dry_run=dry_run, validate_only=validate_only)
    (settings, ruled), catalogue = find_settings(config), open_catalogue(overlay, say)
    made = files.read_plan(_read(plan, "a plan file"), plan)
    wanted = Wanted(bootstrap=bootstrap, controllers=controllers, zookeeper=zookeeper, file=file)
    wanted = replace(wanted, fleet=fleet, timeout=timeout)
    cluster = None if wanted.addresses else made.plan.cluster
    chosen = Chosen(wanted=replace(wanted, cluster=cluster), catalogue=catalogue)
    reached = chosen.reached()
    order = ApplyOrder(
        plan=made.plan,
        check_approval=_checker(made, plan, approval, settings, mode),
        mode=mode,
        command=join(["featurelib", *sys.argv[1:]]),
        way=chosen.way(journal, cluster=made.plan.cluster),
        waits=Waits(nodes=wait),
        name=reached.entry_of(made.plan.cluster).name,
        settings=ruled,
    )
    shown = Shown(made=made, reached=reached, as_json=as_json, settings=ruled)
    try:
        _show(shown, order, yes=yes)
        with raising_at_interrupt():
            ending = _carry_out(order, reached, settings, journal_path(journal))
    except FeatureLibError as error:
        shown.refused(error)
        raise
    except KeyboardInterrupt:
        say("error: interrupted; nothing was sent by this run")
        return INTERRUPTED
    shown.ended(ending, _sentence(ending, order, catalogue, shown.name))
    return ending.kind.exit_code


def _sentence(ending: Ending, order: ApplyOrder, catalogue: Catalogue, name: str) -> str:
    """What is true now, and the commands that go on from here."""
    way = order.way
    return sentence(
        ending, catalogue, name=name, resume=way.resume, again=order.command, plan=way.plan
    )


def _show(shown: Shown, order: ApplyOrder, *, yes: bool) -> None:
    """Check what needs no look at the cluster, then show what would be done, and ask."""
    expect_plan_ours(order.plan, shown.reached.fleet, shown.reached.catalogue)
    shown.clearance = order.check_approval(datetime.now(UTC))
    if order.mode is Mode.SEND:
        shown.ask(yes=yes)
    else:
        shown.warn()


def _mode(*, dry_run: bool, validate_only: bool) -> Mode:
    if dry_run and validate_only:
        raise ConfigError("expected --dry-run or --validate-only, found both. Leave one out.")
    return Mode.REHEARSE if dry_run else Mode.VALIDATE if validate_only else Mode.SEND


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: expected {what}, found: {error.strerror}.") from error


def _checker(
    made: PlanFile, path: str, approval: str | None, settings: Settings, mode: Mode
) -> Callable[[datetime], Clearance]:
    """What says whether the plan is approved, as of a time. Only what sends needs an approval."""
    again = f"featurelib approve {quote(path)} --expires 24h"
    if approval is None:
        if mode is Mode.SEND:
            raise ConfigError(f"expected --approval FILE, found none. Write one: {again}")
        return lambda now: Clearance(approval="")
    from featurelib.controller.signing import checker

    text = _read(approval, "an approval")
    check = checker(made, text, settings=settings, where=approval, path=path)

    def check_by_name(now: datetime) -> Clearance:
        try:
            return check(now)
        except (ApprovalError, PlanError) as error:
            if _is_of_another(text, approval, made):
                raise ApprovalError(
                    f"{approval}: expected an approval of the plan {path}, found one of another "
                    f"plan. Nothing was sent. Give the one of this plan with --approval FILE, or "
                    f"write it: {again}"
                ) from error
            raise

    return check_by_name


def _is_of_another(text: bytes, where: str, made: PlanFile) -> bool:
    """Whether it is a whole approval, of another plan."""
    try:
        return read_approval(text, where).approval.plan != made.digest
    except FeatureLibError:
        return False


def _carry_out(
    order: ApplyOrder, reached: ReachedCluster, settings: Settings, path: Path
) -> Ending:
    opened = Journal(path)
    try:
        with reached.watcher(settings.max_age, say) as watcher:
            return apply(order, watcher, opened)
    finally:
        opened.close()
