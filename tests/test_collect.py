"""Collecting: whoever does not answer is written down, files are whole or not there at all."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from featurelib.audit.cluster_view import see
from featurelib.backends.base import Abilities, Backend, Say, open_backend
from featurelib.catalogue import load
from featurelib.collect import (
    Collected,
    NodeListener,
    collect,
    collect_one,
    files_of,
    known_nodes,
    name_of,
    read_lines,
    write_lines,
)
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.security import Security
from featurelib.core.cluster import Cluster as Plain
from featurelib.core.reply import Reply
from featurelib.errors import UnreachableError
from featurelib.feature import Role
from featurelib.landing import ApiVersionsAnswer, Landing, Quarantined, read
from featurelib.model import Step
from tests.backends.clusters import KRAFT, TABLES, ZK
from tests.backends.simulator import Simulated

NIGHT = datetime(2026, 11, 21, 6, tzinfo=UTC)


def embedded(folder: Path, name: str, cluster: Plain = KRAFT, mode: str = "kraft") -> FleetEntry:
    path = folder / f"{name}.db"
    made = Simulated(str(path), TABLES, mode=mode, cluster_id=f"id-{name}")
    made.put(cluster, 9)
    made.close()
    return FleetEntry(id=f"id-{name}", name=name, file=str(path))


def dead(cluster: Plain = KRAFT) -> Plain:
    return replace(cluster, nodes=tuple(replace(n, running=False) for n in cluster.nodes))


def open_one(entry: FleetEntry) -> Backend:
    return open_backend(entry, load())


def quiet(text: str) -> None:
    pass


def taken(folder: Path, *entries: FleetEntry, parallel: int = 4) -> dict[str, Collected]:
    out = folder / "landing"
    found = collect(entries, out, open_one, parallel=parallel, say=quiet)
    return {result.name: result for result in found}


def landed(path: str | None) -> list[Landing]:
    assert path is not None
    said = [read(raw.removesuffix(b"\n")) for raw in read_lines(path)]
    assert not [line for line in said if isinstance(line, Quarantined)]
    return [line for line in said if isinstance(line, Landing)]


def answers(path: str | None) -> list[ApiVersionsAnswer]:
    return [c for one in landed(path) if isinstance(c := one.content, ApiVersionsAnswer)]


@pytest.mark.parametrize(("cluster", "mode"), [(KRAFT, "kraft"), (ZK, "zk")])
def test_what_is_collected_is_accepted_line_by_line_and_judged(
    tmp_path: Path, cluster: Plain, mode: str
) -> None:
    entry = embedded(tmp_path, "one", cluster, mode)
    result = taken(tmp_path, entry)["one"]
    assert (result.error, result.quarantined, result.not_answering) == (None, (), ())
    assert result.lines == len(landed(result.file)) > 0
    assert result.file is not None
    raw = [line.removesuffix(b"\n") for line in read_lines(result.file)]
    sight = see(raw, catalogue=load(), as_of=None, max_age=10**12, fleet=Fleet(cluster=(entry,)))
    assert sight.cluster.finalized == cluster.finalized
    assert {row["verdict"] for row in sight.judged.readiness.to_pylist()} >= {"READY"}


def test_nodes_of_a_cluster_that_cannot_be_reached_are_said_not_to_answer(tmp_path: Path) -> None:
    entry = embedded(tmp_path, "dead", dead())
    nobody = taken(tmp_path, entry)["dead"]
    assert (nobody.file, nobody.lines) == (None, 0)
    told = FleetEntry(id=entry.id, name="dead", file=entry.file, brokers=(7, 8), controllers=(9,))
    result = taken(tmp_path, told)["dead"]
    said = answers(result.file)
    assert [(a.role.text, a.node_id) for a in said] == [
        ("broker", 7), ("broker", 8), ("controller", 9),
    ]  # fmt: skip
    assert all(a.error and "found none of 4 running" in a.error for a in said)


PASSWORD = {"protocol": "SASL_PLAINTEXT", "username": "u", "password": "env:NOT_SET"}


@pytest.mark.parametrize(
    ("key", "settings", "reason"),
    [
        ("security", {**PASSWORD, "mechanism": "PLAIN"}, "environment variable NOT_SET"),
        ("security", {"protocol": "SSL", "ca_file": "none.pem"}, "security.ca_file: expected a"),
        ("controller_security", {"protocol": "SSL", "ca_file": "none.pem"}, "none.pem"),
        ("zookeeper_security", {**PASSWORD, "mechanism": "DIGEST-MD5"}, "variable NOT_SET"),
        (
            "security",
            {"protocol": "SASL_PLAINTEXT", "mechanism": "OAUTHBEARER", "oauth_token": "file:none"},
            "security.oauth_token: expected a file to read at none",
        ),
    ],
)
def test_where_a_secret_or_a_file_is_missing_the_nodes_are_said_not_to_answer_and_nobody_is_asked(
    tmp_path: Path, key: str, settings: dict[str, str], reason: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        entry = FleetEntry(id="locked", bootstrap=(address,), zookeeper=address, brokers=(7, 8))
        security = Security(**settings)  # type: ignore[arg-type]
        result = taken(tmp_path, msgspec.structs.replace(entry, **{key: security}))["locked"]
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert reason in (result.error or "")
    said = [(answer.node_id, answer.error) for answer in answers(result.file)]
    assert said == [(7, result.error), (8, result.error)]


def test_a_cluster_that_answered_once_is_known_by_its_newest_file(tmp_path: Path) -> None:
    entry = embedded(tmp_path, "one")
    before = taken(tmp_path, entry)["one"]
    made = Simulated(entry.file, TABLES)
    made.put(dead(), 10)
    made.close()
    after = taken(tmp_path, entry)["one"]
    assert after.error
    assert tuple(one[:2] for one in after.not_answering) == before.answered
    endpoints = {(a.role, a.node_id): a.endpoint for a in answers(before.file)}
    assert {(a.role, a.node_id): a.endpoint for a in answers(after.file)} == endpoints


def test_a_damaged_file_of_an_earlier_round_names_nobody(tmp_path: Path) -> None:
    entry = FleetEntry(id="c", brokers=(1,))
    (tmp_path / name_of("c", NIGHT)).write_bytes(b"\x1f\x8bbroken")
    assert list(known_nodes(entry, tmp_path)) == [NodeListener(Role.BROKER, 1)]


class Fake:
    """A backend that answers with given lines, for what an embedded cluster never does."""

    where = "fake:1"

    def __init__(self, describe: Callable[[], tuple[bytes, ...]]) -> None:
        self._describe, self.closed = describe, False

    def describe(self, say: Say) -> tuple[bytes, ...]:
        return self._describe()

    def abilities(self) -> Abilities:
        return Abilities(mode="kraft", validate_only=True)

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        raise AssertionError("collecting sends nothing")

    def close(self) -> None:
        self.closed = True


LINE = {"kind": "api_versions", "cluster_id": "c", "observed_at": "2026-11-21T06:00:00Z"}
LINE |= {"node_id": 1, "role": "broker", "endpoint": "a:1", "asked_version": 4, "error": "no"}  # type: ignore[dict-item]


def test_another_cluster_behind_the_addresses_is_told_and_does_not_land(tmp_path: Path) -> None:
    fake = Fake(lambda: (json.dumps(LINE).encode(),))
    result = collect_one(
        FleetEntry(id="meant", bootstrap=("a:1",)), tmp_path, lambda _: fake, quiet
    )
    assert "expected the cluster meant (meant), found c" in (result.error or "")
    assert (result.file, fake.closed) == (None, True)
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_ingest_would_quarantine_is_said(tmp_path: Path) -> None:
    odd = json.dumps(LINE | {"node_id": -3}).encode()
    fake = Fake(lambda: (json.dumps(LINE).encode(), odd))
    result = collect_one(FleetEntry(id="c"), tmp_path, lambda _: fake, quiet)
    assert ["node_id" in reason for reason in result.quarantined] == [True]
    assert result.lines == 2


def test_clusters_are_read_at_the_same_time(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=20)

    def describe() -> tuple[bytes, ...]:
        both.wait()  # breaks if nobody else comes
        return (json.dumps(LINE).encode(),)

    entries = [FleetEntry(id="", bootstrap=(f"{host}:1",)) for host in "ab"]
    found = collect(entries, tmp_path, lambda _: Fake(describe), parallel=2, say=quiet)
    assert [result.error for result in found] == [None, None]


def test_a_fault_of_our_own_lets_the_others_finish_and_is_not_hidden(tmp_path: Path) -> None:
    good = embedded(tmp_path, "good")

    def open_some(entry: FleetEntry) -> Backend:
        if entry.id == "bad":
            raise ZeroDivisionError("a bug")
        return open_backend(entry, load())

    found = collect([FleetEntry(id="bad"), good], tmp_path, open_some, parallel=1, say=quiet)
    assert next(found).name == "good"
    with pytest.raises(ZeroDivisionError, match="a bug"):
        next(found)


def test_names_sort_by_time_and_never_hide_from_a_reader_of_the_folder(tmp_path: Path) -> None:
    ids = ["_hidden", ".hidden", "-x", "a/b", "a_b", "ä", "AbC_-9", "x" * 250, "x" * 251]
    names = [name_of(one, NIGHT) for one in ids]
    assert len({name.lower() for name in names}) == len(names)
    assert all(name.startswith("20261121T060000.000000Z-") for name in names)
    assert all(name.endswith(".jsonl") and "/" not in name for name in names)
    for one, name in zip(ids, names, strict=True):
        write_lines(tmp_path / name, [b"{}"])
        assert [path.name for path in files_of(tmp_path, one)] == [name]


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / name_of("c", NIGHT)
    seen = []

    def lines() -> list[bytes]:
        seen.extend(p.name for p in path.parent.iterdir())
        return [b"{}"]

    assert write_lines(path, (line for _ in range(2) for line in lines())) == 2
    assert all(name.startswith(".") and name.endswith(".part") for name in seen)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == b"{}\n{}\n"


def test_a_file_that_breaks_while_it_is_written_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> object:
        yield b"{}"
        raise UnreachableError("gone")

    with pytest.raises(UnreachableError):
        write_lines(tmp_path / name_of("c", NIGHT), broken())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
