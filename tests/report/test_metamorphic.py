"""On random reports the tables, the JSON, the text, the page and the gauges count the same."""

from __future__ import annotations

import json
import re
from collections import Counter
from csv import DictReader
from dataclasses import replace
from datetime import UTC, date, datetime
from io import StringIO
from typing import Any, get_args

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from featurelib.audit.findings import Mute, wordings
from featurelib.config.fleet import FleetPart
from featurelib.extras.exports.sheets import FORMULA, OF_CLUSTERS, WHOLE, Sheet, render_sheet
from featurelib.feature import Phase, Severity, Verdict
from featurelib.view.html import render_html
from featurelib.view.model import Report, ReportedPart, Verb, render_json
from featurelib.view.prometheus import render_prometheus
from featurelib.view.report import narrow
from featurelib.view.text import render_text
from tests.core.scale import some
from tests.report.page import Page, read_page
from tests.report.samples import DIALECT
from tests.report.schema_check import faults
from tests.report.tables import AS_OF, Row, judged, report
from tests.report.test_json import load_schema
from tests.report.test_text import COMMANDS, widest

EXAMPLES = some(100)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
FEATURES = st.sampled_from(["metadata.version", "group.version", "search", "größe"]) | NAMES
LEVELS = st.integers(-2, 40) | st.none()
VERDICTS = st.sampled_from([verdict.value for verdict in Verdict])
SEVERITIES = st.sampled_from([severity.value for severity in Severity])
CODES = st.sampled_from(sorted(wordings(DIALECT))) | NAMES
DAYS = st.dates(date(2026, 11, 1), date(2026, 12, 1))
MUTES = st.lists(
    st.builds(
        Mute,
        code=CODES,
        reason=NAMES,
        until=DAYS,
        feature=FEATURES | st.just(""),
        node=st.integers(0, 5) | st.none(),
    ),
    max_size=4,
).map(tuple)


def rows_of(cluster: str) -> st.SearchStrategy[dict[str, list[Row]]]:
    constant = st.just(cluster)
    level, role = st.integers(0, 40), st.sampled_from(["broker", "controller"])
    node = st.integers(0, 5)
    step = st.fixed_dictionaries(
        {
            "request": st.just(1),
            "feature": FEATURES,
            "from_level": level,
            "to_level": level,
            "upgrade_type": st.just("UPGRADE"),
            "timeout_ms": st.just(60_000),
        }
    )
    parts = {
        "plans": {
            "verdict": VERDICTS,
            "phase": st.sampled_from([phase.value for phase in Phase]),
            "nodes": st.integers(0, 3000),
            "steps": st.lists(step, max_size=2),
        },
        "findings": {
            "code": CODES,
            "severity": SEVERITIES,
            "role": role | st.none(),
            "node_id": node | st.none(),
            "feature": FEATURES | st.none(),
            "finalized_level": LEVELS,
            "level": LEVELS,
            "min_version": LEVELS,
            "max_version": LEVELS,
            "epoch": st.integers(0, 99) | st.none(),
            "line_id": st.integers(-(2**63), 2**63 - 1) | st.none(),
            "detail": NAMES | st.none(),
            "muted": NAMES | st.none(),
            "muted_until": DAYS,
        },
        "readiness": {
            "feature": FEATURES,
            "verdict": VERDICTS,
            "finalized_level": LEVELS,
            "target": LEVELS,
            "ceiling": level,
            "available": LEVELS,
            "downgrade_floor": LEVELS,
            "point_of_no_return": LEVELS,
            "blockers": st.integers(0, 9),
            "unknowns": st.integers(0, 9),
        },
        "incompatible": {
            "role": role,
            "node_id": node,
            "feature": FEATURES,
            "finalized_level": level,
            "min_version": LEVELS,
            "max_version": LEVELS,
            "fenced": st.booleans() | st.none(),
        },
    }
    sizes = {"plans": (1, 1), "findings": (0, 6), "readiness": (0, 4), "incompatible": (0, 2)}
    return st.fixed_dictionaries(
        {
            part: st.lists(
                st.fixed_dictionaries({"cluster": constant, **columns}),
                min_size=sizes[part][0],
                max_size=sizes[part][1],
            )
            for part, columns in parts.items()
        }
    )


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, list[Row]]:
    clusters = draw(st.lists(NAMES, max_size=6, unique=True))
    parts: dict[str, list[Row]] = {"plans": [], "findings": [], "readiness": [], "incompatible": []}
    for cluster in clusters:
        for part, rows in draw(rows_of(cluster)).items():
            parts[part] += rows
    return parts


# A finding that lacks what its command names: the command stood there without it.
MISSING = dict.fromkeys(("feature", "node_id", "muted", "muted_until"))
BARE: dict[str, list[Row]] = {
    "plans": [
        {"cluster": "a", "verdict": "UNKNOWN", "phase": "mixed software", "nodes": 1, "steps": []}
    ],
    "findings": [{"cluster": "a", "code": "not_in_inventory", "severity": "critical", **MISSING}],
    "readiness": [],
    "incompatible": [],
}

MOVE = {"request": 1, "feature": "metadata.version", "from_level": 0, "to_level": 0}
SPACED = {name: [] for name in BARE} | {
    "plans": [
        BARE["plans"][0]
        | {"cluster": " 0", "steps": [MOVE | {"upgrade_type": "UPGRADE", "timeout_ms": 60000}]}
    ]
}


@example(BARE, 60, (), 0)
@example(SPACED, 60, (), 0)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(fleets(), st.sampled_from([60, 80, 100, 120]), MUTES, st.integers(0, 6))
def test_all_forms_of_a_report_count_the_same(
    fleet: dict[str, list[Row]], width: int, mutes: tuple[Mute, ...], size: int
) -> None:
    said = report(judged(**fleet), mutes=mutes)
    document = json.loads(render_json(said))
    text = render_text(said, width=width, limit=0)
    schema = load_schema()
    assert list(faults(document, schema)) == []
    assert widest(text) <= width
    for counted in (count_tables(fleet), count_json(document)):
        assert document["fleet"] | counted == document["fleet"]
    check_text(text, document)
    check_today(text, document)
    check_page(read_page(render_html(said)), document)
    check_gauges(render_prometheus(said), document)
    check_mutes(mutes, fleet["findings"], document)
    check_sheets({f"{sheet}.csv": render_sheet(said, sheet) for sheet in Sheet}, document)
    check_part(fleet, size, said, mutes)


def check_part(
    fleet: dict[str, list[Row]], size: int, whole: Report, mutes: tuple[Mute, ...]
) -> None:
    """The report on a part is that of its clusters alone."""
    ids = frozenset(sorted({row["cluster"] for row in fleet["plans"]})[:size])
    mine = {part: [row for row in rows if row["cluster"] in ids] for part, rows in fleet.items()}
    alone = report(judged(**mine), mutes=mutes)
    part = narrow(whole, FleetPart(text="owner \x1b", options="", ids=ids, unlisted=None))
    of = ReportedPart(text="owner \\x1b", of=whole.fleet.clusters)
    met = tuple(mute for mute in alone.mutes if mute.findings)
    assert part == replace(alone, run=part.run, part=of, mutes=met)
    assert f"{of.text}: {len(ids)} of " in render_text(part, width=1000)


def check_sheets(sheets: dict[str, str], document: Any) -> None:
    """A sheet has a row for each, and no formula."""
    rows = {name: list(DictReader(StringIO(text))) for name, text in sheets.items()}
    for sheet, (_, key) in WHOLE.items():
        assert len(rows[f"{sheet}.csv"]) == len(document[key])
    for sheet, (_, key) in OF_CLUSTERS.items():
        each = [len(cluster[key] or ()) for cluster in document["clusters"]]
        assert len(rows[f"{sheet}.csv"]) == sum(each)
    cells = [cell for sheet in rows.values() for row in sheet for cell in row.values()]
    assert all(cell.isprintable() for cell in cells)
    parts = [part.lstrip() for cell in cells for part in cell.split(";")]  # some separate so
    assert not [p for p in parts if p[:1] in FORMULA and not p.lstrip("-").isdigit()]


def check_today(text: str, document: Any) -> None:
    """Whoever needs action stands in some group, nobody else does, and all forms have them. What is
    critical comes first, and whoever has no data before any plan."""
    tasks, clusters = document["today"], document["clusters"]
    needing = {cluster["key"] for cluster in clusters if cluster["needs_person"]}
    assert {key for task in tasks for key in task["clusters"]} == needing
    assert [t for t in tasks if len(set(t["clusters"])) < len(t["clusters"])] == []
    # A code stands once for each severity that the settings gave it: those have ranks of their own.
    kinds = Counter((task["verb"], *task["codes"]) for task in tasks)
    ranks = {(one["code"], one["severity"]) for c in clusters for one in c["findings"]}
    many = Counter(code for code, _ in ranks)
    assert [kind for kind, n in kinds.items() if n > max(1, many[kind[-1]])] == []
    verbs = [task["verb"] for task in tasks]
    plans = [verbs.index(one) for one in ("Approve", "Hand over") if one in verbs]
    assert not plans or "Collect" not in verbs[min(plans) :]
    grave = {
        (cluster["key"], found["code"])
        for cluster in clusters
        for found in cluster["findings"]
        if found["severity"] == "critical" and found["muted"] is None
    }
    first = tasks[: len({code for _, code in grave})]
    assert {(key, code) for t in first for key in t["clusters"] for code in t["codes"]} >= grave
    part = text.partition("\nToday\n")[2].partition("\n\n")[0]
    # `Verb NAME:` stands above a command, and a name may begin with a space.
    task_row = rf"^({'|'.join(get_args(Verb))})(?:  | · )(?!.*:\n(?:{COMMANDS}))"
    verbs = re.findall(task_row, part, re.MULTILINE)
    assert verbs == [task["verb"] for task in tasks]


def check_page(page: Page, document: Any) -> None:
    """What the page shows in figures, and the rows of its grid, are what the JSON holds."""
    fleet = document["fleet"]
    shown = {label: int(number.replace(",", "")) for number, label in page.tiles}
    assert {verdict: shown[verdict] for verdict in Verdict} == fleet["clusters_by_verdict"]
    assert shown["need action"] == fleet["need_person"]
    assert shown["can be upgraded now"] == fleet["can_move"]
    unfit = "node that does" if fleet["incompatible_nodes"] == 1 else "nodes that do"
    assert shown[f"{unfit} not support a finalized level"] == fleet["incompatible_nodes"]
    muted, first = ("muted findings", "the first ") if fleet["muted"] > 1 else ("muted finding", "")
    assert shown.get(muted, 0) == fleet["muted"]
    runs_out = [text for text in page.texts if re.match(r"\((the first )?until ", text)]
    assert runs_out == ([f"({first}until {fleet['muted_until']})"] if fleet["muted"] else [])
    listed = Counter(text.split()[0] for text in page.mutes)
    names = {"in_use": "until", "expired": "ran", "unused": "matches"}
    assert {state: listed[names[state]] for state in names} == states(document)
    assert count(Verdict, page.rows) == fleet["clusters_by_verdict"]
    assert page.tasks == [task["verb"] for task in document["today"]]
    verdicts = [
        ready["verdict"] for cluster in document["clusters"] for ready in cluster["readiness"]
    ]
    assert count(Verdict, page.verdicts) == count(Verdict, verdicts)
    assert page.articles == fleet["clusters"]


def check_mutes(mutes: tuple[Mute, ...], findings: list[Row], document: Any) -> None:
    """Each mute of the JSON counts the rows it is about, and knows whether it ran out."""
    expected = Counter(
        (
            mute.code,
            mute.until.isoformat(),
            mute.until < datetime.fromtimestamp(AS_OF / 1_000_000, UTC).date(),
            sum(
                row["code"] == mute.code
                and mute.feature in ("", row["feature"])
                and mute.node in (None, row["node_id"])
                for row in findings
            ),
        )
        for mute in mutes
    )
    keys = ("code", "until", "expired", "findings")
    assert Counter(tuple(one[key] for key in keys) for one in document["mutes"]) == expected


def states(document: Any) -> dict[str, int]:
    """How many mutes ran out, meet nothing, and are in use."""
    kinds = Counter(
        "expired" if one["expired"] else "in_use" if one["findings"] else "unused"
        for one in document["mutes"]
    )
    return {state: kinds[state] for state in ("in_use", "expired", "unused")}


def check_gauges(text: str, document: Any) -> None:
    """Every gauge of the fleet is what the JSON holds."""
    fleet = document["fleet"]
    found = {name: float(value) for name, value in (row.rsplit(" ", 1) for row in samples(text))}
    for gauge, label, counts in (
        ("clusters", "verdict", fleet["clusters_by_verdict"]),
        ("phases", "phase", fleet["clusters_by_phase"]),
        ("features", "verdict", fleet["features_by_verdict"]),
        ("findings", "severity", fleet["findings_by_severity"]),
        ("mutes", "state", states(document)),
    ):
        for key, number in counts.items():
            assert found[f'featurelib_{gauge}{{{label}="{key}"}}'] == number
    for gauge in ("need_person", "can_move", "incompatible_nodes"):
        assert found[f"featurelib_{gauge}"] == fleet[gauge]
    assert found["featurelib_findings_muted"] == fleet["muted"]
    ends = found.get("featurelib_mute_end_timestamp_seconds")
    last = None if ends is None else datetime.fromtimestamp(ends - 1, UTC).date().isoformat()
    assert last == fleet["muted_until"]
    for gauge, about in (
        ("cluster_info", [(c["id"], c["name"], c["verdict"]) for c in document["clusters"]]),
        ("feature_info", [
            (c["id"], c["name"], r["feature"], r["verdict"])
            for c in document["clusters"] for r in c["readiness"]
        ]),
    ):  # fmt: skip
        rows = [name for name in found if name.startswith(f"featurelib_{gauge}{{")]
        assert len(rows) == len(set(about))


def samples(text: str) -> list[str]:
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def count_tables(fleet: dict[str, list[Row]]) -> Row:
    nodes = {(row["cluster"], row["node_id"]) for row in fleet["incompatible"]}
    return {
        "clusters": len(fleet["plans"]),
        "clusters_by_verdict": count(Verdict, [row["verdict"] for row in fleet["plans"]]),
        "clusters_by_phase": count(Phase, [row["phase"] for row in fleet["plans"]]),
        "features": len(fleet["readiness"]),
        "features_by_verdict": count(Verdict, [row["verdict"] for row in fleet["readiness"]]),
        "findings": len(fleet["findings"]),
        "findings_by_severity": count(Severity, [row["severity"] for row in fleet["findings"]]),
        "muted": sum(row["muted"] is not None for row in fleet["findings"]),
        "muted_until": min(
            (row["muted_until"].isoformat() for row in fleet["findings"] if row["muted"]),
            default=None,
        ),
        "can_move": sum(bool(row["steps"]) for row in fleet["plans"]),
        "incompatible_nodes": len(nodes),
    }


def count_json(document: Any) -> Row:
    clusters = document["clusters"]
    features = [ready for cluster in clusters for ready in cluster["readiness"]]
    findings = [found for cluster in clusters for found in cluster["findings"]]
    return {
        "clusters": len(clusters),
        "clusters_by_verdict": count(Verdict, [cluster["verdict"] for cluster in clusters]),
        "clusters_by_phase": count(Phase, [cluster["phase"] for cluster in clusters]),
        "features": len(features),
        "features_by_verdict": count(Verdict, [ready["verdict"] for ready in features]),
        "findings": len(findings),
        "findings_by_severity": count(Severity, [found["severity"] for found in findings]),
        "muted": sum(found["muted"] is not None for found in findings),
        "muted_until": min(
            (found["muted_until"] for found in findings if found["muted"]), default=None
        ),
        "need_person": sum(cluster["needs_person"] for cluster in clusters),
    }


def count(keys: type[Verdict] | type[Phase] | type[Severity], values: list[str]) -> dict[str, int]:
    counted = Counter(values)
    return {key.value: counted[key.value] for key in keys}


def check_text(text: str, document: Any) -> None:
    """What the text says in figures is what the JSON holds."""
    fleet, words = document["fleet"], re.sub(r"\s+", " ", text)
    if not fleet["clusters"]:
        assert "No cluster was judged" in words
        return
    for label, counts, total in (
        ("clusters", fleet["clusters_by_verdict"], fleet["clusters"]),
        ("their features", fleet["features_by_verdict"], fleet["features"]),
    ):
        assert f"{label} {' '.join(str(n) for n in counts.values())} {total}" in words
    for label, counts in (
        ("phases", fleet["clusters_by_phase"]),
        ("findings", fleet["findings_by_severity"]),
    ):
        shown = " · ".join(f"{n} {name}" for name, n in counts.items() if n)
        assert f"{label} {shown or 'none'}" in words
    many, first = ("s", "the first ") if fleet["muted"] > 1 else ("", "")
    said = f"of these {fleet['muted']} finding{many} muted, {first}until {fleet['muted_until']}"
    assert (said in words) == bool(fleet["muted"])
    table = text.split("Clusters, worst first\n")[1].split("\nWhat to do, cluster by cluster\n")[0]
    verdicts = Counter(re.findall(rf"^({'|'.join(Verdict)}) ", table, re.MULTILINE))
    assert {v: verdicts[v] for v in fleet["clusters_by_verdict"]} == fleet["clusters_by_verdict"]
    all_old = 0 < fleet["too_old"] == fleet["clusters"] - fleet["not_landed"]
    assert all_old or not fleet["all_too_old"]
    assert all_old == ("Every verdict is UNKNOWN because the evidence" in words)
    if fleet["need_person"] and not all_old:
        assert f"{fleet['need_person']} of {fleet['clusters']} cluster" in words
