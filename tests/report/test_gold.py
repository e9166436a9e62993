"""What gold says to people who ask with SQL is what the report says, whatever things are called."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from featurelib.audit import gold
from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions
from featurelib.audit.findings import FindingWords, Mute, Site, ghosts
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.findings import tagged
from featurelib.rows import join_rows
from featurelib.schema import FINDING
from featurelib.spark.auditing import run_row
from featurelib.view.model import Report
from featurelib.view.report import report_run, summarize
from featurelib.view.text import render_text
from tests.cli.commands import run
from tests.facts import with_facts
from tests.report import tables
from tests.report.samples import CATALOGUE, DIALECT, HOURS_72, read_samples
from tests.report.tables import finding, plan, unfit
from tests.rows import make

HOSTILE = "\x1b[31m'; DROP TABLE x --\u202e=1+1"
SAID = ("message", "consequence", "action", "command")


def _inventory() -> Fleet:
    """Every cluster has an address of its own, and every other one an owner; one is hostile."""
    entries = []
    for number, (cluster, name) in enumerate(read_samples().names.items()):
        owned = {"owner": f"team {number % 3}", "contact": HOSTILE} if number % 2 else {}
        owned |= {"managed_by": "strimzi"} if number % 3 == 0 else {}
        labels = {"env": "prod", "area": HOSTILE} if number % 4 == 0 else {}
        kept = Entry(
            id=cluster,
            name=HOSTILE if name == "ghost-broker" else name,
            bootstrap=(f"kafka-{number}.example:9092",),
            labels=labels,
            **owned,
        )
        entries.append(kept)
    return Fleet(cluster=tuple(entries))


@cache
def night(later: int = 0) -> tuple[Judged, Report]:
    """The samples with such an inventory, one code muted, judged so much later than their newest
    line; and the report."""
    samples, fleet = read_samples(), _inventory()
    mute = Mute(code="unsupported_by_node", reason="the disk is replaced", until=date(2026, 12, 31))
    conditions = Conditions(
        as_of=samples.newest + later, max_age=HOURS_72, inventory=fleet.inventory, mutes=(mute,)
    )
    judged = judge(samples.batch, conditions, CATALOGUE, DIALECT)
    run = report_run(CATALOGUE, 1, samples.newest + later)
    return judged, summarize(judged, run, CATALOGUE, inventory=fleet)


def test_software_that_goes_further_than_the_catalogue_is_counted_as_newer_and_last() -> None:
    beyond = finding("b", "level_newer_than_catalogue", "unknown", feature="metadata.version")
    other = finding("c", "level_newer_than_catalogue", "unknown", feature="kraft.version")
    runs = {"a": "4.4", "b": None, "c": None, "d": "3.9"}
    plans = [plan(name, "UNKNOWN", release=release) for name, release in runs.items()]
    [row] = run_row(tables.judged(plans, [beyond, other]), 20261129063000, 0, {}).to_pylist()
    found = [(one["release"], one["clusters"]) for one in row["releases"]]
    assert found == [("3.9", 1), ("4.4", 1), ("newer than 4.4", 1)]


@pytest.mark.parametrize("later", [0, HOURS_72])
def test_findings_have_the_words_of_the_report(later: int) -> None:
    judged, report = night(later)
    texts = gold.finding_texts(judged.findings, _inventory(), CATALOGUE).to_pylist()
    keys = judged.findings.select(["cluster", "code", "role", "node_id", "feature"]).to_pylist()
    told: dict[tuple[Any, ...], set[tuple[str, ...]]] = {}
    for cluster in report.clusters:
        for found in cluster.findings:
            key = (cluster.key, found.code, found.role, found.node_id, found.feature)
            said = (cluster.name, found.message, found.consequence, found.action, found.command)
            told.setdefault(key, set()).add(said)
    for key, row in zip(keys, texts, strict=True):
        assert tuple(row.values()) in told[tuple(key.values())], key
    assert len({text["message"] for text in texts}) > 30
    assert any("--bootstrap-server kafka-" in text["command"] for text in texts)
    assert later == 0 or any("too old" in text["consequence"] for text in texts)


def test_clusters_have_the_names_owners_and_levels_of_the_report() -> None:
    judged, report = night()
    rows = {
        row["cluster"]: row for row in gold.clusters(judged, _inventory(), CATALOGUE).to_pylist()
    }
    assert len(rows) == len(report.clusters) == len(read_samples().names)
    for cluster in report.clusters:
        row = rows[cluster.key]
        for name in ("name", "owner", "contact", "managed_by", "verdict", "severity", "phase"):
            assert row[name] == getattr(cluster, name), (cluster.name, name)
        assert tuple(row["labels"]) == cluster.labels
        known = [one for one in cluster.readiness if one.finalized is not None]
        levels = [(one.feature, one.finalized.number) for one in known if one.finalized.number]
        told = row["levels"] and [tuple(one.values()) for one in row["levels"]]
        assert told == (levels if known else None), cluster.name
        named = {one.feature: one.finalized for one in known}.get("metadata.version")
        assert row["metadata_version"] == (named and named.number)
        text = f"{row['metadata_version']} ({row['metadata_version_name']})"
        assert text == named.text if named and named.number else not row["metadata_version_name"]


def test_findings_that_say_the_same_have_each_the_command_of_their_cluster() -> None:
    ghost = {"code": "ghost_broker", "severity": "warning", "role": "broker", "node_id": 2}
    rows = [ghost | {"cluster": name, "finalized_level": 25, "detail": ""} for name in "abc"]
    fleet = Fleet(
        cluster=tuple(Entry(id=name, bootstrap=(f"{name}.example:9092",)) for name in "ab")
    )
    texts = gold.finding_texts(make(map(with_facts, rows), FINDING), fleet, CATALOGUE).to_pylist()
    asked = [text["command"].split("--bootstrap-server ")[1].split()[0] for text in texts]
    assert asked == ["a.example:9092", "b.example:9092", "HOST:PORT"]
    assert len({text["message"] for text in texts}) == 1


def test_the_command_that_collects_again_is_filled_in_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, made, _ = run("sandbox", "make", "c.db", "--json")
    own = json.loads(made)["cluster"]
    entries = (Entry(id=own, name="mine", file="c.db"), Entry(id="d"))
    (tmp_path / "f.toml").write_text(f'[[cluster]]\nid = "{own}"\nname = "mine"\nfile = "c.db"\n')
    live = {"code": "node_not_answering", "cause": "listener", "role": "broker", "node_id": 1}
    old = {"code": "levels_too_old"}
    rows = [
        of | {"cluster": name, "severity": "unknown"}
        for of in (live, old)
        for name in (own, "d", "e")
    ]
    rows.append(live | {"cluster": own, "severity": "unknown", "cause": None})
    findings, fleet = make(map(with_facts, rows), FINDING), Fleet(cluster=entries)
    said = gold.finding_texts(findings, fleet, CATALOGUE, ("land", "f.toml")).to_pylist()
    rest = "--out land --fleet f.toml"
    kinds = (f"mine {rest}", f"d {rest} --bootstrap HOST:PORT", f"{rest} --bootstrap HOST:PORT")
    ways = [f"featurelib collect {one}" for one in kinds]
    assert [row["command"] for row in said] == [*ways, *ways, ""]
    assert (code, run(*ways[0].split()[1:])[0]) == (0, 0)
    assert list((tmp_path / "land").glob(f"*-{own}.jsonl"))
    looked_at = gold.finding_texts(findings, fleet, CATALOGUE).to_pylist()
    assert {row["command"] for row in looked_at} == {""}


def test_findings_are_worded_together_as_each_is_worded_by_itself() -> None:
    """Clusters share a text only where their sites agree, and never one that names a cluster."""
    own, words = night()[0].findings, FindingWords(CATALOGUE)
    of = own.texts("cluster")
    sites = {
        name: Site(name=name, address=f"k{at % 2}:9092", managed_by=("", "msk", "strimzi")[at % 3])
        for at, name in enumerate(of.words[:-2])  # two are not listed
    }
    # Each finding in six clusters.
    moved = [replace(of, codes=(of.codes + step) % len(of.words)) for step in range(6)]
    findings = join_rows([own.replace(cluster=clusters) for clusters in moved])
    by_node, of_range = ghosts(findings), tagged("of_range", "range_unseen")
    rows, alone = findings.to_pylist(), []
    for row in rows:
        key = name, *_ = row["cluster"], row["role"], row["node_id"]
        stale = by_node.get(key) if row["code"] in of_range else None
        ghost = None if stale is None else rows[stale]
        alone.append(words.of(row, sites.get(name, Site(name=name)), ghost))
    together = words.of_rows(findings, sites)
    for name in SAID:
        assert together[name].to_pylist() == [getattr(advice, name) for advice in alone]
    assert len(together["message"].words) < len(rows)


def test_what_is_gone_has_one_remedy_that_of_its_own_cluster() -> None:
    """Whoever is in the way and gone is not to be upgraded; a node that runs is."""
    who = {"role": "broker", "node_id": 2}
    gone = finding("", "ghost_broker", "warning", finalized_level=25, detail="", **who)
    rows = [gone | {"cluster": name} for name in "ab"]
    rows += [unfit(name, node, "f", 1, 2) for name in "abc" for node in (2, 3)]
    fleet = Fleet(cluster=(Entry(id="a", bootstrap=("a.example:9092",)),))
    made = tables.judged([plan(name, "BLOCKED") for name in "abc"], rows)
    texts = gold.finding_texts(made.findings, fleet, CATALOGUE).to_pylist()[2:]
    assert [re.split(r"[:,.] ", text["action"])[0] for text in texts] == [
        "Start the node with software that supports the finalized and the requested levels",
        "Upgrade the software of broker 3.",
        "Start the node with software that supports the finalized and the requested levels",
        "Upgrade the software of broker 3.",
        "Upgrade the software of broker 2.",
        "Upgrade the software of broker 3.",
    ]
    asked = [
        text["command"].partition("--bootstrap-server ")[2].partition(" ")[0] for text in texts
    ]
    assert asked == ["a.example:9092", "", "HOST:PORT", "", "", ""]
    text = render_text(tables.report(made, inventory=fleet), width=1000)
    assert text.count("--bootstrap-server a.example:9092 --id 2") == 1
    assert text.count("Upgrade the software of broker 3.") == 3  # next, a, b
