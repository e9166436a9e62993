"""Small reports, each of one thing that the samples do not show: what they say is a golden."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from featurelib.audit.findings import Mute
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.rows import join_rows
from featurelib.view.facts import RunFacts
from featurelib.view.model import Ingest, Report
from featurelib.view.report import report_run, summarize
from tests.report.samples import CATALOGUE, judge_samples
from tests.report.tables import AS_OF, SEEN, Row, finding, judged, plan, report, unfit

HOUR = 3600 * 10**6
TODAY = date(2026, 11, 21)  # as of which these reports judge
LATER, EARLIER = TODAY + timedelta(days=40), TODAY - timedelta(days=1)
ASIDE = {"muted": "the disk is replaced", "muted_until": LATER}
REFUSED = "127.0.0.1:19092: connection refused"
OWNED = Fleet(
    cluster=(
        FleetEntry(id="a", name="payments", owner="billing", contact="#billing-oncall"),
        FleetEntry(id="b", name="search", owner="", managed_by="strimzi"),
        FleetEntry(id="c", name="calm", owner="nobody is woken"),
    )
)


def step(
    feature: str = "metadata.version", start: int = 11, goal: int = 19, request: int = 1
) -> Row:
    levels = {"request": request, "from_level": start, "to_level": goal}
    return {"feature": feature, **levels, "upgrade_type": "UPGRADE", "timeout_ms": 1}


def missing(cluster: str) -> list[Row]:
    return [finding(cluster, "cluster_not_landed", "unknown")]


def old(*, days: int, gone: int = 0) -> Report:
    """The samples `days` after their newest line, with expected clusters that did not land."""
    tables = judge_samples(later=days * 24 * HOUR)
    rows = [row for n in range(gone) for row in missing(f"gone-{n}")]
    more = judged([plan(f"gone-{n}", "UNKNOWN", "unknown") for n in range(gone)], rows)
    tables = replace(
        tables,
        plans=join_rows([tables.plans, more.plans]),
        findings=join_rows([tables.findings, more.findings]),
    )
    return report(tables, newest=AS_OF - days * 24 * HOUR)


def silent(*nodes: int, of: int, missing_node: int | None = None) -> Report:
    """A cluster of which these nodes did not answer, and what follows from that."""
    follows = ("mode_unknown", "no_trustworthy_witness", "registrations_unproven")
    rows = [finding("c", code, "unknown", detail="") for code in follows]
    about = {"role": "broker", "detail": f"{REFUSED}."}
    rows += [finding("c", "node_not_answering", "unknown", node_id=n, **about) for n in nodes]
    if missing_node is not None:
        code = "expected_node_missing"
        rows.append(finding("c", code, "unknown", role="broker", node_id=missing_node))
    return report(judged([plan("c", "UNKNOWN", "unknown", of)], rows))


def mute(code: str = "unsupported_by_node", **more: object) -> Mute:
    given = {"code": code, "reason": "the disk is replaced", "until": LATER, **more}
    return Mute(**given)  # type: ignore[arg-type]  # as written in the scene


def ran(**more: object) -> Report:
    run = report_run(CATALOGUE, 1, 0, RunFacts(**more))  # type: ignore[arg-type]  # as written in the scene
    return summarize(judged([plan("a", "READY")]), run, CATALOGUE)


def scenes() -> Iterator[tuple[str, Report]]:
    """Title and report of each."""
    yield "nothing landed", report(judged([]))
    yield "nothing is wrong", report(judged([plan("a", "UP_TO_DATE", "finalized")]))
    yield (
        "a night without anything new",
        ran(ingest=Ingest(lines=0, accepted=0, repeated=0, quarantined=0)),
    )
    left_out = 1205, [(f"land/{n}.jsonl:7", "none\x1b[2J", "b\x1b"[n:] or None) for n in range(3)]
    counts = Ingest(lines=10, accepted=7, repeated=2, quarantined=1)
    yield "lines that were left out", ran(ingest=counts, quarantine=left_out)
    plans = [plan("a", "BLOCKED"), plan("b", "READY", steps=[step()])]
    plans.append(plan("c", "UP_TO_DATE", "finalized"))
    files = {"b": "plans/b.json"}
    tables = judged(plans, [unfit("a", 1, "f", 1, 2)])
    yield "whose the clusters are", report(tables, inventory=OWNED, plan_files=files)
    plans = [
        plan("held", "BLOCKED", steps=[step("f", 0, 1)]),
        plan("free", "READY", steps=[step(), step("group.version", 0, 1), step("f", 0, 2, 2)]),
        plan("typed", "READY", steps=[step("f; rm -rf /", 0, 2)]),
        plan("old", "READY", steps=[step("f", 0, 2)], dialects=["zk-2.7"]),
        plan("done", "UP_TO_DATE"),
    ]
    yield "what can be finalized", report(judged(plans, [unfit("held", 1, "g", 1, 2)]))
    ours = Fleet(cluster=(FleetEntry(id="a", managed_by="strimzi", managed_features=("g",)),))
    tables = judged([plan("a", "READY", steps=[step("group.version", 0, 1)])])
    yield (
        "managed by another, and ours to move",
        report(tables, inventory=ours, plan_files={"a": "plans/a.json"}),
    )
    moves = [step(start=25, goal=29), step("streams.version", 0, 1), step("f", 0, 2)]
    strimzi = FleetEntry(id="a", name="it's", managed_by="strimzi", managed_as="kafka/pay")
    yield (
        "managed by another, and part of it ours",
        report(
            judged([plan("a", "READY", steps=moves)]),
            inventory=Fleet(cluster=(strimzi,)),
            plan_files={"a": "plans/a.json"},
        ),
    )
    asked = finding("a", "strimzi_not_carried_out", "warning", resource="kafka/pay", level=29)
    asked |= {
        "detail": "kafka/pay: metadata.version 4.2-IV1 is requested, and its status shows 4.0"
    }
    tables = judged([plan("a", "READY", steps=moves[:1])], [asked])
    yield (
        "managed by another, who was asked already",
        report(tables, inventory=Fleet(cluster=(strimzi,))),
    )
    back = [
        {"feature": "group.version", "downgrade_floor": 0},
        {"feature": "metadata.version", "downgrade_floor": 28, "point_of_no_return": 28},
    ]
    ready = {"cluster": "a", "feature": "metadata.version", "verdict": "READY"}
    levels = {"finalized_level": 25, "target": 29, "ceiling": 29, "downgrade_floor": 23}
    may = {"may_join": ["3.9", "4.1", "4.2", "4.4", "vendor-1"], "may_join_after": []}
    plans = [plan("a", "READY", steps=[step(start=25, goal=29)], returns_after=back, **may)]
    yield "the way back", report(judged(plans, readiness=[ready | levels]))
    strangers = [
        finding(name, "not_in_inventory", "warning", entry=f'id = "{name}"') for name in "xyz"
    ]
    gone = finding("y", "ghost_broker", "warning", role="broker", node_id=2, finalized_level=25)
    calm = [plan(name, "UP_TO_DATE", "finalized") for name in "xa"]
    yield "one that is not in the inventory", report(judged(calm, strangers[:1]), inventory=OWNED)
    plans = [*calm, plan("y", "UP_TO_DATE"), plan("z", "BLOCKED")]
    yield (
        "several that are not in the inventory",
        report(
            judged(plans, [*strangers, gone | {"detail": ""}, unfit("z", 1, "f", 1, 2)]),
            inventory=OWNED,
            places=("new lines", "our fleet.toml"),
        ),
    )
    yield "a cluster that did not land", report(judged([plan("gone", "UNKNOWN")], missing("gone")))
    yield "no node answered", silent(1, 2, of=2)
    yield "one node answered", silent(1, of=2)
    yield "one did not answer and one is missing", silent(1, of=2, missing_node=9)
    plans = [plan(name, "UNKNOWN") for name in "abc"]
    rows = [finding(name, "levels_too_old", "unknown") for name in "ab"]
    yield "a share is too old", report(judged(plans, rows))
    young = judged(plans[:1], rows[:1])
    yield "all is too old, and the newest line young", report(young, newest=AS_OF - 71 * HOUR)
    about = {"role": "broker", "node_id": 2, "finalized_level": 25, "detail": ""}
    rows = [finding("a", "ghost_broker", "warning", **about)]
    rows.append(finding("a", "evidence_too_old", "unknown", **about, observed_at=SEEN))
    yield "a ghost that was seen too long ago", report(judged(plans[:1], rows))
    yield from late_scenes()
    plans = [plan(name, "BLOCKED") for name in "abc"]
    rows = [unfit("a", 2, "f", 1, 2) | ASIDE, unfit("b", 2, "f", 1, 2) | ASIDE]
    rows += [unfit("a", 3, "f", 1, 2) | ASIDE, unfit("b", 3, "f", 1, 2), unfit("c", 2, "f", 1, 2)]
    rules = (
        mute(),
        mute(until=EARLIER),
        mute("system_off", until=EARLIER),
        mute(node=9),
        mute(cluster="a", feature="f", node=2),
    )
    yield "mutes", report(judged(plans, rows), mutes=rules, names={"a": "payments"})
    yield "nothing but muted", report(judged(plans[:1], rows[:1]))
    rows = [unfit("a", 1, "metadata.version", 7, 25), unfit("a", 1, "g", 0, 1)]
    yield "a cause that holds back more", report(judged(plans[:1], rows))


def late_scenes() -> Iterator[tuple[str, Report]]:
    """Clusters whose newest line is hours older than the fleet's."""
    newest = datetime.fromtimestamp(AS_OF / 10**6, UTC)
    ages = {"calm": 1, "vanished": 24, "muted": 80, "stale": 81}
    seen = {name: newest - timedelta(hours=age) for name, age in ages.items()}
    fine = [
        plan(name, "UP_TO_DATE", "finalized", newest_line=seen[name])
        for name in ("calm", "vanished")
    ]
    known = FleetEntry(id="vanished", name="it's gone", bootstrap=("kafka-1.example:9092",))
    fleet, places = Fleet(cluster=(known,)), ("new lines", "our fleet.toml")
    late = report(judged(fine), newest=AS_OF, inventory=fleet, places=places)
    yield "a night without one cluster", late
    plans = [*fine, plan("gone", "UNKNOWN")]
    plans += [plan(name, "UNKNOWN", newest_line=seen[name]) for name in ("muted", "stale")]
    rows = [finding(name, "levels_too_old", "unknown") for name in ("muted", "stale")]
    tables = judged(plans, [*missing("gone"), rows[0] | ASIDE, rows[1]])
    yield "nights without clusters", report(tables, newest=AS_OF)
    lost = {
        "detail": "kafka-1.example:9092: no answer.",
        "observed_at": newest,
    }
    held = [plan(name, "UNKNOWN", newest_line=seen["calm"]) for name in ("vanished", "search")]
    rows = [finding(one["cluster"], "cluster_not_reached", "unknown", **lost) for one in held]
    settled = {"newest": AS_OF, "inventory": fleet, "places": places}
    yield "a cluster that nobody reached", report(judged(held[:1], rows[:1]), **settled)
    rows[1] |= ASIDE
    tables = judged([*held, *plans[:1], plan("gone", "UNKNOWN")], [*rows, *missing("gone")])
    yield "nights without clusters that nobody reached", report(tables, **settled)
    detail = "2 lines, the latest dated 2026-11-21T14:46:00Z"
    ahead = finding("vanished", "evidence_from_the_future", "warning", detail=detail)
    yield "a clock that is ahead", report(judged(fine, [ahead]), newest=AS_OF)


def old_scenes() -> Iterator[tuple[str, Report]]:
    """Samples that are too old: only what stands at the top and at the end is of interest."""
    yield "everything is too old", old(days=100)
    yield "all that landed is too old", old(days=100, gone=2)
    yield "one did not land", old(days=0, gone=1)
