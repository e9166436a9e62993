"""Finding every listener of a cluster, and asking each of them once.

From the addresses that are given, whoever answers names others: brokers by Metadata or
DescribeCluster, voters by DescribeQuorum, controllers by what they say of each other, brokers of
ZooKeeper mode by their registrations. It ends when nobody names anybody new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from featurelib.backends.base import Say
from featurelib.backends.kafka_answers import BROKERS, CONTROLLERS, Api, members, quorum
from featurelib.backends.kafka_asking import NOT_OFFERED, Asked, Share, Target, ask
from featurelib.backends.kafka_map import Map, add_addresses
from featurelib.backends.kafka_wire import Talk, Wire
from featurelib.errors import BackendError, UnreachableError
from featurelib.feature import Role

if TYPE_CHECKING:  # its client is an extra of its own
    from featurelib.backends.znodes import Znodes

AT_ONCE = 16  # listeners
TOLD_EVERY = 25  # listeners
FURTHER = 5  # brokers that are tried where no given one answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How a cluster is reached: addresses as host:port, a controller's also as ID@host:port.

    `znodes` reads ZooKeeper; None where the inventory names none.
    """

    where: str
    bootstrap: tuple[str, ...]
    controllers: tuple[str, ...]
    brokers_wire: Wire
    controllers_wire: Wire
    znodes: Callable[[], Znodes] | None

    def wire(self, role: Role) -> Wire:
        """How listeners of that half are spoken to."""
        return self.brokers_wire if role is Role.BROKER else self.controllers_wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One look: everybody who was asked, in the order of role and id."""

    map: Map
    asked: tuple[Asked, ...]
    znodes: Znodes | None


def look(reach: Reach, say: Say) -> Seen:
    """Ask every listener that can be found. Raises UnreachableError where nobody answers."""
    known, failures = Map(), list[str]()
    znodes = _read_znodes(reach, known, failures)
    explore(reach, known, failures)
    for text in failures:
        say(text)
    asked: dict[tuple[Role, int], Asked] = {}
    share = Share()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while new := [target for target in known.targets() if target.key not in asked]:
            say(f"{reach.where}: asking {_counted(new)}")
            answers = pool.map(lambda one: ask(one, reach.wire(one.role), share), new)
            for number, answer in enumerate(answers, start=1):
                asked[answer.target.key] = answer
                known.learn(answer)
                if number % TOLD_EVERY == 0:
                    say(f"{reach.where}: {number} of {len(new)} asked")
    silent = [one for one in asked.values() if one.error is not None]
    for one in silent:
        say(f"{one.target.title}: {one.error}")
    if znodes is None and len(silent) == len(asked):
        reasons = [*failures, *(f"{one.target.title}: {one.error}" for one in silent)]
        raise UnreachableError(
            f"{reach.where}: expected at least one node to answer, found none. "
            + " · ".join(dict.fromkeys(reasons))
        )
    say(f"{reach.where}: {len(asked) - len(silent)} of {len(asked)} listeners answered")
    for text in (*_refusals(asked.values()), *voters_not_asked(known)):
        say(text)
    in_order = sorted(asked.values(), key=lambda one: (-one.target.role, one.target.node_id))
    return Seen(map=known, asked=tuple(in_order), znodes=znodes)


def explore(reach: Reach, known: Map, failures: list[str]) -> None:
    """Who there is, from the addresses that are given: one broker, and every controller.

    Brokers that are known already are asked where no given one answers. What could not be asked
    is added to `failures`, in words. Raises ConfigError.
    """
    registered = (address for some in known.brokers.values() for address in some)
    for address in dict.fromkeys((*reach.bootstrap, *islice(registered, FURTHER))):
        try:
            with reach.brokers_wire.connect(address) as talk:
                _introduce(talk, known)
            break
        except BackendError as error:
            failures.append(str(error))
    for text in reach.controllers:
        node, at, address = text.rpartition("@")
        if at and node.isascii() and node.isdigit():
            place(known, int(node), address)
            continue
        try:
            with reach.controllers_wire.connect(text) as talk:
                found = _identify(talk, text, known)
        except BackendError as error:
            failures.append(str(error))
            continue
        if found is not None:
            place(known, found, text)
        else:
            known.nameless.append(text)


def place(known: Map, node: int, address: str) -> None:
    """An address that was given is tried before those a node advertises."""
    advertised = known.controllers.pop(node, ())
    add_addresses(known.controllers, node, (address, *advertised))


def _introduce(talk: Talk, known: Map) -> None:
    """What one broker says of the cluster. Raises UnreachableError where it says nothing."""
    known.learn_mode(Role.BROKER, is_kraft=talk.is_kraft)
    answer, fault = None, "it offers neither DescribeCluster nor Metadata"
    if talk.version_of(Api.DESCRIBE_CLUSTER) is not None:
        answer = talk.describe_cluster(BROKERS)
        fault = answer.fault or ""
    if fault and talk.version_of(Api.METADATA) is not None:  # 2.7 has nothing else
        answer = talk.metadata()
        fault = answer.fault or ""
    if answer is None or fault:
        raise UnreachableError(
            f"{talk.address}: expected a broker that lists the others, found: {fault}. "
            "A controller's listener belongs under controller_bootstrap (--controllers)."
        )
    known.learn_members(members(answer), Role.BROKER)
    _learn_quorum(talk, known)


def _identify(talk: Talk, address: str, known: Map) -> int | None:
    """Which controller listens there, if it can be known; what it says of others is learnt."""
    known.learn_mode(Role.CONTROLLER, is_kraft=talk.is_kraft)
    if talk.version_of(Api.DESCRIBE_CLUSTER) is not None:
        answer = talk.describe_cluster(CONTROLLERS)
        if answer.fault is None:
            said = members(answer)
            known.learn_members(said, Role.CONTROLLER)
            for node, advertised in said.addresses.items():
                if advertised == address:
                    return node
    return _learn_quorum(talk, known)


def _learn_quorum(talk: Talk, known: Map) -> int | None:
    """Who leads, if the listener says it. On a controller's listener only the leader does."""
    if talk.version_of(Api.DESCRIBE_QUORUM) is None:
        return None
    said = quorum(talk.describe_quorum())
    if said is None:
        return None
    known.learn_quorum(said)
    return said.leader_id


def _read_znodes(reach: Reach, known: Map, failures: list[str]) -> Znodes | None:
    """A round of reading ZooKeeper, if there is one; its registrations name brokers."""
    if reach.znodes is None:
        return None
    try:
        znodes = reach.znodes()
    except UnreachableError as error:
        failures.append(str(error))
        return None
    known.cluster_id = znodes.cluster_id
    for node, addresses in znodes.brokers.items():
        add_addresses(known.brokers, node, addresses)
    return znodes


def _refusals(asked: Iterable[Asked]) -> Iterator[str]:
    """What nodes that answered did not answer, each reason once."""
    reasons: dict[str, list[str]] = {}
    for one in asked:
        for api, _, why in one.silent:
            if why != NOT_OFFERED.format(api.title):
                reasons.setdefault(why, []).append(one.target.title)
    for why, titles in reasons.items():
        yield f"{', '.join(titles)}: {why}"


def voters_not_asked(known: Map) -> Iterator[str]:
    """Voters nobody knows an address of, and addresses nobody knows a node id of."""
    lost = sorted(known.voters - set(known.controllers))
    if not lost:
        return
    ids = ", ".join(map(str, lost))
    yield (
        f"voters {ids}: not asked, because no address is known. Add ID@HOST:PORT of each to "
        "controller_bootstrap (--controllers)."
    )
    for address in known.nameless:
        yield (
            f"{address}: expected a controller that says its node id, found one that does not "
            "(before 3.7, or under another address). Write it as ID@HOST:PORT."
        )


def _counted(targets: list[Target]) -> str:
    count = {role: sum(target.role is role for target in targets) for role in Role}
    return " and ".join(f"{n} {role.text}{'s' * (n != 1)}" for role, n in count.items() if n)
