"""Prove that every node that may hold our request has handled all requests sent before now.

A request without a response is in one of these places, in this order: the socket of the receiving
node, a network thread of the node, the node's queue, a handler thread. A broker then has a queue to
the controller, and the controller has the same places. The last places are the controller's queue
of events, and its log before the commit. A later harmless request takes the same path. When it gets
a response, these places hold no earlier request:

- Sockets. A node gives each new connection to its next network thread. Enough connections are
  opened for every thread, and each connection sends two requests. When a thread reads the second
  request, it has read everything that arrived before the first (Selector.poll), and the handlers
  take requests in the order of reading (RequestChannel). Bytes that had not arrived by then are
  lost, because the connection was reset.
- A broker forwards one request at a time, in order (NodeToControllerRequestThread), and responds
  only after the controller.
- The controller handles one event at a time, in order. It responds to an event that wrote nothing
  only when all earlier records are committed (ControllerWriteEvent, KRaft). These records end
  before the high watermark, which the leader reports.
- A former leader cannot commit its new records. If the request went directly to the old leader, a
  record that another leader committed in a newer epoch proves as much as the old leader's response.
  A broker sends the request to the new leader.

In ZooKeeper mode an old controller can still write the `/feature` znode, because it does not
compare the znode's version (KafkaZkClient.updateFeatureZNode). So the receiver itself must respond.

In KRaft mode the later request is UpdateFeatures with `ValidateOnly` for an unknown feature, which
would have no effect even if applied. In ZooKeeper mode it is ListPartitionReassignments.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event

from featurelib.backends.kafka.discover import NOBODY, Map, Reach
from featurelib.backends.kafka.protocol import Client, QuorumState, quorum, reply
from featurelib.errors import UnreachableError
from featurelib.feature import KRAFT_VERSION, Role
from featurelib.landing.responses import NO_ERROR, NOT_CONTROLLER
from featurelib.model import Move, NotPassed, Passed, Recipient, Step

CONNECTIONS = 32  # connections to one node, whose num.network.threads is 3 by default
TIMES = 2  # the number of requests on each connection
LONGEST_WAIT_S = 5.0  # wait for another committed record; an idle cluster writes two per second
_PAUSE_S = 0.1

_UNKNOWN_FEATURE = Move(
    feature="featurelib.passing.by", from_level=0, to_level=1, upgrade_type="UPGRADE"
)
_HARMLESS = Step(updates=(_UNKNOWN_FEATURE,), timeout_ms=30_000)
_JUDGED_CODES = frozenset({42, 95})  # error codes of a controller that judged the request
_CONTROLLER_CODES = frozenset({NO_ERROR, NOT_CONTROLLER})  # codes of a present or former controller


def passed(
    reach: Reach, node_map: Map, sent: Recipient | None, features: Collection[str]
) -> Passed | NotPassed:
    """Return the proof that the request to `sent` can no longer be applied, or the missing proof.
    `node_map`: the present nodes. Raises UnreachableError with a silent node's error, ConfigError,
    RefusedError."""
    proof = _PendingRequest(reach=reach, known=node_map, sent=sent)
    if node_map.is_migrating:
        return NotPassed(why="nodes of ZooKeeper mode and of KRaft answer, and both may hold it")
    if node_map.mode == "zk":
        return proof.in_zookeeper_mode()
    return proof.in_kraft(further=KRAFT_VERSION in features)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingRequest:
    """A request sent to `sent` that nodes may still hold, and the nodes of its cluster."""

    reach: Reach
    known: Map
    sent: Recipient | None

    def brokers(self) -> list[int]:
        """Return ids of brokers that may hold the request; [] if a controller received it."""
        if self.sent is None:
            return sorted(self.known.brokers)
        return [] if self.sent.role == Role.CONTROLLER.text else [self.sent.node]

    def in_zookeeper_mode(self) -> Passed | NotPassed:
        if self.reach.znodes is None:
            return NotPassed(
                why="in ZooKeeper mode only the features node tells: give --zookeeper "
                "HOST:PORT/CHROOT"
            )
        brokers = sorted(self.known.brokers) if self.sent is None else [self.sent.node]
        for broker in brokers:
            self.ask(Role.BROKER, broker, _expect_queue_passed)
        titles = ", ".join(f"broker {broker}" for broker in brokers)
        return Passed(how=f"{titles} has handled all that was sent before")

    def in_kraft(self, *, further: bool) -> Passed | NotPassed:
        sent, cause = self.sent, ""
        holder = "" if sent is None else f" ({sent.title} took the request)"
        try:
            leading = self.leading()
        except UnreachableError as error:
            leading, cause = None, f": {error}"
        if leading is None:
            return NotPassed(why=f"nobody says which controller leads now{holder}{cause}")
        leader = f"controller {leading.leader_id}"
        if sent is not None and not self.brokers() and leading.leader_id != sent.node:
            proof = (
                f"{leader} leads in epoch {leading.leader_epoch}, and {sent.title}, which the "
                "request was sent to, cannot commit it any more"
            )
            return self.committed(leading, proof, further=further)
        for broker in self.brokers():
            self.ask(Role.BROKER, broker, _has_judged)
        if not self.known.controllers.get(leading.leader_id):
            return NotPassed(
                why=f"no address of {leader}, which leads, is known, and a broker may have handed "
                f"the request on to it: give --controllers {leading.leader_id}@HOST:PORT"
            )
        self.ask(Role.CONTROLLER, leading.leader_id, _has_judged)
        proof = f"{leader} has handled all that was sent before, in epoch {leading.leader_epoch}"
        return self.committed(leading, proof, further=further)

    def committed(self, leading: QuorumState, how: str, *, further: bool) -> Passed | NotPassed:
        """Return a proof, if the leader is unchanged, with the offset that the leader committed.
        `further`: wait for one more committed record, because a controller may respond before
        kraft.version is committed (KAFKA-16538)."""
        until, first = time.monotonic() + LONGEST_WAIT_S, None
        while True:
            state = self.leading()
            leader = leading.leader_id, leading.leader_epoch
            if state is None or (state.leader_id, state.leader_epoch) != leader:
                return NotPassed(why="the controllers elected another leader meanwhile")
            first = first or state
            if state.high_watermark > (first.log_end + 1 if further else 0):
                return Passed(how=how, offset=state.high_watermark - 1)
            if time.monotonic() > until:
                reason = f"controller {state.leader_id} has committed nothing since it was asked"
                return NotPassed(why=reason)
            Event().wait(_PAUSE_S)

    def leading(self) -> QuorumState | None:
        """Return the leader's state of the quorum, from the leader or through a broker. Raises
        UnreachableError if no node responds."""
        leader = self.known.leader[1]
        routes = [(Role.CONTROLLER, address) for address in self.known.controllers.get(leader, ())]
        routes += [(Role.BROKER, at[0]) for _, at in sorted(self.known.brokers.items()) if at]
        failed: UnreachableError | None = None
        for role, address in routes:
            try:
                with self.reach.wires[role].connect(address) as client:
                    state = quorum(client.describe_quorum())
            except UnreachableError as error:
                failed = failed or error
                continue
            if state is not None and state.leader_id != NOBODY:
                self.known.learn_quorum(state)
                return state
        if failed is not None:
            raise failed
        return None

    def ask(self, role: Role, node: int, question: Callable[[Client], None]) -> None:
        """Send `question` to one node over several connections, `TIMES` times each, through the
        listener that received the request. Raises UnreachableError unless every response is as
        expected."""
        title, received_at = f"{role.text} {node}", self.sent
        nodes = self.known.controllers if role is Role.CONTROLLER else self.known.brokers
        addresses = nodes.get(node, ())
        if received_at is not None and (received_at.role, received_at.node) == (role.text, node):
            addresses = (received_at.address,)
        if not addresses:
            raise UnreachableError(
                f"the address of {title}, which may hold the request, is not known"
            )
        try:
            # After a failure the pool waits for all threads; then all connections are closed.
            with ExitStack() as stack, ThreadPoolExecutor(CONNECTIONS) as pool:

                def connect(_: int) -> Client:
                    return stack.enter_context(self.reach.wires[role].connect(addresses[0]))

                first = connect(0)
                question(first)  # one question first, in case the node does not respond
                futures = [first, *pool.map(connect, range(1, CONNECTIONS))]
                for _ in range(TIMES):
                    list(pool.map(question, futures))
        except UnreachableError as error:
            raise UnreachableError(f"{title}, which may hold the request: {error}") from error


def _has_judged(client: Client) -> None:
    """Raise UnreachableError unless the response proves that a controller handled it."""
    response = reply(client.update_features(_HARMLESS, validate_only=True))
    codes = {response.code, *(result.code for result in response.results or ())} - {NO_ERROR}
    if not codes or codes - _JUDGED_CODES:
        raise UnreachableError(
            f"asked to validate, error {', '.join(map(str, sorted(codes))) or 'none'}"
            f"{': ' + response.message if response.message else ''}"
        )


def _expect_queue_passed(client: Client) -> None:
    """Raise UnreachableError unless this controller has handled its queue up to now."""
    answer = client.list_reassignments()
    if answer.code not in _CONTROLLER_CODES:
        raise UnreachableError(answer.fault or "no answer that is understood")
