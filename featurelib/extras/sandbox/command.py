"""Define `featurelib sandbox`: a cluster in one file, to learn with and to try plans on."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from msgspec import UNSET, UnsetType

from featurelib.catalogue import NEWEST_RELEASE
from featurelib.cli.entrance import say
from featurelib.config.files import open_catalogue
from featurelib.errors import ConfigError
from featurelib.extras.sandbox.backend import open_file
from featurelib.extras.sandbox.make import sandbox as make_sandbox
from featurelib.feature import Role
from featurelib.view.documents import Document, Levels, fill
from featurelib.view.documents import as_json as to_json
from featurelib.words import count


class SandboxDocument(Document, kw_only=True):
    """featurelib sandbox; unregister says neither mode nor levels"""

    file: str
    cluster: str
    mode: str | UnsetType = UNSET
    nodes: int
    levels: Levels | UnsetType = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """The options of `sandbox make`."""

    software: str = NEWEST_RELEASE
    metadata: str | None = None
    brokers: int = 3
    controllers: int = 3
    capture: str | None = None


def sandbox(
    action: str,
    file: str,
    new: Making,
    node: int | None = None,
    controller: bool = False,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Make a cluster that is kept in one file.

    It needs no Kafka, and responds like a real cluster.

    \b
        featurelib sandbox make cluster.db --software 4.1 --metadata 3.9
        featurelib sandbox make copy.db --capture data/samples/orders-prod-us
        featurelib sandbox unregister copy.db --node 2
        featurelib describe --file cluster.db

    `unregister` removes the registration of a broker, as kafka-cluster.sh unregister does. With
    --controller it removes that of a controller that is no voter: from metadata.version 33 on.

    Exit codes: 0 done, 2 usage.
    """
    if action not in ("make", "unregister"):
        raise ConfigError(f"sandbox {action}: The actions of sandbox are make and unregister.")
    catalogue = open_catalogue(overlay, say)
    role, is_new = Role.CONTROLLER if controller else Role.BROKER, action == "make"
    if is_new and node is not None:
        raise ConfigError("sandbox make has no --node. Only unregister has it.")
    if is_new:
        make_sandbox(file, overlay=overlay, **asdict(new))
    elif node is None:
        raise ConfigError("sandbox unregister: The node is missing. Add --node ID.")
    with open_file(file, catalogue) as opened:
        if node is not None:
            opened.unregister(node, role)
        cluster, nodes = opened.cluster, len({node.node_id for node in opened.cluster.nodes})
    levels = dict(sorted(cluster.levels.items()))
    if as_json:
        facts = {"mode": opened.mode, "levels": levels} if is_new else {}
        document = fill(SandboxDocument, file=file, cluster=opened.cluster_id, nodes=nodes, **facts)
        print(to_json(document))
        return 0
    if is_new:
        texts = ", ".join(f"{n} {catalogue.level_name(n, level)}" for n, level in levels.items())
        text = f", {count(nodes, 'node')}; {texts or 'no levels'}"
    else:
        text = f": {role.text} {node} is unregistered; left: {count(nodes, 'node')}"
    print(f"{file}: cluster {opened.cluster_id}{text}")
    print(f"next: featurelib describe --file {file}")
    return 0
