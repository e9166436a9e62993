"""What requests that need rights add to a state: DescribeCluster, DescribeQuorum, DescribeConfigs,
and probes.

A request that was refused for want of a right claims nothing of the cluster; that it was refused is
kept for each half of the nodes, until that half answers it again.
"""

from __future__ import annotations

from featurelib.core.refusals import (
    CONFIGS,
    MEMBERS,
    NOT_AUTHORIZED,
    PROBE,
    QUORUM,
    Refusal,
    write,
)
from featurelib.core.validations import Asked
from featurelib.core.validations import write as write_probe
from featurelib.feature import Role
from featurelib.landing import ClusterDescription, ConfigDescription, Probe, QuorumDescription
from featurelib.snapshot import state as kept
from featurelib.snapshot.state import State


def add_members(state: State, said: ClusterDescription, at: int, line: int) -> None:
    """Whom a DescribeCluster answer lists; `at` in microseconds."""
    _note_right(state, MEMBERS, said, at, line)
    if not said.answered or said.version is None:
        return
    role = Role.CONTROLLER if said.endpoint_type == 2 else Role.BROKER
    fenced_shown = role == Role.BROKER and said.version >= 2 and said.include_fenced
    members = tuple(
        sorted((node, -1 if fenced is None else int(fenced)) for node, fenced in said.brokers)
    )
    new = kept.Members(int(role), fenced_shown, at, line, members)
    lists = state.members
    for i, old in enumerate(lists):
        if (old.role, old.fenced_shown) == (new.role, new.fenced_shown):
            if (new.at, new.line) > (old.at, old.line):
                lists[i] = new
            return
    lists.append(new)
    lists.sort(key=lambda listed: (listed.role, listed.fenced_shown))


def add_quorum(state: State, said: QuorumDescription, at: int, line: int) -> None:
    """Who votes and who follows, by a DescribeQuorum answer."""
    _note_right(state, QUORUM, said, at, line)
    old = state.quorum
    before = (old.leader_epoch, old.at, old.line)
    if not said.answered or (said.leader_epoch, at, line) <= before:
        return
    voters, observers = tuple(sorted(said.voters)), tuple(sorted(said.observers))
    state.quorum = kept.Quorum(said.leader_epoch, at, line, voters, observers, said.leader_id)


def add_configs(state: State, said: ConfigDescription, at: int, line: int) -> None:
    """What one node is configured with; a newer answer about a resource takes the place of all
    that an older one said of it."""
    _note_right(state, CONFIGS, said, at, line)
    for resource, values in said.resources:
        new = kept.Configs(int(said.listener), said.asked_node, resource, at, line, values)
        key = (new.role, new.node_id, new.resource)
        others = [one for one in state.configs if (one.role, one.node_id, one.resource) != key]
        mine = [one for one in state.configs if (one.role, one.node_id, one.resource) == key]
        newest = max([new, *mine], key=lambda one: (one.at, one.line))
        state.configs = sorted(
            [*others, newest], key=lambda one: (one.role, one.node_id, one.resource)
        )


def add_probe(state: State, said: Probe, at: int, line: int) -> None:
    """What the controller answered to a request to validate."""
    if said.code is None:
        return
    refused = said.code == NOT_AUTHORIZED
    _note(state, kept.Right(PROBE, int(Role.CONTROLLER), refused_at=at, line=line), refused, at)
    if refused:
        return
    if state.probe is not None and (at, line) <= (state.probe.at, state.probe.line):
        return
    # About what an answer does not mention nothing is known.
    answers = tuple(
        (one.feature, one.from_level, one.to_level, one.code, one.message)
        for one in said.answers
        if one.code is not None
    )
    state.probe = kept.Probe(at, line, answers)


def probed(state: State) -> list[str]:
    """The newest probe as an entry of `oddities`, unless something newer landed: the cluster may
    have changed since."""
    probe = state.probe
    if probe is None or probe.at < state.observed_at:
        return []
    answers = [
        Asked(feature=name, from_level=low, to_level=high, code=code, message=message)
        for name, low, high, code, message in probe.answers
    ]
    return [write_probe(answers, probe.at, probe.line)]


def refusals(state: State) -> list[str]:
    """The requests that were refused when last made, as entries of `oddities`."""
    found = []
    for right in state.rights:
        if right.refused_at <= right.answered_at:
            continue
        others = [one for one in state.rights if one.request == right.request and one is not right]
        found.append(
            Refusal(
                request=right.request,
                role=Role(right.role),
                node_id=right.node_id,
                elsewhere=any(one.answered_at > one.refused_at for one in others),
                principal=right.principal,
                at=right.refused_at,
                line=right.line,
            )
        )
    return [write(refusal) for refusal in found]


def _note_right(
    state: State,
    request: str,
    said: ClusterDescription | QuorumDescription | ConfigDescription,
    at: int,
    line: int,
) -> None:
    """Whether this half of the nodes answered a description, or refused it."""
    refused = said.error_code == NOT_AUTHORIZED
    if refused or said.answered:
        new = kept.Right(
            request,
            int(said.listener),
            refused_at=at,
            line=line,
            node_id=said.asked_node,
            principal=said.principal,
        )
        _note(state, new, refused, at)


def _note(state: State, new: kept.Right, refused: bool, at: int) -> None:
    """Keep a refusal, which `new` is, or only that the request was answered."""
    key = (new.request, new.role)
    old = next((one for one in state.rights if (one.request, one.role) == key), None)
    if old is None:
        old = kept.Right(*key)
        state.rights.append(old)
        state.rights.sort(key=lambda one: (one.request, one.role))
    if not refused:
        old.answered_at = max(old.answered_at, at)
    elif (at, new.line) > (old.refused_at, old.line):
        old.refused_at, old.line = at, new.line
        old.node_id, old.principal = new.node_id, new.principal
