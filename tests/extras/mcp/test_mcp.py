"""Tools for assistants, called by the SDK's own client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from featurelib.extras.mcp.command import TableTools
from featurelib.feature import METADATA_VERSION
from featurelib.tables import FINDINGS
from tests.cli.commands import run
from tests.laboratory import LABORATORY
from tests.questions.nights import RUN, write_night
from tests.report.samples import read_samples

FLEET = str(LABORATORY / "fleet.toml")
CONFIG = str(LABORATORY / "audit.toml")
CLUSTER = "ghost-broker"
TOOLS = {
    "can_roll", "check", "describe", "diff", "feature_dependencies", "fleet", "history",
    "version_mapping", "what_if", "why_not",
}  # fmt: skip
Call = Callable[..., Awaitable[Any]]


def served(tables: Path, work: Callable[[Client, Call], Awaitable[None]]) -> None:
    """Do `work` with a client of a server process on these tables."""
    words = ["mcp", "--tables", str(tables), "--fleet", FLEET, "--config", CONFIG]
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "featurelib", *words], env=dict(os.environ)
    )

    async def connect() -> None:
        async with Client(server, read_timeout_seconds=60) as client:

            async def call(name: str, **arguments: Any) -> Any:
                result = await client.call_tool(name, arguments)
                [content] = result.content
                if result.is_error:
                    return content.text
                assert json.loads(content.text) == result.structured_content
                return result.structured_content

            await work(client, call)

    asyncio.run(connect())


def printed(command: str, *options: str, tables: Path) -> Any:
    """What a command prints with --json."""
    at = ["--tables", str(tables), "--fleet", FLEET]
    code, text, errors = run(command, *options, *at, "--json")
    assert code == 0, errors
    return json.loads(text)


def test_every_answer_is_the_json_of_its_command(tables: Path) -> None:
    async def work(_: Client, call: Call) -> None:
        level, of = f"{METADATA_VERSION}=29", {"cluster": CLUSTER}
        assert await call("describe", **of) == printed("describe", CLUSTER, tables=tables)
        why = await call("why_not", **of, feature=METADATA_VERSION, level="29")
        assert why == printed("why-not", CLUSTER, level, tables=tables)
        assert why["proofs"]
        assert why == await call("why_not", **of, feature=METADATA_VERSION, level=29)
        change: dict[str, Any] = {"nodes": {"1": "4.2"}, "finalize": {METADATA_VERSION: "4.0"}}
        options = ("--node", "1=4.2", "--finalize", f"{METADATA_VERSION}=4.0")
        what_if = await call("what_if", **of, **change)
        assert what_if == printed("what-if", CLUSTER, *options, tables=tables)
        roll = await call("can_roll", **of, to="4.2")
        assert roll == printed("can-roll", CLUSTER, "--to", "4.2", tables=tables)
        assert await call("history", **of) == printed("history", CLUSTER, tables=tables)
        mapping = await call("version_mapping", release_version="4.0", software="4.2")
        code, text, _ = run(
            "version-mapping", "--release-version", "4.0", "--software", "4.2", "--json"
        )
        assert (code, mapping) == (0, json.loads(text))
        needs = await call("feature_dependencies", feature="kraft.version", level=1)
        code, text, _ = run("feature-dependencies", "--feature", "kraft.version=1", "--json")
        assert (code, needs) == (0, json.loads(text))

    served(tables, work)


def test_the_fleet_and_one_cluster_are_parts_of_the_report(tables: Path) -> None:
    async def work(_: Client, call: Call) -> None:
        report = printed("report", "--config", CONFIG, tables=tables)
        fleet = await call("fleet", most=3)
        for name in report.keys() - {"clusters", "runs"}:
            assert fleet[name] == report[name], name
        assert [c["name"] for c in fleet["clusters"]] == [c["name"] for c in report["clusters"][:3]]
        check = await call("check", cluster=CLUSTER)
        [cluster] = check["clusters"]
        assert cluster == next(c for c in report["clusters"] if c["name"] == CLUSTER)
        assert check["fleet"]["clusters"] == 1
        payments = await call("fleet", owner=["payments"])
        assert {c["owner"] for c in payments["clusters"]} == {"payments"}

    served(tables, work)


def test_tools_are_marked_as_read_only_and_none_can_change_anything(tables: Path) -> None:
    async def work(client: Client, _: Call) -> None:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        for tool in tools:
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert not tool.annotations.open_world_hint
            assert "JSON of" in " ".join((tool.description or "").split())
            assert set(tool.input_schema["properties"]).isdisjoint({"bootstrap", "capture", "file"})

    before = {path: path.stat().st_mtime_ns for path in tables.rglob("*")}
    served(tables, work)
    assert {path: path.stat().st_mtime_ns for path in tables.rglob("*")} == before


def test_errors_are_messages_and_the_server_goes_on(tables: Path) -> None:
    async def work(_: Client, call: Call) -> None:
        error = await call("check", cluster="ghost-borker")
        assert "Did you mean ghost-broker" in error
        error = await call("why_not", cluster=CLUSTER, feature=METADATA_VERSION, level="x")
        assert "x" in error
        assert "No change is named" in await call("what_if", cluster=CLUSTER)
        assert "Knows" not in await call("feature_dependencies", feature="no.such", level=1)
        assert "before" in await call("diff")  # there is one run only
        assert "`run` 7: None of the 1 runs" in await call("fleet", run=7)
        # The assistant has arguments, no options of a command line.
        error = await call("what_if", cluster=CLUSTER, nodes={"99": "4.2"})
        assert "`nodes` 99" in error
        assert "--" not in error
        error = await call("can_roll", cluster=CLUSTER, to="no-release")
        assert ("`to`" in error, "--to" in error) == (True, False)
        assert (await call("fleet", most=0))["clusters"] == []
        assert "`most`" in await call("fleet", most=-1)
        assert 1000 < len(await call("check", cluster="x" * 200_000)) < 3000
        # Left out, it would be the answer to another question.
        assert "release" in await call("version_mapping", release="4.0")
        assert "owners" in await call("fleet", owners=["payments"])

    served(tables, work)


def test_a_live_cluster_is_never_looked_at(tables: Path, tmp_path: Path) -> None:
    """A name that only the inventory has is no cluster of the run, whatever addresses it has."""
    fleet = tmp_path / "fleet.toml"
    text = '[[cluster]]\nid = "x"\nname = "live"\nbootstrap = ["127.0.0.1:9"]\n'
    fleet.write_text(text, "utf-8")
    with pytest.raises(Exception, match="No cluster 'x' is in run"):
        TableTools(tables=str(tables), fleet_file=str(fleet)).describe("live")


def test_tables_may_come_later(tables: Path, tmp_path: Path) -> None:
    place = tmp_path / "tables"

    async def work(_: Client, call: Call) -> None:
        assert "There is no such folder. Use the folder of the nightly's tables" in await call(
            "fleet"
        )
        place.mkdir()
        assert "there is none at" in await call("fleet")
        shutil.copytree(tables, place, dirs_exist_ok=True)
        assert (await call("fleet"))["run"]["number"] == RUN

    served(place, work)


def test_a_run_that_is_being_written_is_seen_once_it_is_whole(tables: Path, tmp_path: Path) -> None:
    place, batch = tmp_path / "tables", read_samples().batch
    shutil.copytree(tables, place)

    async def work(_: Client, call: Call) -> None:
        append_findings(place, RUN + 1)  # no row of the run yet
        assert (await call("fleet"))["run"]["number"] == RUN
        writer = threading.Thread(
            target=lambda: [write_night(place, RUN + n, batch) for n in range(2, 5)]
        )
        writer.start()
        seen = []
        while writer.is_alive() or len(seen) < 3:
            fleet = await call("fleet")
            assert isinstance(fleet, dict), fleet
            assert fleet["fleet"]["clusters"] == len(set(batch["cluster"].to_pylist()))
            seen.append(fleet["run"]["number"])
        writer.join()
        assert seen == sorted(seen)
        assert (await call("fleet"))["run"]["number"] == RUN + 4
        assert (await call("diff"))["before"] == RUN + 3

    served(place, work)


def append_findings(root: Path, number: int) -> None:
    """Add the findings once more, as those of another run."""
    path = str(root / FINDINGS.path)
    rows = DeltaTable(path).to_pyarrow_table()
    place = rows.schema.get_field_index("run")
    changed = rows.set_column(place, "run", [[number] * rows.num_rows])
    write_deltalake(path, changed.cast(rows.schema), mode="append")


def test_without_the_sdk_the_command_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    code, _, errors = run("mcp", "--tables", "anywhere")
    assert code == 2
    assert "the package mcp is missing. Install it, in a checkout" in errors
    assert "'.[mcp]'" in errors
