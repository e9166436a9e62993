"""`featurelib mcp`: the read-only tools on standard input and output."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import featurelib
from featurelib.errors import ConfigError, install_line
from featurelib.extras.mcp.tools import INSTRUCTIONS, TableTools
from featurelib.faults import explain
from featurelib.source import find_tables

if TYPE_CHECKING:
    from mcp.server import MCPServer


def mcp(
    tables: str | None = None,
    fleet: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
) -> int:
    """Serve read-only tools to an assistant (Model Context Protocol).

    \b
        featurelib mcp --tables TABLES

    An assistant starts this command and speaks to it on standard input. Its tools answer from the
    nightly's tables: fleet, check, describe, why_not, what_if, can_roll, diff, history,
    version_mapping, feature_dependencies. None of them changes anything or reads a live cluster.

    It needs the extra mcp. Exit codes: 0 the assistant closed its end; 2 usage.
    """
    make_server(
        TableTools(tables=find_tables(tables), fleet_file=fleet, config=config, overlay=overlay)
    ).run("stdio")
    return 0


def make_server(tools: TableTools) -> MCPServer:
    """Return a server with the public methods of `tools`. Raises ConfigError without the SDK."""
    try:
        from mcp.server import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise ConfigError(
            f"the package mcp is missing. Install it, {install_line('mcp')}"
        ) from error
    server = MCPServer(
        "featurelib",
        version=featurelib.__version__,
        instructions=INSTRUCTIONS,
        log_level="ERROR",
    )
    lock = threading.Lock()
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    for name in dir(tools):
        method = getattr(tools, name)
        if not name.startswith("_") and callable(method):
            server.tool(annotations=hints)(_one_at_a_time(method, lock))
    return server


def _one_at_a_time(tool: Callable[..., Any], lock: threading.Lock) -> Callable[..., Any]:
    """Return `tool` for several threads; an error of featurelib is a message for the assistant."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    def call(*args: Any, **options: Any) -> Any:
        with lock:
            try:
                return tool(*args, **options)
            except Exception as error:
                if (known := explain(error)) is None:
                    raise
                raise ToolError(str(known)) from error

    return call
