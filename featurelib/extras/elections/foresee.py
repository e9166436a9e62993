"""Predict the effect of the next controller election on one cluster's `/feature` znode.

ZooKeeper mode, with every broker at one inter.broker.protocol.version. Every possible dialect and
leader counts; unknown effects are reported as doubts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import resources
from typing import Final

import numpy as np

from featurelib.api.clusters import Answer, AnyCluster, choose
from featurelib.api.questions import answer_about
from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.evidence import Evidence, Expected
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.cluster import Features
from featurelib.core.dialect import GENERATIONS, is_before, load, zookeeper_releases
from featurelib.core.features_znode import (
    ENABLED,
    ElectionResult,
    Generation,
    ZnodeChange,
    ZnodeContent,
    decode,
    elect,
    incompatible,
    knows,
    unfit_for,
)
from featurelib.errors import ConfigError
from featurelib.extras.predictions.command import mark_muted, turn_row
from featurelib.extras.predictions.draft import Draft
from featurelib.extras.predictions.page import what_if_page
from featurelib.extras.predictions.what_if import WhatIf, compare, with_entry
from featurelib.feature import Role, Witness, release_line
from featurelib.planning.planner import mode_of
from featurelib.view.layout import Page
from featurelib.view.questions import QuestionPage, judges_line
from featurelib.words import clean, count, nodes

OPTION = "--ibp"


# Release → number of its steps (-IV0, -IV1 …); 0 if the release has none. Source: ApiVersion.scala
# of
# 2.8, MetadataVersion.java of 3.9.
STEPS: Final = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0,
    "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3,
    "1.0": 1, "1.1": 1,
    "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2,
    "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1,
    "3.9": 1,
}  # a line for each major release  # fmt: skip
_SHAPE: Final = re.compile(r"(0\.\d+\.\d+|[1-9]\d*\.\d+)((?:\.\d+)*)(?:-IV(\d+))?")


def is_protocol_version(text: str) -> bool:
    """Return true if some release in ZooKeeper mode accepts the version: `2.6`, `2.7-IV2`, `2.8.1`.

    Source: ApiVersion.apply, MetadataVersion.fromVersionString: text after the release is ignored,
    but a step (-IV2) must belong to that release.
    """
    match = _SHAPE.fullmatch(text)
    if match is None or match[1] not in STEPS:
        return False
    return match[3] is None or bool(match[2]) or int(match[3]) < STEPS[match[1]]


class Doubt(StrEnum):
    """The reason why the effect of an election is unknown."""

    MALFORMED = "malformed"  # the cluster's snapshot row is damaged
    NOT_ZOOKEEPER = "not_zookeeper"  # the cluster elects no controller of ZooKeeper mode
    NOT_READ = "not_read"  # no data shows whether `/feature` exists
    TOO_OLD = "too_old"  # the last read of the znode is too old
    NO_DIALECT = "no_dialect"  # no possible release knows the protocol version
    NO_BROKER = "no_broker"  # no broker can be elected


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionOutcome:
    """The effect of one election. `leaders`: the brokers whose election has this effect; `version`:
    the znode's version (epoch) afterwards."""

    dialects: tuple[str, ...]
    leaders: tuple[int, ...]
    election: ElectionResult
    version: int
    ends: Mapping[int, tuple[str, ...]]  # broker → the features that make it stop
    certain: bool  # False: another broker, of unknown range, may be elected with another effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """The next election at a protocol version. With a `doubt` there are no outcomes."""

    protocol_version: str
    version: int | None  # the present version of `/feature`; None = no znode, or not read
    before: ZnodeContent | None  # as the first dialect reads it; None if there is no readable znode
    outcomes: tuple[ElectionOutcome, ...]
    doubt: Doubt | None
    silent: tuple[int, ...]  # brokers whose software's ranges are not known

    @property
    def settled(self) -> ElectionOutcome | None:
        """The outcome if every possible winner writes the same content; None if the outcome depends
        on the winner, or no broker can be elected."""
        ends_of = {(outcome.election.text, outcome.version) for outcome in self.outcomes}
        if len(ends_of) != 1 or not all(outcome.certain for outcome in self.outcomes):
            return None
        ends = {node: names for outcome in self.outcomes for node, names in outcome.ends.items()}
        worst = min(self.outcomes, key=lambda o: o.election.content is not None)
        return replace(worst, ends=ends)


def expect_protocol_version(view: ClusterView, version: str, inputs: Inputs) -> None:
    """Raise ConfigError if the cluster has no inter.broker.protocol.version, or if its release does
    not know `version`."""
    if mode_of(view) not in ("zk", ""):
        name = inputs.fleet.names.get(view.cluster_id) or view.cluster_id
        raise ConfigError(
            f"{OPTION} {version}: {name} is a KRaft cluster, and only ZooKeeper mode has an "
            "inter.broker.protocol.version. For KRaft use featurelib what-if with --finalize "
            "metadata.version=LEVEL."
        )
    if not is_protocol_version(version):
        raise ConfigError(
            f"{OPTION} {version}: This is no inter.broker.protocol.version of ZooKeeper mode. Use "
            f"one of {', '.join(STEPS)}, or one with a step, such as 2.7-IV2."
        )
    release = told_release(view, inputs)
    if release_line(release) in zookeeper_releases() and is_before(release, version):
        raise ConfigError(
            f"{OPTION} {version}: The brokers run Kafka {release} (the inventory), and would not "
            f"start with a newer version. Use {release} or an older one."
        )


def told_release(view: ClusterView, inputs: Inputs) -> str:
    """Return the cluster's release in the inventory; "" if it has none."""
    return inputs.fleet.inventory.get(view.cluster_id, Expected()).release


def hold_election(view: ClusterView, version: str, inputs: Inputs) -> tuple[Foreseen, ClusterView]:
    """Return (prediction of the next election, view of the cluster after the election)."""
    draft = Draft(view.rows, view.newest + 1)
    kept = _keep_dialect(view, inputs)
    if not is_before(version, load(GENERATIONS[0]).election.system_from):
        draft.register_features(on=True)  # they restart with that protocol version, then elect
        view = kept.see(draft.row())
    result = foresee_election(view, version)
    _write_down(draft, result)
    return result, kept.see(draft.row())


def _keep_dialect(view: ClusterView, inputs: Inputs) -> Inputs:
    """Return inputs in which the cluster has the release that the present znode shows. The znode
    after the election may not show it."""
    if told_release(view, inputs) or len(view.dialects) != 1:
        return inputs
    entries = [entry for entry in inputs.fleet.cluster if entry.id == view.cluster_id]
    release = load(view.dialects[0]).releases[-1]  # represents its generation
    return with_entry(inputs, entries[0] if entries else Entry(id=view.cluster_id), release=release)


def foresee_election(view: ClusterView, version: str) -> Foreseen:
    """Predict the next election in every dialect that the brokers may use."""
    evidence = view.evidence
    [text] = evidence.snapshots.features_node
    before = None if text is None else int(evidence.levels.epoch[0])
    brokers, silent = _brokers(view, evidence)
    able = [name for name in view.dialects if knows(load(name), version)]
    levels, membership = evidence.levels, evidence.membership
    doubts = {
        Doubt.MALFORMED: 0 in evidence.malformed,
        Doubt.NOT_ZOOKEEPER: not (membership.zookeeper & ~membership.kraft)[0],
        Doubt.NOT_READ: levels.kind[0] != Witness.FEATURES_NODE,
        Doubt.TOO_OLD: levels.too_old[0],
        Doubt.NO_DIALECT: not able,
        Doubt.NO_BROKER: not (brokers or silent),
    }
    doubt = next((o for o, holds in doubts.items() if holds), None)
    outcomes: dict[object, ElectionOutcome] = {}
    for name in () if doubt is not None else able:
        for o in _outcomes(text, before, version, name, brokers, silent):
            result = o.election
            key = result.change, result.reasons, result.text, o.version, str(o.ends), o.certain
            outcome = outcomes.setdefault(key, o)
            outcomes[key] = replace(
                outcome,
                dialects=tuple(dict.fromkeys(outcome.dialects + o.dialects)),
                leaders=tuple(sorted({*outcome.leaders, *o.leaders})),
            )
    return Foreseen(
        protocol_version=version,
        version=before,
        before=_read(text, able[0]) if outcomes else None,
        outcomes=tuple(outcomes.values()),
        doubt=doubt,
        silent=silent,
    )


def _read(text: str | None, dialect: str) -> ZnodeContent | None:
    node = None if text is None else decode(text, Generation(dialect))
    if node is None or node.schema_version is None or node.status is None:
        return None
    return ZnodeContent(schema_version=node.schema_version, status=node.status, levels=node.levels)


def _brokers(view: ClusterView, evidence: Evidence) -> tuple[dict[int, Features], tuple[int, ...]]:
    """Return (ranges of the brokers that may be alive, ids of brokers with unknown ranges). A
    registration without features does not show the software; only the broker's own response
    does."""
    node, profile = evidence.subjects, evidence.answering.of_subject
    is_off = evidence.levels.system_off[node.cluster]
    mask = (profile >= 0) & ~(node.listed_nothing & ~(is_off & (node.answered_at > 0)))
    broker = (node.role == Role.BROKER) & ~node.expected_only
    supported = {n.node_id: n.supported for n in view.cluster.nodes if n.role is Role.BROKER}
    rows = np.flatnonzero(broker & mask)
    ids = node.node_id[rows[np.argsort(profile[rows], kind="stable")]].tolist()
    return {i: supported[i] for i in ids}, tuple(node.node_id[broker & ~mask].tolist())


def _outcomes(
    text: str | None,
    before: int | None,
    version: str,
    name: str,
    brokers: Mapping[int, Features],
    silent: tuple[int, ...],
) -> Iterator[ElectionOutcome]:
    """Yield the election outcomes in one dialect. Without a znode there is one outcome per broker,
    otherwise one for all brokers."""
    dialect = load(name)
    anyone = elect(text, version, None, dialect)
    anew = text is None and anyone.content is not None and anyone.content.status == ENABLED
    elections = [(tuple(sorted(brokers)), anyone, True)]
    if anew:
        elections = [((i,), elect(None, version, own, dialect), True) for i, own in brokers.items()]
        elections += [(silent, anyone, False)] if silent else []
    for leaders, result, certain in elections:
        levels = () if result.content is None else result.content.levels
        unfit = {i: incompatible(levels, brokers[i], dialect) for i in sorted(brokers)}
        ends = {i: names for i, names in unfit.items() if names}
        if not anew:
            leaders = tuple(sorted({*leaders, *silent} - ends.keys()))
            if text is not None and ends and not leaders and not silent:
                result = unfit_for(result, text, tuple(sorted(set().union(*ends.values()))))
        yield ElectionOutcome(
            dialects=(name,),
            leaders=() if result.change is ZnodeChange.NOBODY else leaders,
            election=result,
            version=result.version(before) or 0,
            ends=ends,
            certain=certain,
        )


def _write_down(draft: Draft, foreseen: Foreseen) -> None:
    """Change the draft to the state after the election. If the content of the znode is not certain,
    the levels become unknown."""
    outcome = foreseen.settled
    if outcome is None:
        return
    for node_id in outcome.ends:
        draft.stop(node_id, Role.BROKER)
    content, text = outcome.election.content, outcome.election.text
    if content is None or text is None:
        draft.depose()
    else:
        draft.elect(text, outcome.version, content)


_WORDS = resources.files(__package__).joinpath("words.toml").read_text(encoding="utf-8")
WORDS = tomllib.loads(_WORDS)  # texts of elections: results, reasons and doubts


def show_election(foreseen: Foreseen, page: QuestionPage) -> None:
    """Add a heading and one paragraph per election outcome to the page."""
    page.head("the next controller election")
    if foreseen.doubt is not None:
        page.item(f"UNKNOWN: {WORDS['doubts'][foreseen.doubt]}", 2)
    for outcome in foreseen.outcomes:
        _outcome(foreseen, outcome, page)


def _outcome(foreseen: Foreseen, outcome: ElectionOutcome, page: Page) -> None:
    election = outcome.election
    anyone = "any of " if len(outcome.leaders) > 1 else ""
    leaders = f"; elected: {anyone}{nodes('broker', outcome.leaders)}" if outcome.leaders else ""
    page.item(f"{judges_line(outcome.dialects)}{leaders}", 2)
    page.item(WORDS["changes"][election.change], 4)
    for reason in election.reasons:
        page.item(f"because {WORDS['reasons'][reason]}", 6)
    if election.fault is not None:
        page.item(clean(election.fault, 300), 6)
    if election.unfit:
        page.item(f"over {_joined(election.unfit)}", 6)
    if not outcome.certain:
        text = "UNKNOWN which levels are finalized: what the elected broker supports is not known"
        page.item(text, 4)
    elif election.content is not None:
        _content(foreseen, outcome, election.content, page)
    _ends(foreseen, outcome, page)


def _content(foreseen: Foreseen, outcome: ElectionOutcome, after: ZnodeContent, page: Page) -> None:
    before = foreseen.before
    schema = None if before is None else before.schema_version
    rows = [
        ("status", _status(before), _status(after)),
        ("schema", _number(schema), _number(after.schema_version)),
        ("version and epoch", _number(foreseen.version), _number(outcome.version)),
    ]
    levels = {} if before is None else {name: level for name, _, level in before.levels}
    now = {name: level for name, _, level in after.levels}
    lost = {name for name, _, _ in outcome.election.lost}
    rows += [
        (clean(name, 60), _number(levels.get(name)), "LOST" if name in lost else _number(now[name]))
        for name in sorted(now.keys() | (lost & levels.keys()))
    ]
    page.table([("of the node", "before", "after"), *rows], 4)
    if lost:
        page.item(f"{count(len(lost), 'finalized level')} LOST. {WORDS['for_good']}", 4)
    if after.status != ENABLED:
        text = "brokers then show epoch -1 and nothing finalized, and every update is refused"
        page.item(text, 4)


def _ends(foreseen: Foreseen, outcome: ElectionOutcome, page: Page) -> None:
    groups: dict[tuple[str, ...], list[int]] = {}
    for node_id, names in outcome.ends.items():
        groups.setdefault(names, []).append(node_id)
    for names, ids in groups.items():
        page.item(f"{nodes('broker', ids)} would end over {_joined(names)}", 4)
    content = outcome.election.content
    if content is None:
        return
    if content.status == ENABLED and (content.levels or not outcome.certain) and foreseen.silent:
        leaders = nodes("broker", foreseen.silent)
        software = (
            "their software supports" if len(foreseen.silent) > 1 else "its software supports"
        )
        page.item(f"UNKNOWN whether {leaders} could live with it: nobody knows what {software}", 4)
    elif not outcome.ends:
        page.line("    no broker would end over it")


def _status(content: ZnodeContent | None) -> str:
    if content is None:
        return "no node"
    return "Enabled" if content.status == ENABLED else "Disabled"


def _number(number: int | None) -> str:
    return "none" if number is None else str(number)


def _joined(names: Sequence[str]) -> str:
    return ", ".join(clean(name, 60) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The next election, and the verdicts after the election."""

    election: Foreseen
    what_if: WhatIf


def election(cluster: AnyCluster, ibp: str) -> Answer[Election]:
    """Show what the next controller would finalize.

    \b
        featurelib election old-cluster --ibp 2.6

    For clusters of 2.7 to 3.9 in ZooKeeper mode. The command assumes that every broker uses the
    --ibp version. Below 2.7 all finalized levels are lost. Nothing is sent or written.

    Exit codes: 0 answered; 2 usage; 5 no evidence.
    """
    source = choose(cluster).question()
    expect_protocol_version(source.view, ibp, source.inputs)
    result, after = hold_election(source.view, ibp, source.inputs)
    differences = mark_muted(compare(source.view, after), source)
    change = f"a controller is elected at inter.broker.protocol.version {ibp}"
    return answer_about(
        Election(election=result, what_if=differences),
        source,
        lambda: map(turn_row, differences.turns),
        lambda width: what_if_page(
            differences, change, source, width, lambda page: show_election(result, page)
        ),
    )
