"""Report findings from Strimzi's resources: changes that the operator will make or failed to make,
and contradictions between resources and nodes.

Kubernetes knows the requested pods, and Kafka the registered nodes. So resources add expected nodes
and findings, and never make a level READY. Old resources are ignored.

Without spec.kafka.metadataVersion the operator raises the level as soon as all nodes run its Kafka
version (KRaftVersionChangeCreator), and often the level cannot be downgraded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from featurelib.audit.columns import find, is_fresh
from featurelib.audit.controllers import Software
from featurelib.audit.evidence import UNEXPECTED, BatchFindings, Conditions, Evidence
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import STRICT
from featurelib.core.downgrade import of_metadata_version, position
from featurelib.feature import METADATA_VERSION
from featurelib.rows import NONE, texts_of
from featurelib.snapshot.state import ONE_READING
from featurelib.words import clean, level_text, releases_text

NOT_CARRIED_OUT = "strimzi_not_carried_out"


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """The used fields of a cluster's Strimzi resources; None = the field is not set."""

    resource: str
    version: str | None
    metadata_version: str | None
    status_version: str | None
    status_metadata_version: str | None
    refused: str | None
    paused: bool
    nodes_complete: bool
    at: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """The Strimzi resources of a cluster, and its metadata.version (None = unknown)."""

    cluster: int
    resources: Resources
    finalized: int | None

    @property
    def name(self) -> str:
        """The name of the cluster's Kafka resource as safe text."""
        return clean(self.resources.resource)


def report_strimzi(
    report: BatchFindings, software: Software, catalogue: Catalogue, conditions: Conditions
) -> None:
    """Report findings about Strimzi resources. They change no verdict."""
    evidence = report.evidence
    views = list(_views(evidence))
    if not views:
        return
    other_software = _other_software(evidence, software, catalogue, views)
    by_code = defaultdict[str, list[tuple[_View, str]]](list)
    for view in views:
        expected = conditions.inventory.get(evidence.clusters[view.cluster], UNEXPECTED)
        if not expected.managed_by:
            by_code["strimzi_not_in_inventory"].append((view, view.resources.resource))
        wrong = [*_other_level(view, evidence, catalogue), *other_software.get(view.cluster, ())]
        for code, texts in (
            ("metadata_version_not_pinned", _unpinned(view, catalogue)),
            (NOT_CARRIED_OUT, _undone(view.resources, catalogue)),
            ("strimzi_contradicted", wrong),
        ):
            if text := "; ".join(texts):
                by_code[code].append((view, f"{view.name}: {text}"))
    for code, rows in by_code.items():
        _report_views(report, code, rows, catalogue)
    _report_unlisted(report, views)


def _report_views(
    report: BatchFindings, code: str, rows: Sequence[tuple[_View, str]], catalogue: Catalogue
) -> None:
    """Add the finding `code` for the cluster of each row. The text of the row is the first fact."""
    columns = [(v.cluster, v.resources.at, v.resources.line, v.finalized or NONE) for v, _ in rows]
    ids, at, line, resource_level = np.array(columns, dtype=np.int64).T
    # If the resource already requests the level, no further request is needed.
    goals = [v.resources.metadata_version or "" for v, _ in rows] if code == NOT_CARRIED_OUT else []
    level = [catalogue.whole.level_of(text) or NONE for text in goals] or [NONE] * len(rows)
    facts = {"at": at, "line": line, "finalized_level": resource_level, "level": np.array(level)}
    names, texts = texts_of(v.resources.resource for v, _ in rows), [text for _, text in rows]
    report.of_clusters(code, ids, detail=texts, resource=names, **facts)


def _views(evidence: Evidence) -> Iterator[_View]:
    """Yield each cluster whose Strimzi resources were read recently."""
    records, query = evidence.snapshots["strimzi"], evidence.questions
    level = np.full(len(evidence.clusters), NONE)
    of_metadata = query.of_feature(METADATA_VERSION) & query.known
    level[query.cluster[of_metadata]] = query.current[of_metadata]
    for cluster, resources in zip(records.row.tolist(), records.structs(Resources), strict=True):
        if is_fresh(np.array(resources.at), as_of=evidence.as_of, max_age=evidence.max_age):
            current = int(level[cluster])
            yield _View(
                cluster=cluster, resources=resources, finalized=None if current == NONE else current
            )


def _unpinned(view: _View, catalogue: Catalogue) -> Iterator[str]:
    """Yield a text about the upgrade of metadata.version that the operator will make by itself,
    because the resource sets no level."""
    res, newest = view.resources, catalogue.releases[-1]
    status = res.status_metadata_version
    now = view.finalized or catalogue.whole.level_of(status or "")
    if res.metadata_version is not None or not status or now is None:
        return  # an operator before 0.39 has no such status, and never changes the level
    level = catalogue.whole.level_of(res.version or "")
    release, goal = (res.version, level) if level and level > now else (None, newest.newest_stable)
    if goal <= now:
        return
    name = catalogue.release_named(release or "") or newest.release
    point = _point_of_no_return(name, now, goal, catalogue)
    phrase = f"with Kafka {clean(release)}" if release else f"with Kafka {clean(name)}, for one,"
    downgrade_text = f", and cannot be downgraded without loss from {_level(point, catalogue)} on"
    yield (
        f"{phrase} from {_level(now, catalogue)} to {_level(goal, catalogue)}"
        f"{downgrade_text if point > 0 else ''}"
    )
    if not res.version:
        yield "Kafka's own version is left to the operator, too"


def _point_of_no_return(release: str, level: int, goal: int, catalogue: Catalogue) -> int:
    """Return the first level up to `goal` that cannot be downgraded; 0 or less without one."""
    software = catalogue.of(release)
    at = position(
        [({METADATA_VERSION: level}, [(software.oldest, software.newest_stable)])], catalogue
    )
    judges = [(STRICT, release, np.zeros(1, dtype=np.int64))]
    downgrades = of_metadata_version(at, np.array([goal]), judges, catalogue.tables)
    return int(downgrades.no_return[0])


def _undone(resources: Resources, catalogue: Catalogue) -> Iterator[str]:
    """Yield a text, with the reason, about each requested change that the operator has not made."""
    goal, current = resources.version, resources.status_version
    if goal and current and goal != current:
        yield f"Kafka {clean(goal)} is requested, and its status shows {clean(current)}"
    goal, current = resources.metadata_version, resources.status_metadata_version
    if goal and current and len({catalogue.whole.level_of(text) for text in (goal, current)}) > 1:
        text = f"{METADATA_VERSION} {clean(goal)} is requested"
        yield f"{text}, and its status shows {clean(current)}"
    if resources.refused:
        yield f"the operator reports: {clean(resources.refused)}"
    if resources.paused:
        yield "its reconciliation is paused"


def _other_level(view: _View, evidence: Evidence, catalogue: Catalogue) -> Iterator[str]:
    """Yield the metadata.version in the resource's status if it differs from the nodes' level and
    is not older."""
    levels, status = evidence.levels, view.resources.status_metadata_version
    level = catalogue.whole.level_of(status) if status else None
    if level is None or view.finalized is None or not levels.believed[view.cluster]:
        return
    if level != view.finalized and view.resources.at + ONE_READING >= levels.at[view.cluster]:
        nodes = _level(view.finalized, catalogue)
        yield f"its status shows {METADATA_VERSION} {_level(level, catalogue)}, the nodes {nodes}"


def _other_software(
    evidence: Evidence, software: Software, catalogue: Catalogue, views: Sequence[_View]
) -> dict[int, list[str]]:
    """Return cluster → text for clusters in which no running node can have the version in the
    resource's status."""
    node, releases = evidence.subjects, catalogue.tables.releases
    runs = software.runs & node.runs[:, None]
    fits = np.zeros((len(evidence.clusters), len(releases)), dtype=bool)
    np.logical_or.at(fits, node.cluster, runs)
    texts = {}
    for view in views:
        version = view.resources.status_version or ""
        code = catalogue.tables.release_code(catalogue.release_named(version) or "")
        fit_here = fits[view.cluster]
        if code >= 0 and fit_here.any() and not fit_here[code]:
            names = [name for name, is_fit in zip(releases, fit_here, strict=True) if is_fit]
            nodes = releases_text(catalogue, names)
            texts[view.cluster] = [f"its status shows Kafka {clean(version)}, the nodes {nodes}"]
    return texts


def _report_unlisted(report: BatchFindings, views: Sequence[_View]) -> None:
    """Report nodes that Kafka counts and that newer, complete Strimzi resources do not contain.
    Stale nodes are skipped, because they have another finding."""
    evidence, node = report.evidence, report.evidence.subjects
    at = np.zeros(len(evidence.clusters), dtype=np.int64)
    line = at.copy()
    names = dict[int, str]()
    for view in views:
        if view.resources.nodes_complete:
            at[view.cluster], line[view.cluster] = view.resources.at, view.resources.line
            names[view.cluster] = view.resources.resource
    counts = (node.registered | node.voter | node.answers) & ~node.expected_only & ~node.gone
    newer = (at[node.cluster] > 0) & (at[node.cluster] + ONE_READING >= node.at)
    mask = counts & newer & (find(evidence.operated, node.key) < 0)
    rows = np.flatnonzero(mask)
    details = [names[cluster] for cluster in node.cluster[rows].tolist()]
    source = at[node.cluster], line[node.cluster]
    report.of_nodes("strimzi_node_unlisted", rows, source, details)


def _level(level: int, catalogue: Catalogue) -> str:
    return level_text(catalogue, METADATA_VERSION, level)
