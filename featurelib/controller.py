"""Carries out one approved plan on one cluster: looks, decides, sends, looks again.

What was approved is exactly what is sent, only while the world is as the plan saw it. Every way it
can end is a type of featurelib.core.ending, or an error if nothing was sent.
"""

from __future__ import annotations

from datetime import UTC, datetime

from featurelib.carrying import Mode as Mode
from featurelib.carrying import Order as Order
from featurelib.carrying import Run
from featurelib.core.ending import Ending
from featurelib.errors import OutcomeUnknownError, PlanError
from featurelib.journal import Journal
from featurelib.looking import Watcher
from featurelib.owners import expect_ours
from featurelib.plan_checks import faults
from featurelib.planfile import digest
from featurelib.sending import LOCK_SECONDS


def apply(order: Order, watcher: Watcher, journal: Journal) -> Ending:
    """Carry out the plan. Raises what is an error before anything was sent by this run:

    PlanError, RefusedError (StalePlanError, ApprovalError, BusyError, JournalError), BackendError,
    and OutcomeUnknownError where an earlier request is not settled, or this one was interrupted.
    """
    plan = order.plan
    fault = next(faults(plan), None)
    if fault is not None:
        raise PlanError(f"plan for {plan.cluster}: {fault}. Nothing was sent. Make it again.")
    expect_ours(plan.cluster, watcher.fleet)
    approval = order.check_approval(datetime.now(UTC))
    with journal.lock(plan.cluster, order.command, seconds=LOCK_SECONDS) as lock:
        expect_settled(journal, order.plan.cluster, order.reach)
        mine = journal.entries(cluster=plan.cluster, plan=digest(plan))
        used = [entry for entry in mine if entry.intent.approval == approval]
        return Run(order, watcher, journal, lock, used).carry_out()


def expect_settled(journal: Journal, cluster: str, reach: str) -> None:
    """An earlier request that may have been applied is looked after first."""
    waiting = journal.entries(cluster=cluster, only_open=True)
    if waiting:
        numbers = ", ".join(str(entry.number) for entry in waiting)
        raise OutcomeUnknownError(
            f"cluster {cluster}: expected every earlier request to be settled, found "
            f"the outcome of journal entry {numbers} unknown. Nothing was sent. "
            f"Look first: featurelib resume {reach}".rstrip()
        )
