"""Collecting: whoever does not answer is written down, files are whole or not there at all; and the
validate-only probe: what it asks, when nothing, and what is proven."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from featurelib.audit.cluster_view import ClusterView
from featurelib.backends.base import Abilities, Backend, Check, Say, open_backend
from featurelib.catalogue import load
from featurelib.collecting import (
    Collected,
    ProbeResult,
    collect_one,
    name_of,
    probe,
    read_all,
    read_lines,
    write_lines,
)
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.security import Security
from featurelib.core.cluster import Cluster
from featurelib.core.reply import Reply, Result
from featurelib.errors import OutcomeUnknownError, UnreachableError
from featurelib.landing import Landing, ProbeReply, Quarantined, read
from featurelib.landing.kinds import NotReachedLine
from featurelib.model import Step
from tests.backends.clusters import KRAFT, TABLES, ZK, broker, controller
from tests.backends.simulator import Simulated
from tests.controller.clusters import OLD, Wrapped
from tests.laboratory import LABORATORY
from tests.seeing import see

CATALOGUE = load()
Kind = TypeVar("Kind")
NIGHT = datetime(2026, 11, 21, 6, tzinfo=UTC)


def embedded(folder: Path, name: str, cluster: Cluster = KRAFT, mode: str = "kraft") -> FleetEntry:
    path = folder / f"{name}.db"
    made = Simulated(str(path), TABLES, mode=mode, cluster_id=f"id-{name}")
    made.put(cluster, 9)
    made.close()
    return FleetEntry(id=f"id-{name}", name=name, file=str(path))


def dead(cluster: Cluster = KRAFT) -> Cluster:
    return replace(cluster, nodes=tuple(replace(n, running=False) for n in cluster.nodes))


def open_one(entry: FleetEntry) -> Backend:
    return open_backend(entry, CATALOGUE)


def quiet(text: str) -> None:
    pass


def collect(
    entries: Sequence[FleetEntry], out: Path, open_one: Any, parallel: int = 1, probing: Any = None
) -> Iterator[Collected]:
    read_one = partial(collect_one, out=out, open_one=open_one, probing=probing)
    return read_all(entries, read_one, parallel=parallel, say=quiet)


def taken(folder: Path, *entries: FleetEntry, parallel: int = 4) -> dict[str, Collected]:
    out = folder / "landing"
    found = collect(entries, out, open_one, parallel=parallel)
    return {result.name: result for result in found}


def raw_lines(result: Collected) -> list[bytes]:
    assert result.file is not None
    return [line.removesuffix(b"\n") for line in read_lines(result.file)]


def contents(lines: list[bytes], kind: type[Kind]) -> list[Kind]:
    """What the lines of a kind hold; every line is one that ingest accepts."""
    said = list(map(read, lines))
    assert not [line for line in said if isinstance(line, Quarantined)]
    return [c for one in said if isinstance(one, Landing) and isinstance(c := one.content, kind)]


def judged(lines: list[bytes], *entries: FleetEntry) -> ClusterView:
    return see(lines, catalogue=CATALOGUE, as_of=None, max_age=10**18, fleet=Fleet(cluster=entries))


@pytest.mark.parametrize(("cluster", "mode"), [(KRAFT, "kraft"), (ZK, "zk")])
def test_what_is_collected_is_accepted_line_by_line_and_judged(
    tmp_path: Path, cluster: Cluster, mode: str
) -> None:
    entry = embedded(tmp_path, "one", cluster, mode)
    result = taken(tmp_path, entry)["one"]
    assert (result.error, result.quarantined, result.not_answering) == (None, (), ())
    raw = raw_lines(result)
    assert result.lines == len(contents(raw, object)) > 0
    view = judged(raw, entry)
    assert view.cluster.finalized == cluster.finalized
    assert {row["verdict"] for row in view.judged.readiness.to_pylist()} >= {"READY"}


def lost(result: Collected) -> str:
    """The reason in the one line of a look that reached nobody: it says nothing of any node."""
    [line] = contents(raw_lines(result), object)
    assert isinstance(line, NotReachedLine)
    assert (result.answered, result.not_answering, result.lines) == ((), (), 1)
    assert (result.id, line.cluster_id) == (result.entry.id,) * 2
    return line.error


@pytest.mark.parametrize("id_", ["c", ""])
def test_where_no_address_answers_that_is_recorded_of_the_cluster_and_nothing_of_its_nodes(
    tmp_path: Path, id_: str
) -> None:
    """A slip in an address is no evidence about the nodes that the inventory, or an earlier file,
    names."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    entry = FleetEntry(id=id_, name="c", bootstrap=(address,), brokers=(1, 2), controllers=(100,))
    out = tmp_path / "landing"
    write_lines(out / name_of("c", NIGHT), [json.dumps(LINE).encode()])
    result = taken(tmp_path, entry)["c"]
    said, advice = result.error or "", " Check the address first, then the network, then whether"
    assert said.startswith(f"{address}: expected at least one node to answer, found: ")
    assert said.endswith(f"{advice} the nodes run.")
    if id_:
        assert lost(result) == said.partition(advice)[0]
    else:  # nobody knows of which cluster that is
        assert (result.file, result.lines, result.id) == (None, 0, None)
    assert len(list(out.iterdir())) == 1 + bool(id_)


@pytest.mark.parametrize("id_", ["c", ""])
def test_whose_own_listeners_were_asked_are_recorded_though_nobody_answered(
    tmp_path: Path, id_: str
) -> None:
    def describe() -> tuple[bytes, ...]:
        raise UnreachableError("nobody answers", [json.dumps(LINE).encode()])

    fake = Fake(describe=describe)
    result = collect_one(FleetEntry(id=id_, name="c"), tmp_path, lambda _: fake, quiet)
    assert (result.error, result.lines) == ("nobody answers", 1)
    assert [one.node_id for one in result.not_answering] == [1]
    other = collect_one(FleetEntry(id="other"), tmp_path, lambda _: fake, quiet)
    assert lost(other) == "nobody answers"


PASSWORD = {"protocol": "SASL_PLAINTEXT", "username": "u", "password": "env:NOT_SET"}


@pytest.mark.parametrize(
    ("key", "settings", "reason"),
    [
        ("security", {**PASSWORD, "mechanism": "PLAIN"}, "environment variable NOT_SET"),
        (
            "security",
            {"protocol": "SSL", "ca_file": "none.pem"},
            "security.ca_file: featurelib cannot read",
        ),
        ("controller_security", {"protocol": "SSL", "ca_file": "none.pem"}, "none.pem"),
        ("zookeeper_security", {**PASSWORD, "mechanism": "DIGEST-MD5"}, "variable NOT_SET"),
        (
            "security",
            {"protocol": "SASL_PLAINTEXT", "mechanism": "OAUTHBEARER", "oauth_token": "file:none"},
            "security.oauth_token: featurelib cannot read the file none",
        ),
    ],
)
def test_where_a_secret_or_a_file_is_missing_nobody_is_asked_and_that_is_recorded(
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
    assert reason in lost(result)


class Fake:
    """A backend of KRaft that says what it is told, a request to validate included, and counts
    what it is sent: for what a sandbox cluster never does."""

    where = "fake:1"

    def __init__(
        self,
        answer: Reply | Exception | None = None,
        describe: Callable[[], tuple[bytes, ...]] = tuple,
        *,
        can: bool = True,
    ) -> None:
        self._answer, self._describe, self._can = answer, describe, can
        self.sent: list[tuple[Step, bool]] = []
        self.closed = False

    def describe(self, say: Say) -> tuple[bytes, ...]:
        return self._describe()

    def abilities(self) -> Abilities:
        return Abilities(mode="kraft", validate_only=self._can)

    def update(self, step: Step, *, validate_only: bool = False, last_check: Check = None) -> Reply:
        if last_check is not None:
            last_check()
        self.sent.append((step, validate_only))
        if isinstance(self._answer, Exception):
            raise self._answer
        assert self._answer is not None, "collecting sends nothing"
        return self._answer

    def close(self) -> None:
        self.closed = True


LINE = {"kind": "api_versions", "cluster_id": "c", "observed_at": "2026-11-21T06:00:00Z"}
LINE |= {"node_id": 1, "role": "broker", "endpoint": "a:1", "asked_version": 4, "error": "no"}  # type: ignore[dict-item]


def test_another_cluster_behind_the_addresses_is_told_and_does_not_land(tmp_path: Path) -> None:
    """Who answers there is nobody of the cluster that was meant."""
    fake = Fake(describe=lambda: (json.dumps(LINE).encode(),))
    result = collect_one(
        FleetEntry(id="meant", bootstrap=("a:1",)), tmp_path, lambda _: fake, quiet
    )
    assert "expected the cluster meant (meant), found c" in lost(result)
    assert fake.closed


def test_a_line_that_ingest_would_quarantine_is_said(tmp_path: Path) -> None:
    odd = json.dumps(LINE | {"node_id": -3}).encode()
    fake = Fake(describe=lambda: (json.dumps(LINE).encode(), odd))
    result = collect_one(FleetEntry(id="c"), tmp_path, lambda _: fake, quiet)
    assert ["node_id" in reason for reason in result.quarantined] == [True]
    assert result.lines == 2


def test_clusters_are_read_at_the_same_time(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=20)

    def describe() -> tuple[bytes, ...]:
        both.wait()  # breaks if nobody else comes
        return (json.dumps(LINE).encode(),)

    entries = [FleetEntry(id="", bootstrap=(f"{host}:1",)) for host in "ab"]
    found = collect(entries, tmp_path, lambda _: Fake(describe=describe), parallel=2)
    assert [result.error for result in found] == [None, None]


def test_a_fault_of_our_own_lets_the_others_finish_and_is_not_hidden(tmp_path: Path) -> None:
    good = embedded(tmp_path, "good")

    def open_some(entry: FleetEntry) -> Backend:
        if entry.id == "bad":
            raise ZeroDivisionError("a bug")
        return open_backend(entry, CATALOGUE)

    found = collect([FleetEntry(id="bad"), good], tmp_path, open_some)
    assert next(found).name == "good"
    with pytest.raises(ZeroDivisionError, match="a bug"):
        next(found)


def test_names_sort_by_time_and_never_hide_from_a_reader_of_the_folder(tmp_path: Path) -> None:
    ids = ["_hidden", ".hidden", "-x", "a/b", "a_b", "ä", "AbC_-9", "x" * 250, "x" * 251]
    names = [name_of(one, NIGHT) for one in ids]
    assert len({name.lower() for name in names}) == len(names)
    assert all(name.startswith("20261121T060000.000000Z-") for name in names)
    assert all(name.endswith(".jsonl") and "/" not in name for name in names)
    for name in names:
        write_lines(tmp_path / name, [b"{}"])
        assert (tmp_path / name).read_bytes() == b"{}\n"


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


# --- A probe --------------------------------------------------------------------------------------

SAMPLES = LABORATORY
KRAFT_SAMPLES = sorted(path.name for path in SAMPLES.glob("k*"))
# Before 4.0 nobody lists brokers that are registered and fenced.
AT_39 = Cluster(
    release="3.9.2",
    nodes=(
        controller(1, supported=OLD, release="3.9.2"),
        broker(3, supported=OLD, release="3.9.2"),
    ),
    active=1,
    finalized={"metadata.version": (19, 19)},
)
GHOST = broker(7, supported={"metadata.version": (1, 19)}, release="3.7.2", running=False)
HAUNTED = replace(AT_39, nodes=(*AT_39.nodes, replace(GHOST, fenced=True)))


def asking(backend: Backend, entry: FleetEntry, lines: Any, say: Say) -> ProbeResult:
    return probe(backend, entry, lines, say, CATALOGUE)


def probed(folder: Path, entry: FleetEntry) -> Collected:
    """Collected with a probe, by a backend of whose cluster nobody names broker 7."""

    def hide(one: FleetEntry) -> Backend:
        return Wrapped(open_one(one), unlisted=7)

    [result] = collect([entry], folder / "out", hide, probing=asking)
    assert (result.error, result.quarantined) == (None, ())
    return result


def verdict(lines: list[bytes], feature: str = "metadata.version") -> str:
    rows = judged(lines).judged.readiness.to_pylist()
    return str(next(row["verdict"] for row in rows if row["feature"] == feature))


def codes(lines: list[bytes]) -> set[str]:
    return set(judged(lines).judged.findings["code"].to_pylist())


def asked(sample: str, backend: Fake) -> tuple[ProbeResult, list[bytes]]:
    """A sample's lines, and what a probe of a cluster that looks like them becomes."""
    lines = (SAMPLES / sample / "landing.jsonl").read_bytes().splitlines()
    said = asking(backend, FleetEntry(id=json.loads(lines[0])["cluster_id"]), lines, quiet)
    return said, lines


OK = Reply(code=0, message=None, results=None)
WITH_UPGRADE = "k41-forgotten"


def test_a_controller_that_agrees_is_the_last_line_and_nothing_is_written(tmp_path: Path) -> None:
    entry = embedded(tmp_path, "one")
    result = probed(tmp_path, entry)
    lines = raw_lines(result)
    last = read(lines[-1])
    assert isinstance(last, Landing)
    [said] = contents(lines, ProbeReply)
    assert said is not None
    assert last.content == said
    assert {(one.feature, one.from_level, one.to_level, one.code) for one in said.answers} == {
        ("metadata.version", 25, 29, 0), ("group.version", 0, 1, 0),
    }  # fmt: skip
    assert (result.probe or "").startswith("probe: the controller agreed, validating only: ")
    kept = Simulated(entry.file, TABLES)
    assert kept.cluster.finalized == KRAFT.finalized
    kept.close()
    assert "probe_agreed" in codes(lines)
    assert verdict(lines) == "READY"


def test_registrations_that_nobody_can_list_are_proven_or_found_in_the_way(tmp_path: Path) -> None:
    for name, cluster, before, after, code in (
        ("good", AT_39, "UNKNOWN", "READY", "probe_agreed"),
        ("haunted", HAUNTED, "UNKNOWN", "BLOCKED", "probe_refused"),
    ):
        entry = embedded(tmp_path, name, cluster)
        lines = raw_lines(probed(tmp_path, entry))
        assert verdict(lines[:-1]) == before
        assert "registrations_unproven" in codes(lines[:-1])
        assert verdict(lines) == after
        assert code in codes(lines)
    assert len(contents(lines, ProbeReply)) == 1
    assert "Broker 7" in contents(lines, ProbeReply)[0].answers[0].message


@pytest.mark.parametrize(("configured", "said"), [(None, "READY"), ((1, 9), "BLOCKED")])
def test_whom_the_controller_is_configured_to_ask_is_proven_or_found_in_the_way(
    tmp_path: Path, configured: tuple[int, ...] | None, said: str
) -> None:
    ranges = {"metadata.version": (7, 33), "kraft.version": (0, 1), "share.version": (0, 2)}
    nodes = (
        controller(1, supported=ranges, release="4.4.0"),
        broker(3, supported=ranges, release="4.4.0"),
    )
    levels = {"metadata.version": (33, 33), "kraft.version": (1, 1), "share.version": (1, 1)}
    cluster = Cluster(
        release="4.4.0",
        nodes=nodes,
        active=1,
        finalized=levels,
        raft_level=1,
        configured_voters=configured,
    )
    with closing(open_backend(embedded(tmp_path, "dynamic", cluster), CATALOGUE)) as backend:
        lines = [x for x in backend.describe(quiet) if b'"describe_configs"' not in x]
        assert verdict(lines, "share.version") == "UNKNOWN"
        line, text = asking(backend, FleetEntry(id="dynamic"), lines, quiet)
    assert line is not None, text
    assert verdict([*lines, line], "share.version") == said, text


def test_a_backend_that_cannot_validate_is_not_asked() -> None:
    backend = Fake(OK, can=False)
    (line, text), _ = asked(WITH_UPGRADE, backend)
    assert (line, backend.sent) == (None, [])
    assert "would apply a request to validate" in text


@pytest.mark.parametrize("sample", KRAFT_SAMPLES)
def test_whatever_is_sent_only_validates_upgrades_and_never_kraft_version(sample: str) -> None:
    """4.1 and later move kraft.version while they validate."""
    backend = Fake(OK)
    (line, _text), _ = asked(sample, backend)
    assert (line is None) == (backend.sent == [])
    for step, validate_only in backend.sent:
        assert validate_only
        assert step.timeout_ms > 0
        for update in step.updates:
            assert update.feature != "kraft.version"
            assert update.to_level > update.from_level
            assert update.upgrade_type == "UPGRADE"


@pytest.mark.parametrize("error", [UnreachableError("gone"), OutcomeUnknownError("cut off")])
def test_a_controller_that_does_not_answer_is_written_down_and_claims_nothing(
    error: Exception,
) -> None:
    (line, _text), lines = asked(WITH_UPGRADE, Fake(error))
    assert line is not None
    [one] = contents([line], ProbeReply)
    assert one.code is None
    assert str(error) in json.loads(line)["error"]
    assert "probe_agreed" not in codes([*lines, line])


def test_a_missing_right_is_a_finding_and_no_failure() -> None:
    refused = Reply(code=31, message="Cluster authorization failed.", results=None)
    (line, text), lines = asked(WITH_UPGRADE, Fake(refused))
    assert line is not None
    assert "the permission ALTER on the cluster is missing" in text
    assert "right_withheld" in codes([*lines, line])
    assert verdict([*lines, line]) == verdict(lines) == "READY"


def test_a_refusal_of_one_feature_is_told_in_the_controller_s_words() -> None:
    name = "metadata.version"
    refused = Reply(code=0, message=None, results=(Result(feature=name, code=95, message="no"),))
    (line, text), lines = asked(WITH_UPGRADE, Fake(refused))
    assert line is not None
    assert text.startswith("probe: the controller refused (no), validating only: ")
    assert verdict([*lines, line]) == "BLOCKED"


def test_a_look_that_cannot_be_judged_is_a_sentence(tmp_path: Path) -> None:
    line, text = asking(Fake(OK), FleetEntry(id="c"), [b'{"kind":"x","cluster_id":"c"}'], quiet)
    assert line is None
    assert text.startswith("probe: nothing was sent: ")
