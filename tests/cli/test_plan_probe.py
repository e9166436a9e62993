"""`featurelib plan --probe`: what nobody lists is asked of the controller, and of nobody else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from featurelib.backends import embedded
from featurelib.backends.base import Backend, Say
from featurelib.core.cluster import Cluster
from featurelib.core.reply import Reply
from featurelib.errors import OutcomeUnknownError
from featurelib.model import Step
from featurelib.planning import files
from tests.backends.clusters import KRAFT, TABLES, ZK, broker, controller
from tests.backends.simulator import Simulated
from tests.cli.commands import run
from tests.controller.clusters import OLD
from tests.test_collect import AT_39

GHOST = broker(7, supported={"metadata.version": (1, 20)}, release="3.8.1", running=False)
HAUNTED = replace(AT_39, nodes=(*AT_39.nodes, replace(GHOST, fenced=True)))
V44 = {"metadata.version": (7, 33), "kraft.version": (0, 1), "share.version": (0, 2)}
DYNAMIC = Cluster(
    release="4.4.0",
    nodes=(
        controller(1, supported=V44, release="4.4.0"),
        broker(3, supported=V44, release="4.4.0"),
    ),
    active=1,
    finalized={"metadata.version": (33, 33), "kraft.version": (1, 1), "share.version": (1, 1)},
    raft_level=1,
)
PROBED = ("--file", "c.db", "--probe", "--out", "p.json")


@dataclass
class Wire:
    """What is sent to the cluster in the file, of which nobody names broker 7."""

    sent: list[tuple[Step, bool]] = field(default_factory=list)
    answer: Reply | Exception | None = None
    hidden: str = '"node_id":7'  # lines with this text are not seen

    def opened(self, inner: Backend) -> Backend:
        wire = self

        class Unaware:
            def __getattr__(self, name: str) -> object:
                return getattr(inner, name)

            def describe(self, say: Say) -> tuple[bytes, ...]:
                return tuple(x for x in inner.describe(say) if wire.hidden not in x.decode())

            def update(self, step: Step, *, validate_only: bool = False) -> Reply:
                wire.sent.append((step, validate_only))
                if isinstance(wire.answer, Exception):
                    raise wire.answer
                return wire.answer or inner.update(step, validate_only=validate_only)

        return Unaware()  # type: ignore[return-value]


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wire:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found, usual = Wire(), embedded.open_embedded
    monkeypatch.setattr(embedded, "open_embedded", lambda *given: found.opened(usual(*given)))
    return found


def put(cluster: Cluster, mode: str = "kraft") -> None:
    kept = Simulated("c.db", TABLES, mode=mode, cluster_id="c-1")
    kept.put(cluster, 100)
    kept.close()


def levels() -> dict[str, int]:
    kept = Simulated("c.db", TABLES)
    try:
        return {name: level for name, (_, level) in kept.cluster.finalized.items()}
    finally:
        kept.close()


def test_the_controller_s_word_stands_for_what_nobody_lists_and_the_plan_says_so(
    wire: Wire,
) -> None:
    put(AT_39)
    code, out, _ = run("plan", "upgrade-all", "--file", "c.db")
    assert (code, "registrations_unproven" in out, wire.sent) == (3, True, [])
    code, out, err = run("plan", "upgrade-all", *PROBED)
    assert code == 0, out
    assert "asking the controller to validate only: metadata.version 19 to 21 (needs ALTER)" in err
    assert "and a probe: its controller would accept metadata.version 19 to" in " ".join(
        out.split()
    )
    assert "the plan rests on a probe" in " ".join(out.split())
    assert "The plan is in p.json. Nothing was written to the cluster." in out
    made = files.read_plan(Path("p.json").read_bytes(), "p.json")
    assert wire.sent == [(made.plan.steps[0], True)]
    assert made.for_people.made_from.endswith("would accept metadata.version 19 to 21")
    assert any("rests on a probe" in warning for warning in made.for_people.warnings)
    assert levels() == {"metadata.version": 19}


def test_a_plan_that_rests_on_a_probe_is_approved_and_applied_by_asking_again(wire: Wire) -> None:
    put(AT_39)
    assert run("plan", "upgrade-all", *PROBED)[0] == 0
    code, out, err = run("approve", "p.json", "--expires", "1h", "--yes")
    assert code == 0, (out, err)
    applied = ("apply", "p.json", "--approval", "p.approval.json", "--file", "c.db", "--yes")
    code, out, err = run(*applied)
    assert code == 0, (out, err)
    assert "Applied" in out
    assert [validate_only for _, validate_only in wire.sent] == [True, True, False]
    assert levels() == {"metadata.version": 21}


def test_whom_the_controller_is_configured_to_ask_is_its_word_where_that_may_not_be_read(
    wire: Wire,
) -> None:
    put(DYNAMIC)
    wire.hidden = '"describe_configs"'
    code, out, _ = run("plan", "upgrade-all", "--file", "c.db")
    assert (code, "configured_voters_unknown" in out, wire.sent) == (3, True, [])
    assert "collect or plan with --probe" in " ".join(out.split())
    code, out, err = run("plan", "upgrade-all", *PROBED)
    assert code == 0, (out, err)
    assert "asking the controller to validate only: share.version 1 to 2" in err
    assert run("approve", "p.json", "--expires", "1h", "--yes")[0] == 0
    applied = ("apply", "p.json", "--approval", "p.approval.json", "--file", "c.db", "--yes")
    code, out, err = run(*applied)
    assert code == 0, (out, err)
    assert [validate_only for _, validate_only in wire.sent] == [True, True, False]
    assert levels()["share.version"] == 2


def test_a_leftover_in_the_configuration_that_may_not_be_read_refuses_in_its_words(
    wire: Wire,
) -> None:
    put(replace(DYNAMIC, configured_voters=(1, 9)))
    wire.hidden = '"describe_configs"'
    code, out, _ = run("plan", "upgrade-all", *PROBED)
    assert (code, Path("p.json").exists()) == (3, False)
    assert "controller 9 has not registered" in " ".join(out.split())
    assert [validate_only for _, validate_only in wire.sent] == [True]


def test_a_ghost_that_comes_after_the_probe_is_found_by_apply(wire: Wire) -> None:
    put(AT_39)
    assert run("plan", "upgrade-all", *PROBED)[0] == 0
    put(HAUNTED)
    assert run("approve", "p.json", "--expires", "1h", "--yes")[0] == 0
    code, out, _ = run(
        "apply", "p.json", "--approval", "p.approval.json", "--file", "c.db", "--yes"
    )
    assert code == 3
    assert "nothing was written" in out
    assert "Broker 7 only supports versions 1-20" in out
    assert [validate_only for _, validate_only in wire.sent] == [True, True]
    assert levels() == {"metadata.version": 19}


def test_a_ghost_that_nobody_lists_is_the_reason_in_the_controller_s_words(wire: Wire) -> None:
    put(HAUNTED)
    code, out, _ = run("plan", "upgrade-all", *PROBED)
    assert code == 3
    text = " ".join(out.split())
    assert "probe_refused: The controller itself, asked to validate only, refused" in text
    assert "Broker 7 only supports versions 1-20" in text
    assert "registrations_unproven" not in text
    assert not Path("p.json").exists()
    assert [validate_only for _, validate_only in wire.sent] == [True]


def test_just_what_is_planned_is_asked_and_each_request_of_it(wire: Wire) -> None:
    """The ghost holds 21 and not 20: whoever asks for 20 alone is told yes."""
    put(HAUNTED)
    assert run("plan", "upgrade", "--metadata", "20", *PROBED)[0] == 0
    assert [(u.from_level, u.to_level) for s, _ in wire.sent for u in s.updates] == [(19, 20)]
    wire.sent.clear()
    Path("p.json").unlink()
    code, out, _ = run("plan", "upgrade", "--metadata", "21", "--stepwise", *PROBED)
    assert (code, Path("p.json").exists()) == (3, False)
    assert "Broker 7" in out
    moves = [(u.from_level, u.to_level) for s, _ in wire.sent for u in s.updates]
    assert moves == [(19, 20), (20, 21)]


def test_where_every_registration_is_seen_the_controller_is_not_asked(wire: Wire) -> None:
    put(KRAFT)
    code, out, err = run("plan", "upgrade-all", *PROBED)
    assert (code, wire.sent) == (0, [])
    assert "--probe: nothing was sent: every registration was seen" in err
    assert "Nothing was sent." in out
    assert "a probe" not in out


def test_where_more_is_in_the_way_the_controller_is_not_asked(wire: Wire) -> None:
    silent = broker(4, supported=OLD, release="3.9.2", running=False)
    put(replace(AT_39, nodes=(*AT_39.nodes, silent)))
    code, out, err = run("plan", "upgrade-all", *PROBED)
    assert (code, wire.sent) == (3, [])
    assert "are not all that is in the way" in err
    assert "registrations_unproven" in out
    assert "node_not_answering" in out


def test_zookeeper_mode_is_never_asked(wire: Wire) -> None:
    put(ZK, "zk")
    assert run("plan", "update", "--upgrade", "f:2", *PROBED)[0] == 0
    wire.hidden = "/brokers"  # nothing shows who is registered
    code, out, err = run("plan", "update", "--upgrade", "f:2", *PROBED)
    assert (code, "registrations_unproven" in out) == (3, True)
    assert "--probe: nothing was sent: this controller cannot be asked without writing" in err
    assert wire.sent == []


def test_a_missing_right_leaves_the_evidence_missing_and_names_the_right(wire: Wire) -> None:
    put(AT_39)
    wire.answer = Reply(code=31, message="ALTER on CLUSTER is missing.", results=None)
    code, out, _ = run("plan", "upgrade-all", *PROBED)
    assert code == 3
    assert "registrations_unproven" in out
    assert "right_withheld: The controller was not heard: ALTER on CLUSTER" in " ".join(out.split())
    assert not Path("p.json").exists()


def test_a_controller_that_does_not_answer_is_no_plan(wire: Wire) -> None:
    put(AT_39)
    wire.answer = OutcomeUnknownError("cut off.")
    code, _, err = run("plan", "upgrade-all", *PROBED)
    assert (code, Path("p.json").exists()) == (5, False)
    assert "the controller did not answer a request to validate" in err
