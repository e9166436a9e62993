"""Carries out one approved plan on one cluster: looks, decides, sends, looks again.

What was approved is exactly what is sent, only while the world is as the plan saw it. Every way it
can end is a type of featurelib.core.ending, or an error if nothing was sent.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from featurelib.controller.carrying import Mode as Mode
from featurelib.controller.carrying import Order as Order
from featurelib.controller.carrying import Run
from featurelib.controller.commands import Way
from featurelib.controller.looking import Look, Watcher
from featurelib.controller.owners import expect_plan_ours
from featurelib.controller.sending import LOCK_SECONDS
from featurelib.core.ending import Ending
from featurelib.errors import (
    ApprovalError,
    BackendError,
    BusyError,
    OutcomeUnknownError,
    PlanError,
    RefusedError,
)
from featurelib.journal.journal import Journal
from featurelib.planning.files import SKEW, digest, say_time
from featurelib.planning.requirements import plan_faults


def apply(order: Order, watcher: Watcher, journal: Journal) -> Ending:
    """Carry out the plan. Raises what is an error before anything was sent by this run:

    PlanError, RefusedError (StalePlanError, ApprovalError, BusyError, JournalError), BackendError,
    and OutcomeUnknownError where an earlier request is not settled, or this one was interrupted.
    """
    plan = order.plan
    fault = next(plan_faults(plan), None)
    if fault is not None:
        raise PlanError(f"plan for {plan.cluster}: {fault}. Nothing was sent. Make it again.")
    expect_plan_ours(plan, watcher.fleet, watcher.catalogue)
    clearance = order.check_approval(datetime.now(UTC))
    with ExitStack() as held:
        try:
            lock = held.enter_context(
                journal.lock(plan.cluster, order.command, seconds=LOCK_SECONDS)
            )
            expect_settled(journal, plan.cluster, order.way)
        except (BusyError, OutcomeUnknownError):  # not the point if another cluster is at hand
            with suppress(BackendError):
                _expect_cluster(watcher.look(), order, watcher, journal)
            raise
        mine = journal.entries(cluster=plan.cluster, plan=digest(plan))
        if order.mode is Mode.SEND:
            _expect_clock(journal)
        look = watcher.look()
        _expect_cluster(look, order, watcher, journal)
        return Run(order, watcher, journal, lock, mine, clearance.approval).carry_out(look)


def _expect_cluster(look: Look, order: Order, watcher: Watcher, journal: Journal) -> None:
    """Raises RefusedError where another cluster than the plan's answers. Nothing else is said then:
    all that is known of the plan is of a cluster that was not looked at."""
    here, wanted = look.sight.cluster_id, order.plan.cluster
    if here != wanted:
        raise RefusedError(
            f"{watcher.backend.where}: this is cluster {here}, the plan is of cluster {wanted}. "
            f"Nothing was sent. {_right_way(order, watcher, journal)}"
        )


def _right_way(order: Order, watcher: Watcher, journal: Journal) -> str:
    """How the plan's cluster is reached, where the inventory or the journal knows it."""
    wanted = order.plan.cluster
    has_options = order.way.reach.startswith("--")
    if any(entry.id == wanted and entry.is_reachable for entry in watcher.fleet.cluster):
        if has_options:
            return f"The inventory reaches cluster {wanted}: leave {order.way.reach} out."
        return f"Mend the address of cluster {wanted} in the inventory."
    used = [entry.intent.reach for entry in journal.entries(cluster=wanted)]
    for reach in reversed(used):
        if reach.startswith("--") and reach != order.way.text:
            return f"Cluster {wanted} was reached before with {reach}"
    return f"Give the address or file of cluster {wanted}: --bootstrap HOST:PORT or --file PATH."


def _expect_clock(journal: Journal) -> None:
    """Raises ApprovalError where the journal was written to later than now: then this clock is
    behind, or one was ahead, and whether an approval has expired cannot be told."""
    now = datetime.now(UTC)
    times = [
        (moment, entry.number)
        for entry in journal.entries()
        for moment in (entry.intent.at, *(outcome.at for outcome in entry.outcomes))
    ]
    newest, number = max(times, default=(0.0, 0))
    written = datetime.fromtimestamp(newest, UTC)
    if written > now + SKEW:
        raise ApprovalError(
            f"{journal.path}: expected entries of before now, {say_time(now)}, found that entry "
            f"{number} was written at {say_time(written)}: this clock is behind, or it was ahead "
            "then, and whether the approval has expired cannot be told. Nothing was sent. Set the "
            "clock right; if it is, go on in another journal: --journal FILE"
        )


def expect_settled(journal: Journal, cluster: str, way: Way) -> None:
    """An earlier request that may have been applied is looked after first."""
    waiting = journal.entries(cluster=cluster, only_open=True)
    if waiting:
        numbers = ", ".join(str(entry.number) for entry in waiting)
        raise OutcomeUnknownError(
            f"cluster {cluster}: expected every earlier request to be settled, found "
            f"the outcome of journal entry {numbers} unknown. Nothing was sent. "
            f"Look first: {way.resume}"
        )
