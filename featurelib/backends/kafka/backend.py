"""Read a real cluster of either mode through its listeners, and update it through its controller.

An update is sent once, to the receiver that `recipient` chose. A request to validate is sent again
if another node became controller. In ZooKeeper mode, where Kafka would apply it, a request to
validate is never sent. Responses become landing lines (docs/landing.md), in an order that does not
depend on their times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from functools import partial

from featurelib.backends.base import Abilities, Backend, Check, Say
from featurelib.backends.credentials import Credentials
from featurelib.backends.kafka.connection import MOST_NODES
from featurelib.backends.kafka.discover import NOBODY, Map, Reach, Search
from featurelib.backends.kafka.internals import Api
from featurelib.backends.kafka.passing import passed
from featurelib.backends.kafka.protocol import (
    ASKED_API_VERSIONS,
    Client,
    NodeAnswers,
    Wire,
    configurations,
    missing_right,
    reply,
)
from featurelib.config.files import quietly
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.config.fleet import split_id
from featurelib.config.security import ZOOKEEPER
from featurelib.core.reply import Reply
from featurelib.errors import (
    FeatureLibError,
    OutcomeUnknownError,
    ProtocolError,
    RefusedError,
    UnreachableError,
)
from featurelib.feature import Role
from featurelib.landing.fields import write_line
from featurelib.landing.responses import (
    NOT_AUTHORIZED,
    NOT_CONTROLLER,
    NOT_OFFERED,
    SHOWS_FENCED_FROM,
)
from featurelib.model import NotPassed, Passed, Recipient, Step
from featurelib.words import NOBODY_ANSWERED, OTHER_SECURITY, REFUSED_LOGIN, share_reasons, some

SHOWN = 10  # the maximum number of nodes or reasons of one kind in a message
_FEATURES = (
    *("error_code", "supported_features", "finalized_features_epoch", "finalized_features"),
    *("zk_migration_ready", "api_keys"),
)
_WITH_ID = "Write it as ID@HOST:PORT"
FORWARDERS = 3  # the maximum number of brokers to try if the active controller is unreachable


def open_kafka(entry: Entry, *, timeout: float) -> Backend:
    """Return the backend of a real cluster, not yet connected. `timeout`: seconds per node. Raises
    CredentialsError for missing secrets and files, ConfigError if the client for ZooKeeper is
    needed and not installed."""
    brokers = Credentials(entry.security)
    controllers = brokers
    if entry.controller_security is not None:
        controllers = Credentials(entry.controller_security, "controller_security")
    for credentials in (brokers, controllers):
        credentials.check()
    znodes = None
    if entry.zookeeper:
        from featurelib.backends.zookeeper import read_znodes

        Credentials(entry.zookeeper_security, ZOOKEEPER).check()
        znodes = partial(read_znodes, entry.zookeeper, timeout, entry.zookeeper_security)
    addresses = (*entry.bootstrap, *entry.controller_bootstrap) or (entry.zookeeper,)
    reach = Reach(
        where=",".join(addresses),
        bootstrap=entry.bootstrap,
        controllers=entry.controller_bootstrap,
        wires={Role.BROKER: Wire(brokers, timeout), Role.CONTROLLER: Wire(controllers, timeout)},
        znodes=znodes,
    )
    return KafkaBackend(reach, entry.id)


class KafkaBackend:
    """The connection to a real cluster. `cluster_id`: the id if no node returns one."""

    def __init__(self, reach: Reach, cluster_id: str = "") -> None:
        self._reach, self._cluster_id = reach, cluster_id
        self._map: Map | None = None
        self._held: Client | None = None  # the connection to the recipient of the next update

    @property
    def where(self) -> str:
        return self._reach.where

    def describe(self, say: Say) -> tuple[bytes, ...]:
        """Return the landing lines of all listeners of the cluster. Raises UnreachableError,
        ProtocolError."""
        search = _discover(self._reach.after(self._map), say)
        self._map = search.known
        cluster_id = search.known.cluster_id or self._cluster_id
        if not cluster_id:
            raise ProtocolError(
                f"{self.where}: No node returned the cluster id. Add a broker to bootstrap, or "
                "name the cluster by its entry in the inventory."
            )
        search.list_again()
        lines = [text for answers in search.answers for text in lines_of(answers, cluster_id)]
        for read in search.znodes.reads if search.znodes is not None else ():
            lines.append(_line("znode", cluster_id, read.at, **read.content))
        return tuple(lines)

    def abilities(self) -> Abilities:
        """Return the guarantees of a cluster's mode. May query it. Raises UnreachableError."""
        node_map = self._known_map()
        validates = node_map.mode == "kraft" and not node_map.is_migrating
        return Abilities(mode=node_map.mode, validate_only=validates)

    def recipient(self) -> Recipient:
        """Connect to the first possible receiver of an update, and keep this connection."""
        node_map = self._known_map()
        client, role, node = self._connect(node_map)
        self.close()
        self._held = client
        epoch, leader = node_map.leader
        return Recipient(
            role=role.text,
            node=node,
            address=client.address,
            leader=leader if node_map.mode == "kraft" else node,
            leader_epoch=epoch,
        )

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        """Return a proof that the nodes have handled an earlier request, or the missing proof
        (passing.py)."""
        try:
            return passed(self._reach, self._find_again(), sent, features)
        except FeatureLibError as error:
            return NotPassed(why=str(error).rstrip("."))

    def update(self, step: Step, *, validate_only: bool = False, last_check: Check = None) -> Reply:
        """Send a request; return the active controller's response. The error of a missing
        permission names permission and principal."""
        if validate_only:
            return self._validate(step)
        if self._held is None:
            self.recipient()
        assert self._held is not None
        with self._held as client:
            self._held, client.last_check = None, last_check
            return _reply_of(client, step, validate_only=False)

    def close(self) -> None:
        """Close the connection that is kept for an update."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _validate(self, step: Step) -> Reply:
        """Send a request that only validates; return the response. Repeats the request if the
        controller changed."""
        if not self.abilities().validate_only:
            raise RefusedError(
                f"{self.where}: The cluster is in ZooKeeper mode, so its controller would apply "
                "the request. Nothing was sent. Leave out --validate-only."
            )
        for find_map in (self._known_map, self._find_again):
            with self._connect(find_map())[0] as client:
                answered = _reply_of(client, step, validate_only=True)
            if answered.code != NOT_CONTROLLER:
                break
        return answered

    def _connect(self, node_map: Map) -> tuple[Client, Role, int]:
        """Connect to the first possible receiver that accepts a connection. Return (connection,
        role, node id)."""
        failures = []
        for role, node, address in candidates(node_map):
            try:
                return self._reach.wires[role].connect(address), role, node
            except UnreachableError as error:
                failures.append(str(error))
        reasons = " · ".join(failures) or "none is known"
        raise UnreachableError(
            f"{self.where}: No controller accepts the request: {reasons}. Nothing was sent. "
            "Try again when a controller is active."
        )

    def _known_map(self) -> Map:
        if self._map is None:
            self._map = _discover(self._reach, quietly).known
        return self._map

    def _find_again(self) -> Map:
        """Return a node map with the present leader, by one broker and the controllers."""
        old_map = self._known_map()
        new_map = replace(
            deepcopy(old_map), leader=(NOBODY, NOBODY), active=NOBODY, voters=set(), nameless=[]
        )
        self._map = Search(self._reach, new_map, quietly, asks=False).run().known
        return self._map


def candidates(node_map: Map) -> Iterator[tuple[Role, int, str]]:
    """Yield the nodes that can receive an update, best first, as (role, node id, host:port).

    ZooKeeper mode: only the controller. KRaft: the active controller first, brokers last, because a
    broker may forward a request again after a lost connection."""
    if node_map.mode == "zk":
        for address in node_map.brokers.get(node_map.active, ()):
            yield Role.BROKER, node_map.active, address
        return
    leader = node_map.leader[1]
    if leader != NOBODY:
        for address in node_map.controllers.get(leader, ()):
            yield Role.CONTROLLER, leader, address
    live = [node for node in sorted(node_map.brokers) if node not in node_map.fenced]
    for node in live[:FORWARDERS]:
        yield Role.BROKER, node, node_map.brokers[node][0]


def _reply_of(client: Client, step: Step, *, validate_only: bool) -> Reply:
    answer = client.update_features(step, validate_only=validate_only)
    try:
        response = reply(answer)
    except ProtocolError as error:  # the node received the request, and sent a response
        raise OutcomeUnknownError(
            f"UpdateFeatures was sent, and its answer is none: {error}"
        ) from error
    if response.code != NOT_AUTHORIZED:
        return response
    right = missing_right(Api.UPDATE_FEATURES, client.credentials.principal)
    return replace(response, message=right)


def _discover(reach: Reach, say: Say) -> Search:
    """Query every listener of the cluster. Raises UnreachableError if no node responds."""
    search = Search(reach, Map(), say, asks=True).run()
    nodes = search.answers
    silent_nodes = [f"{n.target.title}: {n.error}" for n in nodes if n.error is not None]
    if max(len(search.known.brokers), len(search.known.controllers)) >= MOST_NODES:
        say(f"{reach.where}: {MOST_NODES:,} nodes or more are named; no more than that are asked")
    if search.znodes is None and len(silent_nodes) == len(nodes):
        cluster_id = search.known.cluster_id  # "" = no node returned an id
        landed = [line for n in nodes for line in lines_of(n, cluster_id)] if cluster_id else ()
        raise _unreached(reach, (*_nameless(search.known), *search.failures, *silent_nodes), landed)
    for text in (*search.failures, *silent_nodes)[:SHOWN]:
        say(text)
    if len(silent_nodes) > SHOWN:
        say(f"{reach.where}: {len(silent_nodes) - SHOWN:,} more listeners did not answer")
    say(f"{reach.where}: {len(nodes) - len(silent_nodes)} of {len(nodes)} listeners answered")
    for text in (*_refusals(nodes), *voters_not_asked(search.known)):
        say(text)
    return search


def _unreached(reach: Reach, reasons: Iterable[str], landed: Sequence[bytes]) -> UnreachableError:
    """Return the error that no node responded, with each reason once. `landed`: the landing lines
    that the error carries."""
    all_reasons = " · ".join(reason.rstrip(".") for reason in dict.fromkeys(reasons))
    parts = share_reasons(all_reasons).split(" · ")
    if len(parts) > SHOWN:
        parts[SHOWN:] = [f"and {len(parts) - SHOWN:,} more"]
    if len(parts) == 1 and "expected" in parts[0]:
        return UnreachableError(f"{parts[0]}.", landed)
    alone = f"{reach.where}: " if len(parts) == 1 else ""
    text = " · ".join(parts).removeprefix(alone)
    addresses = (*reach.bootstrap, *reach.controllers)
    is_named = all(split_id(address)[1] in text for address in addresses) and bool(addresses)
    prefix = "" if is_named else f"{reach.where}: "
    # A node that refused the login was reached, also a controller with an unknown id.
    secured = (REFUSED_LOGIN, OTHER_SECURITY)
    is_reached = _WITH_ID in all_reasons or all(any(w in part for w in secured) for part in parts)
    hint = "Check the address first, then the network, then whether the nodes run."
    return UnreachableError(f"{prefix}{NOBODY_ANSWERED}{text}.", landed, "" if is_reached else hint)


def _refusals(answers: Iterable[NodeAnswers]) -> Iterator[str]:
    """Yield one text per reason of refused requests, with the nodes that refused."""
    reasons: dict[str, list[str]] = {}
    for node in answers:
        for silence in node.silent:
            if silence.why != NOT_OFFERED.format(silence.api.title):
                reasons.setdefault(silence.why, []).append(node.target.title)
    for reason, titles in reasons.items():
        yield f"{some(titles, SHOWN)}: {reason}"


def voters_not_asked(node_map: Map) -> Iterator[str]:
    """Yield texts about voters without known address, and addresses without known node."""
    if lost := sorted(node_map.voters - set(node_map.controllers)):
        yield (
            f"voters {some([*map(str, lost)], SHOWN)}: not asked, because no address is known. Add "
            "ID@HOST:PORT of each to controller_bootstrap (--controllers)."
        )
        yield from _nameless(node_map)


def _nameless(node_map: Map) -> Iterator[str]:
    """Yield a text for each controller that responded and did not show its node id."""
    for address in node_map.nameless[:SHOWN]:
        yield (
            f"{address}: expected a controller that says its node id, found one that does not "
            f"(before 3.7, or without the right to DESCRIBE_CONFIGS). {_WITH_ID}."
        )


def lines_of(node: NodeAnswers, cluster_id: str) -> Iterator[bytes]:
    """Yield the landing lines about one node in one role."""
    target, labels = node.target, {"role": node.target.role.text, "endpoint": node.address}
    ranges = {"node_id": target.node_id, **labels, "asked_version": ASKED_API_VERSIONS}

    def line(api: Api, at: datetime, **keys: object) -> bytes:
        role_keys = labels if api is Api.DESCRIBE_CONFIGS else {"listener": target.role.text}
        node = {"asked_node": target.node_id, **role_keys}
        is_of_ranges = api is Api.API_VERSIONS
        return _line(api.name.lower(), cluster_id, at, **(ranges if is_of_ranges else node), **keys)

    for answer in node.answers:
        body, version = dict(answer.body), answer.version
        if answer.api is Api.API_VERSIONS:
            keys = {key: body[key] for key in _FEATURES if key in body}
            yield line(answer.api, answer.at, **keys, answered_version=version)
            continue
        keys = {"version": version}
        if answer.api is Api.DESCRIBE_CLUSTER:
            body.pop("authorized_operations", None)  # featurelib did not request this key
            keys["endpoint_type"] = body.get("endpoint_type")  # version 0 only describes brokers
            keys["include_fenced_brokers"] = version >= SHOWS_FENCED_FROM
            keys |= answer.line_keys
        is_configured = answer.api is Api.DESCRIBE_CONFIGS
        keys["answer"] = configurations(answer) if is_configured else body
        yield line(answer.api, answer.at, **keys)
    if node.error is not None:
        yield line(Api.API_VERSIONS, node.at, error=node.error)
    for silence in node.silent:
        not_offered = silence.why == NOT_OFFERED.format(silence.api.title)
        if not_offered and not node.is_kraft:
            continue  # ZooKeeper mode has no quorum, and 2.7 has no DescribeCluster
        keys = {"why" if not_offered else "error": silence.why, "error_code": silence.code}
        if silence.code == NOT_AUTHORIZED:
            keys["principal"] = node.principal or None
        yield line(silence.api, silence.at, **keys)


def _line(kind: str, cluster_id: str, at: datetime, **keys: object) -> bytes:
    """Return a landing line without line end. `at`: the time in the line."""
    return write_line(kind, cluster_id, round(at.timestamp() * 1_000_000), keys)
