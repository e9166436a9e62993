"""The validate-only probe of a collector: what it asks, when nothing, and what is proven."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib.audit.cluster_view import Sight, see
from featurelib.backends.base import Abilities, Backend, Say, open_backend
from featurelib.catalogue import load
from featurelib.collect import Collected, ProbeResult, collect, probe, read_lines
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.cluster import Cluster
from featurelib.core.reply import Reply, Result
from featurelib.errors import OutcomeUnknownError, UnreachableError
from featurelib.landing import Landing, ProbeReply, read
from featurelib.model import Step
from tests.backends.clusters import KRAFT, TABLES, broker, controller
from tests.backends.simulator import Simulated
from tests.test_collect import embedded, quiet

CATALOGUE = load()
SAMPLES = Path(__file__).parents[1] / "data" / "samples"
KRAFT_SAMPLES = sorted(path.name for path in SAMPLES.glob("k*"))
OLD = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
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


def asking(backend: Backend, entry: Entry, lines: Any, say: Say) -> ProbeResult:
    return probe(backend, entry, lines, say, CATALOGUE)


class Unaware:
    """An embedded cluster of which nobody names broker 7, as in KRaft before 4.0."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner

    def describe(self, say: Say) -> tuple[bytes, ...]:
        return tuple(x for x in self.inner.describe(say) if json.loads(x).get("node_id") != 7)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def collected(folder: Path, entry: Entry, *, probing: bool = True) -> Collected:
    def open_one(one: Entry) -> Backend:
        return Unaware(open_backend(one, CATALOGUE))  # type: ignore[return-value]

    ways = {"parallel": 1, "say": quiet, "probing": asking if probing else None}
    [result] = collect([entry], folder / "out", open_one, **ways)  # type: ignore[arg-type]
    assert (result.error, result.quarantined) == (None, ())
    return result


def lines_in(result: Collected) -> list[bytes]:
    assert result.file is not None
    return [line.removesuffix(b"\n") for line in read_lines(result.file)]


def probes(lines: list[bytes]) -> list[ProbeReply]:
    said = [line.content for line in map(read, lines) if isinstance(line, Landing)]
    return [one for one in said if isinstance(one, ProbeReply)]


def judged(lines: list[bytes]) -> Sight:
    return see(lines, catalogue=CATALOGUE, as_of=None, max_age=10**12)


def verdict(lines: list[bytes], feature: str = "metadata.version") -> str:
    rows = judged(lines).judged.readiness.to_pylist()
    return str(next(row["verdict"] for row in rows if row["feature"] == feature))


def codes(lines: list[bytes]) -> set[str]:
    return set(judged(lines).judged.findings["code"].to_pylist())


class Scripted:
    """A backend that answers a request to validate as it is told, and counts what it is sent."""

    where = "scripted:9092"

    def __init__(self, answer: Reply | Exception, mode: str = "kraft", *, can: bool = True) -> None:
        self.answer, self.mode, self.can = answer, mode, can
        self.sent: list[tuple[Step, bool]] = []

    def describe(self, say: Say) -> tuple[bytes, ...]:
        raise AssertionError("it was looked at before")

    def abilities(self) -> Abilities:
        return Abilities(mode=self.mode, validate_only=self.can)

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        self.sent.append((step, validate_only))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        pass


def asked(sample: str, backend: Scripted) -> tuple[ProbeResult, list[bytes]]:
    """A sample's lines, and what a probe of a cluster that looks like them becomes."""
    lines = (SAMPLES / sample / "landing.jsonl").read_bytes().splitlines()
    said = asking(backend, Entry(id=json.loads(lines[0])["cluster_id"]), lines, quiet)
    return said, lines


OK = Reply(code=0, message=None, results=None)
WITH_UPGRADE = "k41-forgotten"


def test_a_controller_that_agrees_is_the_last_line_and_nothing_is_written(tmp_path: Path) -> None:
    entry = embedded(tmp_path, "one")
    result = collected(tmp_path, entry)
    lines = lines_in(result)
    last = read(lines[-1])
    assert isinstance(last, Landing)
    [said] = probes(lines)
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
        lines = lines_in(collected(tmp_path, entry))
        assert verdict(lines[:-1]) == before
        assert "registrations_unproven" in codes(lines[:-1])
        assert verdict(lines) == after
        assert code in codes(lines)
    assert len(probes(lines)) == 1
    assert "Broker 7" in probes(lines)[0].answers[0].message


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
    backend = open_backend(embedded(tmp_path, "dynamic", cluster), CATALOGUE)
    lines = [x for x in backend.describe(quiet) if b'"describe_configs"' not in x]
    assert verdict(lines, "share.version") == "UNKNOWN"
    line, text = asking(backend, Entry(id="dynamic"), lines, quiet)
    assert line is not None, text
    assert verdict([*lines, line], "share.version") == said, text


def test_a_backend_that_cannot_validate_is_not_asked() -> None:
    backend = Scripted(OK, can=False)
    (line, text), _ = asked(WITH_UPGRADE, backend)
    assert (line, backend.sent) == (None, [])
    assert "would apply a request to validate" in text


@pytest.mark.parametrize("sample", KRAFT_SAMPLES)
def test_whatever_is_sent_only_validates_upgrades_and_never_kraft_version(sample: str) -> None:
    """4.1 and later move kraft.version while they validate."""
    backend = Scripted(OK)
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
    (line, _text), lines = asked(WITH_UPGRADE, Scripted(error))
    assert line is not None
    [one] = probes([line])
    assert one.code is None
    assert str(error) in json.loads(line)["error"]
    assert "probe_agreed" not in codes([*lines, line])


def test_a_missing_right_is_a_finding_and_no_failure() -> None:
    refused = Reply(code=31, message="Cluster authorization failed.", results=None)
    (line, text), lines = asked(WITH_UPGRADE, Scripted(refused))
    assert line is not None
    assert "the right to ALTER the cluster is missing" in text
    assert "right_withheld" in codes([*lines, line])
    assert verdict([*lines, line]) == verdict(lines) == "READY"


def test_a_refusal_of_one_feature_is_told_in_the_controller_s_words() -> None:
    name = "metadata.version"
    refused = Reply(code=0, message=None, results=(Result(feature=name, code=95, message="no"),))
    (line, text), lines = asked(WITH_UPGRADE, Scripted(refused))
    assert line is not None
    assert text.startswith("probe: the controller refused (no), validating only: ")
    assert verdict([*lines, line]) == "BLOCKED"


def test_a_look_that_cannot_be_judged_is_a_sentence(tmp_path: Path) -> None:
    line, text = asking(Scripted(OK), Entry(id="c"), [b'{"kind":"x","cluster_id":"c"}'], quiet)
    assert line is None
    assert text.startswith("probe: nothing was sent: expected landing lines, found none")
