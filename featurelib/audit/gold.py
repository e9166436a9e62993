"""Add owners, names and texts to gold's rows, for SQL.

The core has ids of clusters and codes of findings. This module adds the names from the inventory
and the catalogue, so that a dashboard needs neither of them. Texts are those of the report, made
safe to show; ids stay unchanged, for joins.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from featurelib import tables
from featurelib.audit.audit import Judged
from featurelib.audit.findings import NO_SITE, FindingWords, Site
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.feature import METADATA_VERSION, Severity, Verdict, release_number
from featurelib.findings import code_of
from featurelib.rows import (
    NONE,
    Column,
    Int,
    Lists,
    TableRows,
    Texts,
    lists_of,
    make_rows,
    pick,
    texts_of,
)
from featurelib.schema import (
    CLUSTER,
    FINDING,
    FINDING_TEXTS,
    INCOMPATIBLE_BROKER,
    LEVEL_OF,
    NODE,
    READINESS,
    UPGRADE_PLAN,
    Schema,
)
from featurelib.tables import CLUSTERS, FINDINGS, Table
from featurelib.words import clean, metadata_first, newer_than

PARTS: dict[str, tuple[Table, Schema]] = {  # the tables of Judged, and their columns there
    "findings": (tables.FINDINGS, FINDING),
    "incompatible": (tables.INCOMPATIBLE_BROKERS, INCOMPATIBLE_BROKER),
    "readiness": (tables.FEATURE_READINESS, READINESS),
    "plans": (tables.UPGRADE_PLANS, UPGRADE_PLAN),
    "nodes": (tables.NODES, NODE),
}
RESULTS = {  # the tables of an audit, by their names in Python
    "clusters": tables.CLUSTERS,
    "readiness": tables.FEATURE_READINESS,
    "incompatible_brokers": tables.INCOMPATIBLE_BROKERS,
    "nodes": tables.NODES,
    "findings": tables.FINDINGS,
    "plans": tables.UPGRADE_PLANS,
}
HOUR = 3_600_000_000  # microseconds
Frame = TypeVar("Frame")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Generic[Frame]):
    """The result of an audit: the tables RESULTS of one run, as pyarrow.Table or DataFrame."""

    clusters: Frame  # software, finalized levels, phase, verdict, severity; one row per cluster
    readiness: Frame  # verdict, finalized level, target, maximum; one row per cluster and feature
    incompatible_brokers: Frame  # nodes whose range excludes a level; one row per node and feature
    findings: Frame  # findings with message, remedy and command; one row per node and feature
    nodes: Frame  # release and responses; one row per broker or controller that must respond
    plans: Frame  # the upgrade-all plans; one row per cluster


NOWHERE = (NO_SITE.landing, NO_SITE.inventory)  # the placeholders for unknown places in commands
_PART_OF = {table: part for part, (table, _) in PARTS.items()}


def rows_of(
    table: Table,
    judged: Judged,
    fleet: Fleet,
    catalogue: Catalogue,
    places: tuple[str, str] = NOWHERE,
) -> TableRows:
    """Return the rows of one table in RESULTS, without the column `run`."""
    if table == CLUSTERS:  # a worker has its own copy of the inventory
        return clusters(judged, fleet, catalogue)
    if table != FINDINGS:
        rows: TableRows = getattr(judged, _PART_OF[table])
        return rows
    texts = finding_texts(judged.findings, fleet, catalogue, places)
    columns = {**judged.findings.columns, **texts.columns}
    return make_rows(table.audited, len(texts), columns)


def clusters(judged: Judged, fleet: Fleet, catalogue: Catalogue) -> TableRows:
    """Return a row of featurelib.schema.CLUSTER for each judged cluster."""
    plans, entries = judged.plans, {entry.id: entry for entry in fleet.cluster}
    ids = plans["cluster"].to_pylist()
    position = {name: index for index, name in enumerate(ids)}
    unlisted = FleetEntry(id="")
    listing = [entries.get(name, unlisted) for name in ids]
    labels = [
        [clean(f"{key}={item.labels[key]}") for key in sorted(item.labels)] for item in listing
    ]
    columns: dict[str, Column | Int] = {
        "name": texts_of(clean(item.name or name) for item, name in zip(listing, ids, strict=True)),
        "labels": lists_of(labels),
        "severity": _worst(judged.findings, position),
    }
    for key in ("owner", "contact", "managed_by"):
        texts = (getattr(item, key) for item in listing)
        columns[key] = texts_of(clean(text) if text else None for text in texts)
    columns |= _levels(judged.readiness, position, catalogue)
    columns |= {name: plans[name] for name in CLUSTER.names if name in plans.schema.names}
    return make_rows(CLUSTER, len(listing), columns)


def finding_texts(
    findings: TableRows, fleet: Fleet, catalogue: Catalogue, places: tuple[str, str] = NOWHERE
) -> TableRows:
    """Return a row of featurelib.schema.FINDING_TEXTS for each finding. `places`: (landing folder,
    inventory) for the commands in the texts."""
    ids, titles = findings.texts("cluster"), {e.id: clean(e.title) for e in fleet.cluster}
    names = Texts(words=[titles.get(e) or clean(e) for e in ids.words], codes=ids.codes)
    sites = {e: Site(name=e, landing=places[0], inventory=places[1]) for e in ids.words}
    for e in fleet.cluster:
        sites[e.id] = replace(e.site, landing=places[0], inventory=places[1])
    texts = FindingWords(catalogue).of_rows(findings, sites)
    return make_rows(FINDING_TEXTS, len(findings), {"name": names, **texts})


def adoption(judged: Judged, as_of: int, catalogue: Catalogue) -> dict[str, object]:
    """Return the columns of gold.audit_run about the fleet's releases, levels and waiting times."""
    ready, findings = judged.readiness, judged.findings
    is_newer = findings.texts("code").equal(code_of("newer"))
    is_newer &= findings.texts("feature").equal(METADATA_VERSION)
    newer_clusters = set(findings["cluster"].take(np.flatnonzero(is_newer)).to_pylist())
    runs = zip(*(judged.plans[name].to_pylist() for name in ("cluster", "release")), strict=True)
    newer = newer_than(catalogue)
    software = Counter(r or (newer if name in newer_clusters else None) for name, r in runs)
    levels = ready.numbers("finalized_level")
    mask = ready.texts("feature").equal(METADATA_VERSION) & (levels != NONE)
    adopted = sorted(Counter(levels[mask].tolist()).items())
    began = ready.numbers("ready_since")
    rows = np.flatnonzero(ready.texts("verdict").equal(Verdict.READY) & (began != NONE))
    times = zip(began[rows].tolist(), ready["cluster"].take(rows).to_pylist(), strict=True)
    earliest = {cluster: time for time, cluster in sorted(times, reverse=True)}
    hours = [(as_of - time) // HOUR for time in earliest.values()]
    return {
        "releases": [
            {"release": release, "clusters": software[release]}
            for release in sorted(filter(None, software), key=release_number)
        ],
        "metadata_versions": [{"level": level, "clusters": number} for level, number in adopted],
        "median_wait_hours": int(np.median(hours)) if hours else None,
        "longest_wait_hours": max(hours, default=None),
    }


def _positions_of(clusters: Texts, position: dict[str, int]) -> Int:
    """Return `position[cluster]` for each row; -1 for null."""
    places: Int = np.array([position[name] for name in clusters.words], dtype=np.int64)
    return pick(places, clusters.codes, -1)


def _worst(findings: TableRows, position: dict[str, int]) -> Texts:
    """Return per cluster the worst severity of the unmuted findings; null = no finding."""
    unmuted = np.flatnonzero(findings.texts("muted").codes < 0)
    cluster = _positions_of(findings.texts("cluster").take(unmuted), position)
    severity = findings.texts("severity").take(unmuted)
    order = [item.value for item in Severity]
    worst = np.full(len(position), len(order))
    ranks = np.array([order.index(item) for item in severity.words], dtype=np.int64)
    np.minimum.at(worst, cluster, pick(ranks, severity.codes, len(order)))
    return Texts(words=order, codes=np.where(worst == len(order), -1, worst))


def _levels(
    readiness: TableRows, position: dict[str, int], catalogue: Catalogue
) -> dict[str, Column | Int]:
    """Return columns per cluster: finalized levels as text (null if no source is trustworthy),
    metadata.version and its name."""
    feature, level = readiness.texts("feature"), readiness.numbers("finalized_level")
    cluster = _positions_of(readiness.texts("cluster"), position)
    order = sorted(range(len(feature.words)), key=lambda code: metadata_first(feature.words[code]))
    rank = np.argsort(order)
    with_level = np.flatnonzero(level != NONE)
    is_known = np.bincount(cluster[with_level], minlength=len(position)) > 0
    rows = with_level[level[with_level] > 0]
    key = cluster[rows] * len(rank) + rank[feature.codes[rows]]  # these keys are nearly sorted
    rows = rows[np.argsort(key, kind="stable")]
    size = np.where(is_known, np.bincount(cluster[rows], minlength=len(position)), -1)
    entries: dict[str, Column | Int] = {"feature": feature.take(rows), "level": level[rows]}
    metadata = with_level[feature.equal(METADATA_VERSION)[with_level]]
    version = np.full(len(position), NONE)
    version[cluster[metadata]] = level[metadata]
    names = [catalogue.names.get(v) for v in version.tolist()]
    return {
        "metadata_version": version,
        "metadata_version_name": texts_of(names),
        "levels": Lists(size=size, of=make_rows(LEVEL_OF, len(rows), entries)),
    }
