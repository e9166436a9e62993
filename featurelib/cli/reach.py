"""The options that choose one cluster, the same for every command that looks at one.

A cluster is named as the inventory names it, or reached by addresses, or is a file:
featurelib.reaching says how.
"""

from __future__ import annotations

from typing import Annotated

import typer

from featurelib.cli.settings import PLACES
from featurelib.reaching import Reached as Reached
from featurelib.reaching import Ways as Ways
from featurelib.reaching import choose as choose
from featurelib.reaching import open_fleet as open_fleet
from featurelib.reaching import reach as reach

ClusterName = Annotated[
    str | None,
    typer.Argument(metavar="CLUSTER", help="Id or name of a cluster in the inventory."),
]
FleetFile = Annotated[
    str | None,
    typer.Option("--fleet", metavar="FILE", help=f"The inventory. {PLACES} fleet.toml."),
]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT[,…]", help="Brokers to ask first."),
]
Controllers = Annotated[
    str | None,
    typer.Option(
        "--controllers",
        metavar="HOST:PORT[,…]",
        help="Controllers' listeners, where brokers do not name them (before Kafka 3.9).",
    ),
]
Zookeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT[,…][/CHROOT]",
        help="Of a cluster in ZooKeeper mode. Only read.",
    ),
]
EmbeddedFile = Annotated[
    str | None,
    typer.Option("--file", metavar="PATH", help="An embedded cluster, kept in that file."),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=600,
        help="To connect to one node, and again for its answer.",
    ),
]
