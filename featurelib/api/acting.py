"""What changes a cluster. Looking comes first, sending once, looking again after it.

Everything that is sent is in the journal of this machine, and `featurelib resume` settles what is
not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from featurelib.api.clusters import Embedded, Live, choose_live
from featurelib.api.planning import Plan, read_bytes, read_plan
from featurelib.api.shown import Readable
from featurelib.catalogue import NEWEST_RELEASE
from featurelib.cli.catalogue import choose_software, open_catalogue
from featurelib.cli.journal import journal_path
from featurelib.controller import applying as controller
from featurelib.controller import updating
from featurelib.controller.applying import Mode, Order
from featurelib.controller.ending_words import sentence, update_line
from featurelib.controller.sending import Waits
from featurelib.controller.updates import FeatureUpdate, UpdateResult
from featurelib.core.ending import Applied, Ending, NothingToDo
from featurelib.errors import ApprovalError, ConfigError
from featurelib.journal.journal import Clearance, Journal
from featurelib.making import Formatted, make_embedded
from featurelib.planning.files import PlanFile
from featurelib.settings_file import find_settings
from featurelib.signing import checker
from featurelib.source import Wanted


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Carried(Readable):
    """What became of a plan: `ending` is of a type of featurelib.core.ending. `text` has a line an
    update, in KIP-584's form, and one sentence that says what is true."""

    ending: Ending
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def is_done(self) -> bool:
        """Whether every level of the plan is there, and every node reports it."""
        return isinstance(self.ending, (Applied, NothingToDo))


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
    plan: Plan | str,
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
    order = Order(
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
    like: Formatted | str
    if capture is not None:
        like = capture
    else:
        own = choose_software(catalogue, software)
        like = Formatted(own=own, metadata=metadata, brokers=brokers, controllers=controllers)
    make_embedded(file, like, catalogue)
    return Embedded(wanted=Wanted(file=file), catalogue=catalogue)


def _checker(
    file: PlanFile, approval: bytes | str | None, live: Live, mode: Mode
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
