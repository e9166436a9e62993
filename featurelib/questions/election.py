"""What the next controller election would make of one cluster's features node (M3, M10).

ZooKeeper mode, with every broker at one inter.broker.protocol.version. The fleet's answer for a
batch of one: every dialect and every broker that may lead counts; what is not known is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from featurelib.configuration.fleet import Cluster as Entry
from featurelib.core.dialect import GENERATIONS, generation_of, load
from featurelib.core.election import Change, Content, Election
from featurelib.core.elections import (
    ANYBODY,
    UNKNOWN_RANGE,
    Doubt,
    Elections,
    elections_of_fleet,
)
from featurelib.core.evidence import Evidence, Expected
from featurelib.core.features_node import Generation, decode
from featurelib.core.living_with import brokers_of, mute
from featurelib.core.own_dialect import OwnDialects
from featurelib.core.protocol_versions import STEPS, is_protocol_version, release_knows
from featurelib.core.sections import is_before
from featurelib.errors import ConfigError
from featurelib.feature import Role
from featurelib.planning.planner import mode_of
from featurelib.questions.draft import Draft
from featurelib.questions.entering import ZOOKEEPER
from featurelib.questions.terms import Terms
from featurelib.sight import Sight

OPTION = "--ibp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one election comes to, in the dialects named; `leaders` are the brokers that may win it
    and leave just this. `version` is the node's afterwards, the epoch."""

    dialects: tuple[str, ...]
    leaders: tuple[int, ...]
    election: Election
    version: int
    ends: Mapping[int, tuple[str, ...]]  # broker → the features it could not live with
    certain: bool  # False: a broker of unknown range may be elected, and leave something else


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """The next election under a protocol version; no outcome where there is a `doubt`."""

    protocol_version: str
    version: int | None  # of the node now; None = there is none, or it was not read
    before: Content | None  # as the first of the dialects reads it; None = not readable, or none
    outcomes: tuple[Outcome, ...]
    doubt: Doubt | None
    silent: tuple[int, ...]  # brokers of which nobody knows what their software supports

    @property
    def settled(self) -> Outcome | None:
        """What stands in the node whoever wins, with everybody who may end over it; None = that
        depends on who wins. Where nobody may be elected, nobody is."""
        left = {(one.election.text, one.version) for one in self.outcomes}
        if len(left) != 1 or not all(one.certain for one in self.outcomes):
            return None
        ends = {node: names for one in self.outcomes for node, names in one.ends.items()}
        worst = min(self.outcomes, key=lambda one: one.election.content is not None)
        return replace(worst, ends=ends)


def expect_protocol_version(
    sight: Sight, version: str, releases: Mapping[str, str], terms: Terms
) -> None:
    """Raises ConfigError for a cluster that has no inter.broker.protocol.version, for one that
    there is not, and for a release (by who names it) that does not know it."""
    if mode_of(sight) not in (ZOOKEEPER, ""):
        name = terms.fleet.names.get(sight.cluster_id) or sight.cluster_id
        raise ConfigError(
            f"{OPTION} {version}: expected a cluster in ZooKeeper mode, found {name} with a KRaft "
            "quorum. There is no inter.broker.protocol.version in KRaft, metadata.version stands "
            "in its place: ask with --finalize metadata.version=LEVEL."
        )
    if not is_protocol_version(version):
        raise ConfigError(
            f"{OPTION} {version}: expected an inter.broker.protocol.version of ZooKeeper mode "
            f"({', '.join(STEPS)}; or one with a step, as 2.7-IV2), found none such. Name one."
        )
    for who, release in releases.items():
        if _in_zookeeper_mode(release) and not release_knows(release, version):
            raise ConfigError(
                f"{OPTION} {version}: expected one that Kafka {release} knows ({who}), found a "
                f"newer one: its brokers would not start. Name {release} or an older one."
            )


def _in_zookeeper_mode(release: str) -> bool:
    try:
        return bool(release and generation_of(release, ZOOKEEPER))
    except KeyError:
        return False


def told_release(sight: Sight, terms: Terms) -> str:
    """The release that the inventory names, "" = none."""
    return terms.fleet.inventory.get(sight.cluster_id, Expected()).release


def elect(sight: Sight, version: str, terms: Terms) -> tuple[Foreseen, Sight]:
    """The next election of what `sight` shows, and what it leaves, judged by the same terms."""
    draft = Draft(sight.rows, max(sight.newest, terms.as_of or 0) + 1)
    then = _keep_dialect(sight, terms)
    if not is_before(version, load(GENERATIONS[0]).election.system_from):
        draft.register_features(on=True)  # they start with that protocol version, and then elect
        sight = then.see(draft.row())
    found = foresee_election(sight, version, then)
    _write_down(draft, found)
    return found, then.see(draft.row())


def _keep_dialect(sight: Sight, terms: Terms) -> Terms:
    """The terms with what the node shows of the software now, and may not show afterwards."""
    if told_release(sight, terms) or len(sight.dialects) != 1:
        return terms
    release = load(sight.dialects[0]).releases[-1]  # stands for its generation
    known = [entry for entry in terms.fleet.cluster if entry.id == sight.cluster_id]
    entry = known[0] if known else Entry(id=sight.cluster_id)
    others = tuple(one for one in terms.fleet.cluster if one is not entry)
    told = msgspec.structs.replace(entry, release=release)
    return replace(terms, fleet=msgspec.structs.replace(terms.fleet, cluster=(*others, told)))


def foresee_election(sight: Sight, version: str, terms: Terms) -> Foreseen:
    """The next election of the cluster, by the fleet's form."""
    evidence = sight.judged.evidence
    assert evidence is not None
    own = OwnDialects(evidence, [told_release(sight, terms)], terms.catalogue)
    found = elections_of_fleet(sight.rows, evidence, own, version)
    text: str | None = sight.rows.column("features_node")[0].as_py()
    return Foreseen(
        protocol_version=version,
        version=None if text is None else int(evidence.levels.epoch[0]),
        before=_read(text, found.dialect[0]) if found.dialect else None,
        outcomes=_outcomes(found, evidence),
        doubt=dict(found.doubts).get(0),
        silent=_silent(evidence),
    )


def _read(text: str | None, dialect: str) -> Content | None:
    node = None if text is None else decode(text, Generation(dialect))
    if node is None or node.schema_version is None or node.status is None:
        return None
    return Content(schema_version=node.schema_version, status=node.status, levels=node.levels)


def _outcomes(found: Elections, evidence: Evidence) -> tuple[Outcome, ...]:
    """Those alike together, whatever dialect or broker they are of."""
    alike: dict[tuple[object, ...], Outcome] = {}
    for k, election in enumerate(found.found):
        ends = _ends(found, evidence, k)
        one = Outcome(
            dialects=(found.dialect[k],),
            leaders=_leaders(found, evidence, k, ends),
            election=election,
            version=int(found.version[k]),
            ends=ends,
            certain=bool(found.elected[k] != UNKNOWN_RANGE),
        )
        key = election.change, election.reasons, election.text, one.version, str(ends), one.certain
        had = alike.get(key)
        if had is not None:
            one = replace(
                had,
                dialects=tuple(dict.fromkeys(had.dialects + one.dialects)),
                leaders=tuple(sorted({*had.leaders, *one.leaders})),
            )
        alike[key] = one
    return tuple(alike.values())


def _ends(found: Elections, evidence: Evidence, outcome: int) -> dict[int, tuple[str, ...]]:
    names: dict[int, list[str]] = {}
    for row, profile, name in zip(
        found.misfit.tolist(), found.misfit_profile.tolist(), found.misfit_feature, strict=True
    ):
        if row == outcome:
            for node_id in _behind(evidence, profile):
                names.setdefault(node_id, []).append(name)
    return {node_id: tuple(sorted(names[node_id])) for node_id in sorted(names)}


def _behind(evidence: Evidence, profile: int) -> list[int]:
    """The brokers behind an answering profile, those of unknown software left out."""
    who = evidence.subjects
    mine = (evidence.answering.of_subject == profile) & ~mute(evidence)
    return [int(node_id) for node_id in who.node_id[mine & (who.role == Role.BROKER)]]


def _leaders(
    found: Elections, evidence: Evidence, outcome: int, ends: Mapping[int, tuple[str, ...]]
) -> tuple[int, ...]:
    if found.found[outcome].change is Change.NOBODY:
        return ()
    elected = int(found.elected[outcome])
    if elected == UNKNOWN_RANGE:
        return _silent(evidence)
    if elected != ANYBODY:
        return tuple(_behind(evidence, elected))
    counts = brokers_of(evidence).counts
    every = [n for profile in range(len(counts)) for n in _behind(evidence, profile)]
    return tuple(sorted(set(every) - ends.keys()))


def _silent(evidence: Evidence) -> tuple[int, ...]:
    """Brokers whose software's ranges nobody knows."""
    who = evidence.subjects
    broker = (who.role == Role.BROKER) & ~who.expected_only
    unknown = broker & ((evidence.answering.of_subject < 0) | mute(evidence))
    return tuple(int(node_id) for node_id in who.node_id[unknown])


def _write_down(draft: Draft, foreseen: Foreseen) -> None:
    """The cluster's row as it would be afterwards. What depends on who wins stays as it is: that is
    a node that is not there, or not read alike by all, and its levels are not known before it."""
    one = foreseen.settled
    if one is None:
        return
    for node_id in one.ends:
        draft.stop(node_id, Role.BROKER)
    content, text = one.election.content, one.election.text
    if content is None or text is None:
        draft.depose()
    else:
        draft.elect(text, one.version, content)
