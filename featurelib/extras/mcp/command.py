"""Define `featurelib mcp`: the read-only tools on standard input and output."""

from __future__ import annotations

import functools
import io
import json
import re
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from featurelib import __version__
from featurelib.api.clusters import Answer, describe_features
from featurelib.api.questions import why_not
from featurelib.api.tables import NightTables, open_tables
from featurelib.catalogue import NEWEST_RELEASE
from featurelib.config.fleet import FleetPart
from featurelib.errors import ConfigError, needing
from featurelib.extras.history import diff, history
from featurelib.extras.initial_levels.levels import feature_dependencies, version_mapping
from featurelib.extras.predictions import can_roll, what_if
from featurelib.faults import explain
from featurelib.source import find_tables
from featurelib.view.report import narrow

Json = dict[str, Any]
# The keys of each cluster in the answer of `fleet`; `check` has all.
OF_CLUSTER = "id name owner labels verdict severity phase needs_person summary release nodes"
LONGEST_ERROR = 2000  # Maximum length of an error, in characters
MOST = 50  # Maximum number of clusters in the answer of `fleet`
_OPTION = re.compile(r"--(?P<name>[a-z][a-z-]+)(?: [A-Z][A-Z=]+\b)?")
INSTRUCTIONS = resources.files(__package__).joinpath("instructions.txt").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTools:
    """The tools of the MCP server. The fields are its tables, inventory, settings and overlay."""

    tables: str
    fleet_file: str | None = None
    config: str | None = None
    overlay: str | None = None

    def _night(self, run: int | None = None, **choice: Any) -> NightTables:
        return open_tables(
            self.tables,
            run=run,
            fleet=self.fleet_file,
            config=self.config,
            overlay=self.overlay,
            **choice,
        )

    def fleet(
        self,
        owner: list[str] | None = None,
        label: list[str] | None = None,
        most: int = MOST,
        run: int | None = None,
    ) -> Json:
        """Show the fleet as a run found it: counts, today's tasks, blockers, changes since the
        previous run, and a line about each cluster, worst first.

        It is the JSON of `featurelib report` with fewer members of each cluster; `check` has all.
        `owner` (names; "" is nobody) and `label` (KEY or KEY=VALUE) choose clusters. `most` limits
        the list of clusters, and not the counts. `run` is a number such as 20261121060000; without
        it the newest run is read.
        """
        if most < 0:
            raise ConfigError(f"`most`: expected 0 or more, found {most}.")
        report = self._night(run, owner=owner, label=label).report
        document: Json = msgspec.to_builtins(report)
        clusters = document["clusters"][:most]
        rows = [{name: cluster[name] for name in OF_CLUSTER.split()} for cluster in clusters]
        return document | {"clusters": rows, "runs": []}

    def check(self, cluster: str, run: int | None = None) -> Json:
        """Show everything that a run found in one cluster: the verdict of each feature (READY,
        BLOCKED, UNKNOWN, UP_TO_DATE), findings with their remedies, the steps of a possible
        upgrade, its point of no return, and what nodes support.

        The result is the JSON of `featurelib check`, from the tables: the live cluster is not read.
        `cluster` is an id or a name of the inventory.
        """
        night = self._night(run)
        key = night[cluster].wanted.cluster or ""
        part = FleetPart(text=cluster, options="", ids=frozenset([key]), unlisted=None)
        document: Json = msgspec.to_builtins(narrow(night.report, part))
        return document

    def describe(self, cluster: str) -> Json:
        """Show nodes, supported ranges and finalized levels of one cluster, and which source says
        so. It is the JSON of `featurelib describe`, from the newest run."""
        return _document(describe_features(self._night()[cluster]))

    def why_not(self, cluster: str, feature: str, level: str | int) -> Json:
        """Explain why a level of a feature cannot be finalized: each proof with its node, range and
        rule, and the smallest change that unlocks it. `answer` is blocked, unknown, nothing (no
        reason against it was found) or finalized.

        `level` is a number, or of metadata.version a name or release: "29", "4.1-IV1", "4.1". It is
        the JSON of `featurelib why-not`. It predicts; only the controller itself decides.
        """
        return _document(why_not(self._night()[cluster], feature, str(level)))

    def what_if(
        self,
        cluster: str,
        nodes: dict[int, str] | None = None,
        remove: list[int] | None = None,
        add: dict[int, str] | None = None,
        release: str | None = None,
        finalize: dict[str, str | int] | None = None,
    ) -> Json:
        """Show which verdicts of a cluster would differ after an imagined change; nothing is done.

        `nodes`: node id to the Kafka release that it would run. `remove`: ids of nodes that are
        gone for good. `add`: new brokers, id to release. `release`: all running nodes are of that
        release. `finalize`: feature to level. It is the JSON of `featurelib what-if`.
        """
        levels = {name: str(level) for name, level in (finalize or {}).items()}
        night, gone_nodes = self._night()[cluster], remove or []
        answer = what_if(
            night, nodes=nodes, remove=gone_nodes, add=add, release=release, finalize=levels
        )
        return _document(answer)

    def can_roll(self, cluster: str, to: str) -> Json:
        """Say whether nodes of Kafka release `to` can register now, and whether the software can be
        rolled back later. It covers feature levels only: no API, configuration or client
        compatibility. It is the JSON of `featurelib can-roll`."""
        return _document(can_roll(self._night()[cluster], to))

    def diff(self, before: int | None = None, after: int | None = None) -> Json:
        """Compare two runs: findings that are new, resolved, unchanged or incomparable. Without
        numbers the newest run is compared with the one before it. It is the JSON of `featurelib
        diff`."""
        return _document(diff(self._night(), before, after))

    def history(self, cluster: str) -> Json:
        """Show how supported ranges and finalized levels of a cluster changed over time, as far as
        runs saw them. It is the JSON of `featurelib history`."""
        return _document(history(self._night()[cluster]))

    def version_mapping(
        self, release_version: str | None = None, software: str = NEWEST_RELEASE
    ) -> Json:
        """Show from the catalogue which level of each feature a release stands for, as the tools of
        Kafka release `software` map it. No cluster is read. It is the JSON of
        `featurelib version-mapping`."""
        words = {"release_version": release_version, "software": software}
        return self._printed(version_mapping, **words)

    def feature_dependencies(
        self, feature: str, level: int, software: str = NEWEST_RELEASE
    ) -> Json:
        """Show from the catalogue which levels of other features a level needs, in Kafka release
        `software`. No cluster is read. It is the JSON of `featurelib feature-dependencies`."""
        words = {"feature": [f"{feature}={level}"], "software": software}
        return self._printed(feature_dependencies, **words)

    def _printed(self, command: Callable[..., int], **words: Any) -> Json:
        """Return the JSON object that a command prints with --json."""
        with redirect_stdout(io.StringIO()) as output:
            command(**words, overlay=self.overlay, as_json=True)
        document: Json = json.loads(output.getvalue())
        return document


def _document(answer: Answer[Any]) -> Json:
    document: Json = json.loads(answer.json())
    return document


if TYPE_CHECKING:
    from mcp.server import MCPServer


def mcp(
    tables: str | None = None,
    fleet: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
) -> int:
    """Serve read-only tools to an assistant by MCP.

    \b
        featurelib mcp --tables TABLES

    An assistant starts this command and sends its calls to standard input. Its tools answer from
    the nightly's tables: fleet, check, describe, why_not, what_if, can_roll, diff, history,
    version_mapping, feature_dependencies. None of them changes anything or reads a live cluster.

    It needs the extra mcp. Exit codes: 0 the assistant closed its end; 2 usage.
    """
    make_server(
        TableTools(tables=find_tables(tables), fleet_file=fleet, config=config, overlay=overlay)
    ).run("stdio")
    return 0


def make_server(tools: TableTools) -> MCPServer:
    """Return an MCP server with the methods of `tools`. Raises ConfigError without the SDK."""
    with needing("the package mcp is missing", "mcp"):
        from mcp.server import MCPServer
        from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
        from mcp.types import ToolAnnotations
    server = MCPServer(
        "featurelib", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR"
    )
    # An unknown argument is an error, because a tool that ignored it would answer another question.
    ArgModelBase.model_config["extra"] = "forbid"
    lock = threading.Lock()
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    for name in dir(tools):
        method = getattr(tools, name)
        if not name.startswith("_") and callable(method):
            server.tool(annotations=hints)(_one_at_a_time(method, lock))
    return server


def _one_at_a_time(tool: Callable[..., Any], lock: threading.Lock) -> Callable[..., Any]:
    """Return `tool` limited to one call at a time. Errors become messages for the assistant."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    def call(*args: Any, **options: Any) -> Any:
        with lock:
            try:
                return tool(*args, **options)
            except Exception as error:
                if (explained := explain(error)) is None:
                    raise
                text = str(explained)
                text = text[:LONGEST_ERROR] + "…" * (len(text) > LONGEST_ERROR)
                raise ToolError(_OPTION.sub(name_argument, text)) from error

    def name_argument(option: re.Match[str]) -> str:
        """Return the tool's argument that corresponds to an option of the command line."""
        name = option["name"].replace("-", "_")
        names = [argument for argument in (name, f"{name}s") if argument in tool.__annotations__]
        return f"`{names[0]}`" if names else option[0]

    return call
