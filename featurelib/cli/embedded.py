"""`featurelib embedded`: a cluster in one file, to learn with and to try plans on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from featurelib.backends.embedded import Captured, EmbeddedCluster, Formatted, Made, make_embedded
from featurelib.catalogue import NEWEST_RELEASE, Catalogue
from featurelib.cli.options import Json, OverlayFile, choose_software, open_catalogue
from featurelib.collect import landing_lines
from featurelib.errors import ConfigError
from featurelib.feature import Role


def embedded(
    action: Annotated[str, typer.Argument(metavar="make|unregister", help="What to do.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the cluster is kept.")],
    software: Annotated[
        str,
        typer.Option("--software", metavar="RELEASE", help="What its nodes run, as 4.1."),
    ] = NEWEST_RELEASE,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="VERSION",
            help="The release version it was made with, as 3.9. Default: the newest there is.",
        ),
    ] = None,
    brokers: Annotated[int, typer.Option("--brokers", min=1, max=1000)] = 3,
    controllers: Annotated[int, typer.Option("--controllers", min=1, max=99)] = 3,
    capture: Annotated[
        str | None,
        typer.Option(
            "--capture",
            metavar="PATH",
            help="Landing lines of a cluster to make it of, a file or a folder.",
        ),
    ] = None,
    node: Annotated[
        int | None,
        typer.Option("--node", metavar="ID", help="Of unregister: the broker that is gone."),
    ] = None,
    controller: Annotated[
        bool,
        typer.Option("--controller", help="Of unregister: it is a controller, as Kafka 4.4 can."),
    ] = False,
    overlay: OverlayFile = None,
    as_json: Json = False,
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
    catalogue = open_catalogue(overlay)
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
        document = {
            "version": 1,
            "file": file,
            "cluster": made.cluster_id,
            "mode": made.mode,
            "nodes": nodes,
            "levels": levels,
        }
        print(json.dumps(document, indent=2, ensure_ascii=False))
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
        document = {"version": 1, "file": file, "cluster": cluster_id, "nodes": left}
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    print(
        f"{file}: cluster {cluster_id}: {role.text} {node} is unregistered; {left} node halves "
        "are left"
    )
    print(f"next: featurelib describe --file {file}")
    return 0
