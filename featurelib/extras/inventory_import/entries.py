"""Make inventory entries from Strimzi's resources and Amazon's lists of clusters.

An entry has known facts and no guesses. Node ids of Strimzi's clusters are left out, because each
run reads them from the resources. Amazon lists no cluster id, so its entries are comments until
somebody adds it. Every text reads back as it was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import Any, NamedTuple

import msgspec

from featurelib.config.fleet import Fleet, FleetEntry, is_address
from featurelib.errors import LandingError
from featurelib.landing.strict import show
from featurelib.landing.strimzi import KIND, StrimziCluster
from featurelib.words import toml_text

MSK = "msk"
CLUSTERS_COMMAND = "aws kafka list-clusters-v2"
NODES_COMMAND = "aws kafka list-nodes --cluster-arn ARN"
_BROKERS = 3  # Maximum number of brokers in an entry's addresses
_KEYS = ("id", "name", "managed_by", "managed_as", "bootstrap", "brokers")


class FoundEntry(NamedTuple):
    """A cluster to add to the inventory: its entry (id may be ""), and notes for the owner."""

    entry: FleetEntry
    notes: tuple[str, ...] = ()

    @property
    def toml(self) -> str:
        """The entry as TOML for the inventory. An entry without id is commented out."""
        rows = [f"# {note}" for note in self.notes] + ["[[cluster]]"]
        for key in _KEYS:
            value = getattr(self.entry, key)
            if value or key == "id":
                rows.append(f"{key} = {_value(value)}")
        if not self.entry.id:
            rows = [row if row.startswith("# ") else f"# {row}" for row in rows]
        return "\n".join(rows) + "\n"

    @property
    def keys(self) -> dict[str, Any]:
        """The entry as a dict with the keys of the inventory."""
        values = msgspec.to_builtins(self.entry)
        return {key: values[key] for key in _KEYS if values[key] or key == "id"}


def new_ones(entries: Iterable[FoundEntry], inventory: Fleet) -> list[FoundEntry]:
    """Return the entries that the inventory lacks, compared by id and by managed_as."""
    ids = {entry.id for entry in inventory.cluster}
    managed = (entry for entry in inventory.cluster if entry.managed_as)
    names = {(entry.managed_by.casefold(), entry.managed_as) for entry in managed}
    return [
        new
        for new in entries
        if new.entry.id not in ids and (new.entry.managed_by, new.entry.managed_as) not in names
    ]


def of_strimzi(clusters: Iterable[StrimziCluster]) -> Iterator[FoundEntry]:
    """Yield an inventory entry per Strimzi cluster, with its easiest listener."""
    known = [*clusters]
    names = Counter(cluster.name for cluster in known)
    for cluster in known:
        ways = sorted(cluster.listeners, key=lambda listener: (len(listener.asks), listener.name))
        notes = []
        if not ways:
            notes.append("Its status has no listener: say how it is reached.")
        elif ways[0].asks:
            options = " and ".join(show(text) for text in ways[0].asks)
            notes.append(
                f"Listener {show(ways[0].name)} wants {options}: add [cluster.security], as "
                "docs/how-to/strimzi.md says."
            )
        servers = ways[0].servers.split(",") if ways else []
        yield FoundEntry(
            FleetEntry(
                id=cluster.cluster_id,
                name=cluster.name if names[cluster.name] == 1 else cluster.resource,
                managed_by=KIND,
                managed_as=cluster.resource,
                bootstrap=tuple(server for server in servers if is_address(server)),
            ),
            tuple(notes),
        )


# --- Amazon MSK -----------------------------------------------------------------------------------


class _Switch(msgspec.Struct, frozen=True, rename="pascal"):
    enabled: bool | None = None


class _Sasl(msgspec.Struct, frozen=True, rename="pascal"):
    scram: _Switch | None = None


class _Clients(msgspec.Struct, frozen=True, rename="pascal"):
    sasl: _Sasl | None = None
    tls: _Switch | None = None
    unauthenticated: _Switch | None = None


class _Transit(msgspec.Struct, frozen=True, rename="pascal"):
    client_broker: str | None = None


class _Encryption(msgspec.Struct, frozen=True, rename="pascal"):
    encryption_in_transit: _Transit | None = None


class _Provisioned(msgspec.Struct, frozen=True, rename="pascal"):
    client_authentication: _Clients | None = None
    encryption_info: _Encryption | None = None


class _MskCluster(msgspec.Struct, frozen=True, rename="pascal"):
    cluster_arn: str
    cluster_name: str
    provisioned: _Provisioned | None = None


class _Broker(msgspec.Struct, frozen=True, rename="pascal"):
    broker_id: float
    endpoints: list[str] | None = None


class _MskNode(msgspec.Struct, frozen=True):
    arn: str | None = msgspec.field(default=None, name="NodeARN")
    broker: _Broker | None = msgspec.field(default=None, name="BrokerNodeInfo")


class _Answer(msgspec.Struct, frozen=True):
    """The output of `aws kafka list-clusters-v2`, `describe-cluster-v2` or `list-nodes`."""

    clusters: list[_MskCluster] | None = msgspec.field(default=None, name="ClusterInfoList")
    cluster: _MskCluster | None = msgspec.field(default=None, name="ClusterInfo")
    nodes: list[_MskNode] | None = msgspec.field(default=None, name="NodeInfoList")


def of_msk(texts: Iterable[tuple[str, str]]) -> tuple[list[FoundEntry], list[str]]:
    """Return (entries, notes about omitted clusters) from the outputs of aws commands, given as
    (file name, text). Raises LandingError."""
    clusters, nodes = list[_MskCluster](), list[_MskNode]()
    for source, text in texts:
        try:
            answer = msgspec.json.decode(text, type=_Answer)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _strange(source, str(error)) from None
        if answer.clusters is None and answer.nodes is None and answer.cluster is None:
            raise _strange(source, "none of ClusterInfoList, ClusterInfo and NodeInfoList")
        clusters += answer.clusters or ([answer.cluster] if answer.cluster else ())
        nodes += answer.nodes or ()
    if not clusters:
        raise _strange(", ".join(source for source, _ in texts) or "--from-msk", "no cluster")
    brokers: dict[str, list[_Broker]] = {item.cluster_arn: [] for item in clusters}
    unknown = 0
    for node in nodes:
        owner = _owner(node, clusters)
        if node.broker is not None and owner is not None:
            brokers[owner.cluster_arn].append(node.broker)
        unknown += node.broker is not None and owner is None
    left_out = [f"{unknown} nodes left out: no cluster of {CLUSTERS_COMMAND} has them"]
    entries = [_of_msk(item, brokers[item.cluster_arn]) for item in clusters]
    return entries, left_out if unknown else []


def _strange(source: str, actual: str) -> LandingError:
    return LandingError(
        f"{source}: This is not the JSON output of {CLUSTERS_COMMAND} or {NODES_COMMAND}: "
        f"{actual}. Nothing was written."
    )


def _owner(node: _MskNode, clusters: Sequence[_MskCluster]) -> _MskCluster | None:
    """Return the cluster of a node, found by the node's ARN or its address; None if unknown."""
    hosts = node.broker.endpoints or () if node.broker else ()
    names = {host.split(".")[1] for host in hosts if host.count(".") > 1}
    by_arn = [c for c in clusters if c.cluster_arn.partition("/")[2] in (node.arn or "")]
    by_name = [cluster for cluster in clusters if cluster.cluster_name.lower() in names]
    fitting = by_arn or by_name
    return fitting[0] if len(fitting) == 1 else None


def _of_msk(cluster: _MskCluster, brokers: Sequence[_Broker]) -> FoundEntry:
    port, protocol = _way(cluster)
    hosts = [f"{host}:{port}" for broker in brokers for host in (broker.endpoints or ())[:1]]
    addresses = tuple(host for host in hosts if is_address(host))
    ids = {int(broker.broker_id) for broker in brokers if broker.broker_id.is_integer()}
    first = addresses[0] if addresses else "HOST:PORT"
    ask = f"featurelib describe --fleet /dev/null --bootstrap {quote(first)}"
    notes = [f"Amazon does not say the cluster's id. It is what this prints first: {ask}"]
    notes.append(f"Port {port} is for {protocol}: docs/how-to/managed-services.md.")
    if not brokers:
        notes.append(f"Its brokers are not known: give what {NODES_COMMAND} prints, too.")
    return FoundEntry(
        FleetEntry(
            id="",
            name=cluster.cluster_name,
            managed_by=MSK,
            managed_as=cluster.cluster_arn,
            bootstrap=addresses[:_BROKERS],
            brokers=tuple(sorted(i for i in ids if 0 <= i < 2**31)),
        ),
        tuple(notes),
    )


def _way(cluster: _MskCluster) -> tuple[int, str]:
    """Return (port, protocol) of the listener that is easiest to use."""
    provisioned = cluster.provisioned or _Provisioned()
    clients = provisioned.client_authentication or _Clients()
    sasl = clients.sasl or _Sasl()
    transit = (provisioned.encryption_info or _Encryption()).encryption_in_transit or _Transit()
    open_to_all = clients.unauthenticated is not None and clients.unauthenticated.enabled is True
    if open_to_all and "PLAINTEXT" in (transit.client_broker or ""):
        return 9092, "PLAINTEXT"
    options = (
        (clients.unauthenticated, 9094, "SSL"),
        (sasl.scram, 9096, "SASL_SSL with SCRAM-SHA-512"),
        (clients.tls, 9094, "SSL with a client certificate"),
    )
    enabled = ((port, protocol) for switch, port, protocol in options if switch and switch.enabled)
    return next(enabled, (9098, "SASL_SSL with OAUTHBEARER, by IAM"))


# --- As TOML --------------------------------------------------------------------------------------


def _value(value: object) -> str:
    """Return a text, number or list as TOML in one printable line."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return toml_text(value) if isinstance(value, str) else str(value)
