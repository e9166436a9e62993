"""`featurelib embedded`: a cluster in one file, to learn with and to try plans on."""

from __future__ import annotations

from pathlib import Path

from featurelib.backends.embedded import Captured, Formatted, Made, make_embedded
from featurelib.backends.embedded_cluster import EmbeddedCluster
from featurelib.catalogue import NEWEST_RELEASE, Catalogue
from featurelib.cli.entrance import say
from featurelib.collect import landing_lines
from featurelib.config.catalogue import choose_software, open_catalogue
from featurelib.errors import ConfigError
from featurelib.feature import Role
from featurelib.view.documents import EmbeddedDocument, fill
from featurelib.view.documents import as_json as to_json


def embedded(
    action: str,
    file: str,
    software: str = NEWEST_RELEASE,
    metadata: str | None = None,
    brokers: int = 3,
    controllers: int = 3,
    capture: str | None = None,
    node: int | None = None,
    controller: bool = False,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Make a cluster that is kept in one file.

    No Kafka is needed: it answers as one would.

    \b
        featurelib embedded make cluster.db --software 4.1 --metadata 3.9
        featurelib embedded make copy.db --capture data/samples/ghost-broker
        featurelib embedded unregister copy.db --node 2
        featurelib describe --file cluster.db

    `unregister` takes a broker out, as kafka-cluster.sh unregister does; with --controller a
    controller that does not vote, from metadata.version 33 on.

    Exit codes: 0 done, 2 usage.
    """
    if action not in ("make", "unregister"):
        raise ConfigError(f"embedded {action}: expected make or unregister, found {action!r}.")
    catalogue = open_catalogue(overlay, say)
    if action == "unregister":
        role = Role.CONTROLLER if controller else Role.BROKER
        return _unregister(file, node, role, catalogue, as_json)
    if node is not None:
        raise ConfigError("--node: expected with unregister only, found it with make.")
    like: Formatted | Captured
    if capture is None:
        own = choose_software(catalogue, software)
        like = Formatted(own=own, metadata=metadata, brokers=brokers, controllers=controllers)
    else:
        like = Captured(path=capture, lines=landing_lines("--capture", capture))
    made = make_embedded(file, like, catalogue)
    _say(file, made, catalogue, as_json)
    return 0


def _say(file: str, made: Made, catalogue: Catalogue, as_json: bool) -> None:
    """What is in the file now."""
    nodes = len(made.cluster.nodes)
    levels = {name: level for name, (_, level) in sorted(made.cluster.finalized.items())}
    if as_json:
        about = fill(
            EmbeddedDocument,
            made,
            file=file,
            cluster=made.cluster_id,
            nodes=nodes,
            levels=levels,
        )
        print(to_json(about))
        return
    said = ", ".join(f"{n} {catalogue.level_name(n, level)}" for n, level in levels.items())
    print(f"{file}: cluster {made.cluster_id}, {nodes} node halves; {said or 'no levels'}")
    print(f"next: featurelib describe --file {file}")


def _unregister(
    file: str, node: int | None, role: Role, catalogue: Catalogue, as_json: bool
) -> int:
    """Take a node half out of the cluster in `file`. Raises ConfigError, InputError."""
    if node is None:
        raise ConfigError("embedded unregister: expected --node ID, found none. Name the broker.")
    if not Path(file).is_file():
        raise ConfigError(
            f"{file}: expected an embedded cluster, found no such file. "
            f"Make one: featurelib embedded make {file}"
        )
    with EmbeddedCluster(file, catalogue.tables) as opened:
        opened.unregister(node, role)
        cluster_id, left = opened.cluster_id, len(opened.cluster.nodes)
    if as_json:
        print(to_json(fill(EmbeddedDocument, file=file, cluster=cluster_id, nodes=left)))
        return 0
    print(
        f"{file}: cluster {cluster_id}: {role.text} {node} is unregistered; {left} node halves "
        "are left"
    )
    print(f"next: featurelib describe --file {file}")
    return 0
