"""A slow, plain validator of the strict policy, written from the texts and not from the code.

The policy is the README's and docs/decisions': one cluster as plain Python objects in, what the
audit must say of it out. Loops and dictionaries only; nothing of featurelib is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

PRINTED = 25  # the level of metadata.version that kafka-features.sh prints, where it does
STALE = 100  # hours; the audit runs with 72
FRESH = 72
BROKER, CONTROLLER = "broker", "controller"
METADATA = "metadata.version"
NO_WITNESS = "no_trustworthy_witness"
LEADER = 1  # of the quorum, wherever one was seen
Range = tuple[int, int]

# Kafka's own tables, for the features the random clusters use: what is known, and the default of
# new clusters from which metadata.version on (`kafka-features.sh version-mapping`). By an overlay
# (DEPENDING, in lines.py) group.version 1 needs a metadata.version, since no default of Kafka's own
# that moves unasked depends on anything.
NEWEST_KNOWN = {
    METADATA: 34,
    "kraft.version": 1,
    "transaction.version": 2,
    "group.version": 1,
    "eligible.leader.replicas.version": 1,
    "share.version": 2,
    "streams.version": 1,
}
DEFAULTS: dict[str, list[Range]] = {
    "kraft.version": [],  # level 1 only when it is asked for by name
    "transaction.version": [(24, 2)],
    "group.version": [(23, 1)],
    "eligible.leader.replicas.version": [],  # level 1 changes more: only by name
    "share.version": [(28, 1), (31, 2)],
    "streams.version": [(29, 1)],
}
NEEDS_METADATA = {("group.version", 1): 23}
# Before this metadata.version the newest controllers store no level of another feature.
METADATA_NEEDED = 7
# The least newest metadata.version of a 4.x controller that knows a level: others refuse it.
KNOWN_TO = {
    ("group.version", 1): 25,
    ("eligible.leader.replicas.version", 1): 25,
    ("share.version", 1): 27,
    ("share.version", 2): 33,
    ("streams.version", 1): 27,
}
# Software up to the left end has unstable levels enabled; the right end is its stable one.
UNSTABLE_ENDS = {23: 21, 26: 25, 31: 30, 34: 33}


@dataclass(frozen=True, kw_only=True)
class Node:
    """One half of a process. Ages are hours before the audit; lists are read at age 1, which is
    the look of age 0."""

    node_id: int
    role: str = BROKER
    ranges: dict[str, Range]
    listed: bool = True  # registered, as the cluster's `registry` would show it
    says_nothing: bool = False  # a registration that lists no features (ZooKeeper only)
    fenced: bool = False
    answered: int | None = 0  # age of its newest ApiVersions answer
    failed: int | None = None  # age of the newest call it did not answer
    asked_version: int = 4
    levels: dict[str, int] | None = None  # what it says is finalized
    epoch: int = -1

    @property
    def who(self) -> tuple[str, int]:
        return self.role, self.node_id

    @property
    def answers(self) -> bool:
        """Whether it answered the last call."""
        if self.answered is None:
            return False
        return self.failed is None or self.answered <= self.failed


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """One cluster as somebody who knows everything would describe what landed of it."""

    name: str
    zookeeper: bool = False
    registry: str = "log"  # log · fenced (DescribeCluster v2) · live (v0) · none
    registry_age: int = 1
    controllers_listed: bool = False  # a DescribeCluster answer of a controller landed
    nodes: tuple[Node, ...] = ()
    voters: tuple[int, ...] | None = None  # None = no DescribeQuorum answer landed
    stored: dict[str, int] = field(default_factory=dict)  # in the log, or the features node
    system_off: bool = False
    features_node: bool = True  # ZooKeeper: it exists
    schema: int = 2  # of the features node; 1 has minimum levels, here always 1
    controller: int | None = None  # ZooKeeper: the id that /controller names
    expected_brokers: tuple[int, ...] = ()
    vouched: bool = False
    controllers_vouched: bool = False
    # In the own configuration of the active controller, node 1; None = that was not read.
    configured: tuple[int, ...] | None = None
    tool: bool = False  # kafka-features.sh describe landed
    refused: bool = False  # DescribeQuorum was refused last, for want of a right

    @property
    def log(self) -> bool:
        return not self.zookeeper and self.registry == "log"

    @property
    def kraft(self) -> bool:
        """Whether anything that landed shows a KRaft quorum."""
        spoken = any(
            node.role == CONTROLLER and (node.answered is not None or node.failed is not None)
            for node in self.nodes
        )
        return self.log or self.voters is not None or spoken or self.controllers_listed


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the audit must say of one feature."""

    verdict: str
    level: int | None  # finalized; None = no trustworthy witness
    target: int | None
    ceiling: int
    available: int | None
    offenders: frozenset[tuple[str, int]]  # nodes that do not support the ceiling
    incompatible: frozenset[tuple[str, int]]  # nodes that do not support what is finalized


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the audit must say of one cluster; `unknown` are (code, who or feature or "")."""

    features: dict[str, Answer]
    unknown: frozenset[tuple[str, object]]


def short(number: int) -> int:
    """What a broker makes of a number in the features node: its lowest 16 bits, with a sign."""
    return (number + 32768) % 65536 - 32768


def node_reading(cluster: Cluster) -> str:
    """What brokers make of the features node: good, off, absent, damaged or ambiguous.

    2.7 to 3.2 cut a level to 16 bits and then want 1 or more; 3.3 and later do it the other way
    round, and no broker supports what is left. Schema 2 is not for 2.7 to 3.2 at all.
    """
    if not cluster.features_node:
        return "absent"
    levels = [level for level in cluster.stored.values() if level]
    if any(level < 1 for level in levels):
        return "damaged"
    if any(short(level) < 1 for level in levels):
        if not cluster.system_off:
            return "damaged"
        return "ambiguous" if cluster.schema == 1 else "off"
    return "off" if cluster.system_off else "good"


def is_off(cluster: Cluster) -> bool:
    return cluster.zookeeper and node_reading(cluster) == "off"


def fits(level: int, ends: Range) -> bool:
    return ends[0] <= level <= ends[1]


def members(cluster: Cluster) -> list[Node]:
    """Who must answer: registered, fenced too; voters; and who answered since the list was read."""
    counted = []
    for node in cluster.nodes:
        spoke = node.answered is not None or node.failed is not None
        since = node.answered is not None and node.answered < cluster.registry_age
        if cluster.zookeeper:
            listed_any = any(n.listed for n in cluster.nodes)
            counts = node.listed or (not listed_any and spoke)
        elif node.role == BROKER:
            if cluster.registry in ("log", "fenced"):
                counts = node.listed or since
            elif cluster.registry == "live":
                counts = (node.listed and not node.fenced) or node.answered is not None
                counts |= spoke and not cluster.vouched
            else:
                counts = spoke
        else:
            counts = node.node_id in (cluster.voters or ())
            counts |= node.listed and (cluster.log or cluster.controllers_listed)
            if cluster.voters is None:
                counts |= spoke
            else:  # DescribeQuorum was answered at age 1
                counts |= node.answered is not None and node.answered < 1
        if counts:
            counted.append(node)
    known = {node.who for node in counted}
    for voter in cluster.voters or ():
        if (CONTROLLER, voter) not in known:
            stranger = Node(node_id=voter, role=CONTROLLER, ranges={}, answered=None, listed=False)
            counted.append(stranger)
    return counted


def unregistered(cluster: Cluster) -> list[Node]:
    """Brokers of ZooKeeper mode that spoke since registrations were read, or are the controller,
    and have none: its line may be lost. Only who is registered is asked."""
    if not cluster.zookeeper or cluster.kraft or not any(node.listed for node in cluster.nodes):
        return []
    spoke = [
        node
        for node in cluster.nodes
        if not node.listed
        and (node.failed is not None or (node.answered or 0) <= cluster.registry_age)
        and (node.failed is not None or node.answered is not None)
    ]
    known = {node.node_id for node in (*spoke, *cluster.nodes) if node.listed or node in spoke}
    if cluster.controller is None or cluster.controller in known:
        return spoke
    return [*spoke, Node(node_id=cluster.controller, ranges={}, listed=False, answered=None)]


def torn(cluster: Cluster) -> list[Node]:
    """Brokers of ZooKeeper mode that registered no features, and in a later look list some."""
    if not cluster.zookeeper or cluster.kraft or is_off(cluster) or cluster.registry_age <= 1:
        return []
    return [
        node
        for node in cluster.nodes
        if node.listed and node.says_nothing and visible(node)
        and node.answered is not None and node.answered < cluster.registry_age
    ]  # fmt: skip


def is_registered(cluster: Cluster, node: Node) -> bool:
    if node.role == CONTROLLER:
        return node.listed and (cluster.log or cluster.controllers_listed)
    if cluster.zookeeper or cluster.registry in ("log", "fenced"):
        return node.listed
    return cluster.registry == "live" and node.listed and not node.fenced


def fencing_seen(cluster: Cluster, node: Node) -> bool:
    is_shown = cluster.registry in ("log", "fenced") and not cluster.zookeeper
    return node.role == BROKER and node.fenced and node.listed and is_shown


def evidence_age(cluster: Cluster, node: Node) -> int | None:
    """How old the newest statement about the node's range is; None = there is none."""
    if cluster.zookeeper and node.listed:  # its registration is its range, whatever it answers
        return node.answered if by_answer(cluster, node) else cluster.registry_age
    ages = [] if node.answered is None else [node.answered]
    if is_registered(cluster, node) and cluster.log:
        ages.append(cluster.registry_age)
    return min(ages) if ages else None


def by_answer(cluster: Cluster, node: Node) -> bool:
    """Whether its own answer is the newest that is known of the node's range."""
    if cluster.zookeeper and node.listed:
        # With the system off nobody registers features: the broker has its ranges in memory.
        return node.says_nothing and is_off(cluster) and node.answered is not None
    in_log = cluster.log and is_registered(cluster, node)
    return not in_log or (node.answered is not None and node.answered < cluster.registry_age)


def ranges_of(cluster: Cluster, node: Node) -> dict[str, Range]:
    """What a node is known to support."""
    if by_answer(cluster, node):
        return visible(node)
    return {} if node.says_nothing and cluster.zookeeper else node.ranges


def may_hide(cluster: Cluster, node: Node, feature: str) -> bool:
    """Whether an answer below v4 may have left the feature out (KIP-1022, KAFKA-17011)."""
    if not by_answer(cluster, node) or node.asked_version >= 4:
        return False
    return feature not in visible(node) and node.ranges.get(METADATA, (0, -1))[1] >= 21


def visible(node: Node) -> dict[str, Range]:
    """What an ApiVersions answer to the asked version lists."""
    least = 0 if node.asked_version >= 4 else 1
    return {name: ends for name, ends in node.ranges.items() if ends[0] >= least}


def support(cluster: Cluster, node: Node, feature: str) -> Range | None:
    """The node's range of a feature, 0-0 (metadata.version on KRaft 1-1) where it lists none."""
    if may_hide(cluster, node, feature):
        return None
    on_kraft = cluster.kraft or not cluster.zookeeper
    absent = (1, 1) if feature == METADATA and on_kraft else (0, 0)
    return ranges_of(cluster, node).get(feature, absent)


def stable_end(level: int) -> int:
    level = min(level, 34)
    return UNSTABLE_ENDS.get(level, level)


def is_stable(level: int, span: Range | None) -> bool:
    """Whether a node's own software calls the level stable, if it supports it."""
    return span is None or not stable_end(span[1]) < level <= span[1]


def default_of(feature: str, metadata: int) -> int:
    return max([level for since, level in DEFAULTS[feature] if since <= metadata], default=0)


def default_at(feature: str, metadata: int) -> int:
    """The default at a metadata.version; no bound where no table has one."""
    return default_of(feature, max(metadata, 1)) if feature in DEFAULTS else 1 << 15


@dataclass
class Believed:
    levels: dict[str, int]
    trusted: bool
    disputed: set[str] = field(default_factory=set)
    problem: str = ""


def believed(cluster: Cluster) -> Believed:
    """What is finalized: the first kind of witness that is fresh, at its highest epoch."""
    if cluster.zookeeper:
        if cluster.voters is not None and not cluster.nodes:  # nothing of ZooKeeper mode is left
            return Believed({}, False, set(), NO_WITNESS)
        reading = node_reading(cluster)
        if reading == "absent":
            if cluster.voters is not None:  # controllers of KRaft do not go by it
                return Believed({}, False, set(), NO_WITNESS)
            brokers = [node for node in cluster.nodes if node.role == BROKER and node.listed]
            tells = any(node.ranges and not node.says_nothing for node in brokers)
            lost = "deleted" if tells else "absent"
            return Believed({}, False, set(), f"features_node_{lost}")
        if reading in ("damaged", "ambiguous"):
            return Believed({}, False, set(), f"features_node_{reading}")
        levels = {name: short(level) for name, level in cluster.stored.items() if level}
        old = cluster.registry_age > FRESH
        problem = "levels_too_old" if old else ""
        levels = {} if reading == "off" else levels
        return Believed(levels, not old, printed(cluster, 1, levels), problem)
    said: list[tuple[int, dict[str, int], list[dict[str, int]]]] = []  # age, levels, same epoch
    for kind in (BROKER, "log", CONTROLLER):
        if kind == "log":
            if cluster.log:
                stored = {METADATA: 1} | {n: v for n, v in cluster.stored.items() if v}
                said.append((cluster.registry_age, stored, [stored]))
            continue
        speaking = [
            n for n in cluster.nodes if n.role == kind and n.answered is not None and n.epoch >= 0
        ]
        if not speaking:
            continue
        highest = max(node.epoch for node in speaking)
        best = [node for node in speaking if node.epoch == highest]
        newest = min(best, key=lambda node: (node.answered or 0, -node.node_id))
        age = newest.answered or 0
        said.append((age, newest.levels or {}, [node.levels or {} for node in best]))
    if not said:  # the tool names no node: a hint, and no witness
        return Believed({METADATA: 25} if cluster.tool else {}, False, set(), NO_WITNESS)
    fresh = [entry for entry in said if entry[0] <= FRESH]
    age, levels, peers = (fresh or said)[0]
    rivals = [other for a, other, _ in said if other is not levels and a <= age]
    disputed = {
        name
        for other in [*rivals, *peers]
        for name in {*levels, *other}
        if levels.get(name, 0) != other.get(name, 0)
        if -1 not in (levels.get(name, 0), other.get(name, 0))  # that one cannot see it
    }
    disputed |= printed(cluster, age, levels)
    return Believed(levels, bool(fresh), disputed, "" if fresh else "levels_too_old")


def printed(cluster: Cluster, age: int, levels: dict[str, int]) -> set[str]:
    """The features of which kafka-features.sh, at age 0, printed another level later."""
    differs = cluster.tool and age > 0 and levels.get(METADATA, 0) not in (PRINTED, -1)
    return {METADATA} if differs else set()


def asked_age(node: Node) -> int | None:
    ages = [age for age in (node.answered, node.failed) if age is not None]
    return min(ages) if ages else None


def is_of_earlier_reading(node: Node, half: Node) -> bool:
    """Whether the other half answered with it, and not when that was asked once more."""
    if (half.node_id, half.role) == (node.node_id, node.role) or half.node_id != node.node_id:
        return False
    if node.answered is None or half.answered is None or half.failed is None:
        return False
    is_nearer = abs(half.answered - node.answered) < node.answered - half.failed
    return half.failed < half.answered and is_nearer


def look_age(cluster: Cluster, who: list[Node]) -> int:
    """The age of the newest look: somebody was asked about the whole cluster, or about half of the
    nodes of a role were asked about themselves. Ages of 0 and 1 are of one look."""
    lists_brokers = not cluster.zookeeper and cluster.registry in ("fenced", "live")
    ages = [STALE, *[cluster.registry_age] * (lists_brokers or cluster.controllers_listed)]
    ages += [1] * (cluster.voters is not None or cluster.configured is not None)
    for role in (BROKER, CONTROLLER):
        asked = (asked_age(node) for node in who if node.role == role)
        of_role = sorted(age for age in asked if age is not None)
        ages += of_role[max(len(of_role) // 2 - 1, 0) :][:1]
    return max(min(ages), 1)


def is_left_out(cluster: Cluster, who: list[Node], node: Node) -> bool:
    """Whether it was seen last before the newest look."""
    seen = asked_age(node)
    if seen is None:
        return False
    if any(is_of_earlier_reading(node, half) for half in who):
        return True
    if cluster.log and is_registered(cluster, node):
        seen = min(seen, cluster.registry_age)
    return look_age(cluster, who) < seen


def unknown_reasons(cluster: Cluster, who: list[Node], said: Believed) -> set[tuple[str, object]]:
    """Evidence that is missing for the whole cluster, as (finding code, node or "")."""
    found: set[tuple[str, object]] = set()
    word = cluster.controllers_vouched  # it also says that there are controllers
    # Only KRaft finalizes metadata.version.
    kraft = cluster.kraft or (not cluster.zookeeper and said.levels.get(METADATA, 0) > 0)
    if cluster.refused and not word:  # which is why nothing tells the mode or the voters
        found.add(("right_missing", ""))
    elif not kraft and not cluster.zookeeper and not word:
        found.add(("mode_unknown", ""))
    elif kraft and cluster.voters is None and not word:
        found.add(("voters_unknown", ""))
    fresh = cluster.registry_age <= FRESH
    fresh &= cluster.log or cluster.registry_age <= look_age(cluster, who)
    if cluster.zookeeper and not cluster.kraft:
        ages = [cluster.registry_age, *map(asked_age, unregistered(cluster))]
        proven = any(node.listed for node in cluster.nodes)
        proven &= min(age for age in ages if age is not None) <= look_age(cluster, who)
    else:
        proven = not cluster.zookeeper and cluster.registry in ("log", "fenced") and fresh
    if not proven and not cluster.vouched and said.problem != "levels_too_old":
        found.add(("registrations_unproven", ""))
    # An older list of the controllers of a dynamic quorum may lack one.
    is_outdated = cluster.log or cluster.controllers_listed
    is_outdated &= cluster.registry_age > min(FRESH, look_age(cluster, who))
    is_dynamic = said.levels.get("kraft.version", 0) > 0 and "kraft.version" not in said.disputed
    if kraft and cluster.voters is not None and not word and is_outdated and is_dynamic:
        found |= {("registrations_unproven", "")} if said.levels.get(METADATA, 0) >= 15 else set()
    if not who and not cluster.expected_brokers:
        found.add(("no_node_to_ask", ""))  # it would pass every rule about nodes
    if said.problem:
        found.add((said.problem, ""))
    for node in who:
        if word and node.role == CONTROLLER and not node.answers:
            continue
        settled = fencing_seen(cluster, node)
        settled |= cluster.zookeeper and node.listed
        age = evidence_age(cluster, node)
        if not node.answers and not settled:
            silent = node.failed is not None
            found.add(("node_not_answering" if silent else "node_not_asked", node.who))
        elif age is None:
            found.add(("range_unknown", node.who))
        if node.answers and is_left_out(cluster, who, node) and not settled:
            found.add(("node_not_asked", node.who))
        if age is not None and age > FRESH:
            found.add(("evidence_too_old", node.who))
    hidden = {("range_unknown", node.who) for node in (*unregistered(cluster), *torn(cluster))}
    found |= hidden
    if cluster.registry_age > FRESH:  # the controller's znode is as old as the other znodes
        silent = [n for n in unregistered(cluster) if n.answered is None and n.failed is None]
        found |= {("evidence_too_old", node.who) for node in silent}
    known = {node.who for node in (*who, *unregistered(cluster))}
    for broker in cluster.expected_brokers:
        if (BROKER, broker) not in known:
            found.add(("expected_node_missing", (BROKER, broker)))
    return found


def refused(cluster: Cluster, who: list[Node], level: int) -> bool:
    """Whether something about the cluster itself forbids any change."""
    if is_off(cluster) or (cluster.kraft and cluster.zookeeper):
        return True
    has_list = cluster.log or cluster.controllers_listed
    strangers = [
        node
        for node in who
        if node.node_id in (cluster.voters or ())
        and node.role == CONTROLLER
        and not is_registered(cluster, node)
    ]
    listed = {node.node_id for node in who if is_registered(cluster, node) and node.role != BROKER}
    asked = (cluster.configured or ()) if cluster.voters is not None else ()
    left = set(asked) - listed - set(cluster.voters or ()) - {LEADER}
    return has_list and bool((level >= 15 and strangers) or left)


def asks_the_unknown(cluster: Cluster, said: Believed, metadata: int) -> bool:
    """Whether the active controller may ask somebody whom nothing shows: named in a configuration
    that was not read, after it was unregistered; or named, where nothing lists controllers."""
    if not cluster.kraft or cluster.voters is None or cluster.controllers_vouched:
        return False
    if cluster.configured is not None:
        known = {node.node_id for node in members(cluster) if node.role == CONTROLLER}
        listed = cluster.log or cluster.controllers_listed
        return not listed and bool(set(cluster.configured) - known - {LEADER})
    supported = any("kraft.version" in ranges_of(cluster, node) for node in members(cluster))
    level = said.levels.get("kraft.version", 0)
    unsure = not said.trusted or "kraft.version" in said.disputed or level < 0
    may_be_dynamic = (level > 0 and "kraft.version" not in said.disputed) or unsure
    return may_be_dynamic and (supported or "kraft.version" in said.levels) and metadata >= 33


def leading(cluster: Cluster, brokers: list[Node]) -> list[Node]:
    """The controller among the brokers of ZooKeeper mode, or all where it is not known."""
    if cluster.controller in {node.node_id for node in unregistered(cluster)}:
        return []
    return [node for node in brokers if node.node_id == cluster.controller] or brokers


def sees_no_levels(cluster: Cluster, who: list[Node]) -> bool:
    """Whether a broker that may be the controller knows no levels after the node was read."""
    if not cluster.zookeeper or node_reading(cluster) != "good":
        return False
    brokers = [node for node in (*who, *unregistered(cluster)) if node.role == BROKER]
    shown = [node for node in brokers if node.listed or asked_age(node) is not None]
    leads = [node for node in shown if node.node_id == cluster.controller] or brokers
    return any(
        node.epoch < 0 and node.answered is not None and node.answered < cluster.registry_age
        for node in leads
    )


def older_controller_takes(
    cluster: Cluster, asked: list[Node], name: str, levels: dict[str, int]
) -> bool:
    """Whether brokers of 2.7 to 3.2, if they may run there, would raise the feature at all: every
    broker has to support the controller's own minimum as well, but those that do not fit the
    finalized `levels`, each from 1 on, are left out."""
    if not cluster.zookeeper or cluster.kraft or cluster.schema == 2:
        return True

    def range_of(node: Node, feature: str) -> Range:
        return support(cluster, node, feature) or (0, 0)

    def is_left_out(node: Node) -> bool:
        return any(
            level > 0 and not (fits(level, range_of(node, one)) and fits(1, range_of(node, one)))
            for one, level in levels.items()
        )

    brokers = [node for node in asked if node.role == BROKER]
    live = [range_of(node, name) for node in brokers if node.listed and not is_left_out(node)]
    own = [range_of(node, name) for node in leading(cluster, brokers)]
    return all(low <= least for least, _ in own for low, _ in live)


def own_releases(cluster: Cluster, asked: list[Node]) -> list[int]:
    """By their highest metadata.version the releases of the controllers, or of brokers where no
    controller was seen: below 7 no release advertises it, from 25 on it is 4.0 or later."""
    if cluster.zookeeper and not cluster.kraft:
        return []
    controllers = [node for node in asked if node.role == CONTROLLER]
    ranges = [ranges_of(cluster, node) for node in controllers or asked]
    # A node that lists what no catalogue knows is a vendor's, whose answer nobody can predict.
    if any(not one.keys() <= NEWEST_KNOWN.keys() for one in ranges):
        return []
    tops = [one.get(METADATA, (0, 0))[1] for one in ranges]
    return [top for top in tops if top >= METADATA_NEEDED]


def judge(cluster: Cluster) -> Judgement:
    """What the audit must say of the cluster."""
    who, said = members(cluster), believed(cluster)
    unknown = unknown_reasons(cluster, who, said)
    missing, doubted = set(unknown), dict[str, bool]()
    whole = bool(missing)
    unknown |= {("witnesses_disagree", name) for name in said.disputed}
    asked = [n for n in who if (age := evidence_age(cluster, n)) is not None and age <= FRESH]
    names = set(said.levels) | {name for node in asked for name in ranges_of(cluster, node)}
    ends = [support(cluster, node, METADATA) or (0, 0) for node in asked]
    newest = max([stable_end(top) for _, top in ends], default=0)
    metadata_now = said.levels.get(METADATA, 0)
    stuck = refused(cluster, who, metadata_now) or sees_no_levels(cluster, who)
    seen = [said.levels, cluster.stored if cluster.log else {}]
    seen += [node.levels or {} for node in cluster.nodes if node.answered is not None]
    finalized = {name for levels in seen for name, level in levels.items() if level > 0}
    is_stock = cluster.zookeeper or finalized <= NEWEST_KNOWN.keys()
    own = own_releases(cluster, asked) if is_stock else []
    stranger = asks_the_unknown(cluster, said, metadata_now)
    told = bool(own) or (cluster.zookeeper and not cluster.kraft)  # there both are asked
    asks_metadata = METADATA_NEEDED if max(own, default=0) >= 25 else 0
    on_kraft = cluster.kraft or not cluster.zookeeper
    proposed: dict[str, int] = {} if METADATA in names else {METADATA: 0}  # and known
    metadata_unsure = metadata_low = rises = False
    planned = 0  # metadata.version, beside the other features
    answers: dict[str, Answer] = {}
    for name in sorted(names, key=lambda n: (n != METADATA, n)):
        current = max(said.levels.get(name, 0), 0)
        if said.levels.get(name, 0) < 0:
            unknown.add(("level_unknown", name))
        spans = {node.who: support(cluster, node, name) for node in asked}
        seen = [span[1] for span in spans.values() if span is not None]
        hidden = [w for w, span in spans.items() if span is None]
        unknown |= {("partial_answer", (w, name)) for w in hidden}
        ceiling = max(seen, default=0)
        if name == METADATA:
            ceiling = newest
        elif name in DEFAULTS:
            ceiling = default_of(name, newest)
        foreign = on_kraft and name not in NEWEST_KNOWN
        if foreign:
            ceiling = 0
            unknown.add(("feature_not_catalogued", name))
        ceiling = max(ceiling, current)
        known = said.trusted and name not in said.disputed and said.levels.get(name, 0) >= 0
        passing = [
            level
            for level in range(current + 1, ceiling + 1)
            if all(span is None or fits(level, span) for span in spans.values())
            and (name != METADATA or all(is_stable(level, span) for span in spans.values()))
            and level <= NEWEST_KNOWN.get(name, 1 << 15)
            and (needs := NEEDS_METADATA.get((name, level), 0)) <= proposed.get(METADATA, needs)
            and not stuck
            and (name == METADATA or proposed.get(METADATA, asks_metadata) >= asks_metadata)
            and all(top < 25 or top >= KNOWN_TO.get((name, level), 0) for top in own)
            and older_controller_takes(cluster, asked, name, said.levels)
            and level <= default_at(name, planned)
        ]
        common = min(seen, default=0)
        if name == METADATA:
            planned = max(passing, default=current)
        elif max(default_at(name, planned), current) < min(ceiling, common):
            ceiling = max(default_at(name, planned), current)  # all support more: that is opt-in
        beyond = name in NEWEST_KNOWN and max([*seen, current]) > NEWEST_KNOWN[name]
        if beyond:
            unknown.add(("level_newer_than_catalogue", name))
        unsure = bool(hidden) or (beyond and not passing) or foreign
        if name == METADATA:
            metadata_unsure = unsure or not known
            metadata_low = metadata_unsure and (not known or current < METADATA_NEEDED)
        elif passing:
            unsure |= metadata_unsure and (name, passing[-1]) in NEEDS_METADATA
            unsure |= metadata_low and on_kraft
            unsure |= metadata_unsure and passing[-1] > max(current, default_at(name, metadata_now))
        if known and passing and not told:
            unknown.add(("release_unknown", ""))
            unsure = True
        if known and passing and stranger:
            unknown.add(("configured_voters_unknown", ""))
            unsure = True
        rises |= known and bool(passing)
        doubted[name] = unsure
        unsure |= whole
        if not known:
            verdict = "UNKNOWN"
        elif ceiling > current and not passing:
            verdict = "BLOCKED"
        elif unsure:
            verdict = "UNKNOWN"
        else:
            verdict = "READY" if passing else "UP_TO_DATE"
        if name == METADATA and known:
            proposed[name] = max(passing, default=current)
        every = not hidden and all(span and fits(common, span) for span in spans.values())
        offenders = [w for w, s in spans.items() if s is not None and not fits(ceiling, s)]
        # A controller that replays a level it does not support ends, so one that answers
        # supports it: its listener leaves unstable levels out (facts, g.3).
        stored_min = 1 if cluster.zookeeper and cluster.schema == 1 else 0
        understate = {
            node.who
            for node in asked
            if node.role == CONTROLLER and node.answers and by_answer(cluster, node)
            if name == METADATA and name in visible(node)
        }
        unfit = [
            w
            for w, s in spans.items()
            if s is not None and w not in understate
            if not (fits(current, s) and (not stored_min or fits(stored_min, s)))
        ]
        answers[name] = Answer(
            verdict=verdict,
            level=current if known else None,
            target=max(passing) if verdict == "READY" else None,
            ceiling=ceiling,
            available=common if common > ceiling and every and not foreign else None,
            offenders=frozenset(offenders if ceiling > current else []),
            incompatible=frozenset(unfit if known and current > 0 else []),
        )
    # What a stale broker supported in an earlier look counts where it blocks, and nowhere else.
    look = look_age(cluster, who)
    past = [n for n in who if fencing_seen(cluster, n) and by_answer(cluster, n)]
    past = [n for n in past if n.answered is not None and look < n.answered <= FRESH]
    if rises and past:
        unknown |= {("range_unknown", node.who) for node in past}
        for name, one in answers.items():
            if one.verdict in ("READY", "UP_TO_DATE"):
                answers[name] = replace(one, verdict="UNKNOWN", target=None)
    # A registration that nobody saw holds nothing back where nothing can go up.
    at_the_top = all(a.level is not None and a.ceiling <= a.level for a in answers.values())
    if answers and at_the_top and missing == {("registrations_unproven", "")}:
        for name, one in answers.items():
            if not doubted[name]:
                answers[name] = replace(one, verdict="UP_TO_DATE")
    return Judgement(features=answers, unknown=frozenset(unknown))
