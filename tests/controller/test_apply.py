"""An approved plan carried out on embedded clusters: what is sent, when not, and what is said."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from featurelib.backends.base import Say
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as FleetEntry
from featurelib.controller.journal import Clearance, Dispatch, Journal, Lock, Way
from featurelib.controller.send import resume
from featurelib.core.cluster import Node, Request, Update
from featurelib.core.outcome import Ending, EndingKind, Fate
from featurelib.core.reply import Reply, Result
from featurelib.errors import (
    ApprovalError,
    OutcomeUnknownError,
    RefusedError,
    StalePlanError,
    UnreachableError,
)
from featurelib.feature import Role, UpgradeType
from featurelib.model import Guards, Recipient, Step
from featurelib.view.outcome import sentence, update_line
from tests.controller.clusters import (
    CATALOGUE,
    OLD,
    WAITS,
    Bench,
    approved,
    bench,
    kraft,
    replace,
    zookeeper,
)

UP, DOWN = "UPGRADE", "SAFE_DOWNGRADE"


def other_writer(cluster: Bench, feature: str, level: int, kind: int = UpgradeType.UPGRADE) -> None:
    """Somebody else sends a request of his own."""
    update = Update(feature=feature, level=level, kind=kind, allow_downgrade=True)
    request = Request(updates=(update,), version=1)
    reply = cluster.cluster.update_features(request).answered.reply
    assert reply.code == 0, reply
    assert not [r for r in reply.results or () if r.code], reply


def fates(ending: Ending) -> list[str]:
    return [o.fate.value for step in ending.steps for o in step.updates]


def says(ending: Ending) -> str:
    return sentence(ending, CATALOGUE, way=Way(reach="--file x"))


# --- Applied --------------------------------------------------------------------------------------


def test_a_plan_for_kraft_is_validated_applied_and_reported_by_every_node(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    wrapped, plan = it.wrapped(), it.plan()
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.APPLIED
    assert it.levels()["metadata.version"] == 29
    assert [validate_only for _, validate_only in wrapped.sent] == [True, False]
    assert wrapped.written == [plan.steps[0]]
    assert says(ending).startswith("Applied: cluster c-1: group.version is at 1, ")
    assert "metadata.version is at 29 (4.2-IV1), share.version is at 1, " in says(ending)
    assert says(ending).endswith("transaction.version is at 2; 5 of 5 nodes report it.")
    assert it.fates() == ["applied"]
    assert any("5 of 5 nodes report" in text for text in it.said)


def test_a_plan_for_zookeeper_mode_is_sent_step_by_step_and_never_to_validate(
    tmp_path: Path,
) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    wrapped, plan = it.wrapped(), it.plan()
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.APPLIED
    assert wrapped.sent == [(step, False) for step in plan.steps]
    assert (it.levels(), it.cluster.epoch) == ({"f": 5, "g": 5}, 102)
    assert it.fates() == ["applied", "applied"]


def test_a_plan_that_was_applied_has_nothing_to_do(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan()
    it.apply(plan)
    wrapped = it.wrapped()
    for journal in ("the same", "another"):
        if journal == "another":
            it.journal_path.unlink()
        ending = it.apply(plan, wrapped)
        assert ending.kind is EndingKind.NOTHING_TO_DO
        begin = "Nothing to do: cluster c-1 has every level of the plan already"
        by = "; nothing was sent."
        if journal == "the same":
            by = ", written by this plan (journal entry 1, sent by "
        assert says(ending).startswith(begin + by)
    assert wrapped.sent == []


# --- Refused before anything is sent --------------------------------------------------------------


def test_what_somebody_else_finalizes_is_left_to_him_with_his_command_filled_in(
    tmp_path: Path,
) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan(up={"metadata.version": "26", "group.version": "1"})
    wrapped = it.wrapped()
    it.fleet = Fleet(cluster=(FleetEntry(id="c-1", name="pay", managed_by="strimzi"),))
    with pytest.raises(RefusedError) as told:
        it.apply(plan, wrapped)
    assert str(told.value) == (
        "cluster pay (c-1): expected features that we finalize, found metadata.version, managed by "
        "strimzi (managed_by in the inventory). Nothing was sent. Use its command: kubectl patch "
        "kafka pay --type merge --patch "
        '\'{"spec":{"kafka":{"metadataVersion":"4.1-IV0"}}}\'\n'
        "The rest is ours: featurelib plan pay update --upgrade group.version:1"
    )
    it.fleet = Fleet(cluster=(FleetEntry(id="c-1", managed_by="the-robot", owner="ann"),))
    with pytest.raises(RefusedError, match=r"Change levels through the-robot; ask ann\.$"):
        it.apply(plan, wrapped)
    assert (wrapped.looks, wrapped.sent) == (0, [])


def test_a_plan_says_itself_who_finalizes_what_wherever_it_is_applied(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    guards = Guards(
        require_signature=False, managed_by="strimzi", managed_features=("metadata.version",)
    )
    wrapped = it.wrapped()
    with pytest.raises(
        RefusedError, match=r"found metadata\.version, managed by strimzi \(managed_by in the plan"
    ):
        it.apply(replace(it.plan(up={"metadata.version": "26"}), guards=guards), wrapped)
    assert (wrapped.looks, wrapped.sent) == (0, [])
    it.fleet = Fleet(
        cluster=(FleetEntry(id="c-1", managed_by="me", managed_features=("group.version",)),)
    )
    with pytest.raises(RefusedError, match=r"group\.version, managed by me \(managed_by in the i"):
        it.apply(replace(it.plan(up={"group.version": "1"}), guards=guards), wrapped)
    ours = replace(it.plan(up={"transaction.version": "2"}), guards=guards)
    assert it.apply(ours).kind is EndingKind.APPLIED


def test_a_plan_without_an_approval_is_not_even_looked_at(tmp_path: Path) -> None:
    def refuse(at: datetime) -> Clearance:
        raise ApprovalError("expired")

    it = bench(tmp_path, kraft(25))
    wrapped = it.wrapped()
    with pytest.raises(ApprovalError):
        it.apply(it.plan(), wrapped, check_approval=refuse)
    assert (wrapped.looks, wrapped.sent) == (0, [])


def test_an_approval_that_expires_between_two_steps_stops_the_plan(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")

    def expires(at: datetime) -> Clearance:
        if it.levels()["f"] == 5:
            raise ApprovalError("the approval expired")
        return approved(at)

    wrapped = it.wrapped()
    ending = it.apply(it.plan(), wrapped, check_approval=expires)
    assert ending.kind is EndingKind.STOPPED
    assert (ending.applied, len(wrapped.written)) == (1, 1)
    assert says(ending) == (
        "Stopped after 1 of 2 steps: cluster c-1: f is at 5; the approval expired."
    )


def test_a_request_is_announced_once_it_is_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = bench(tmp_path, kraft(25))
    real, told = Journal.intend, []

    def intend(self: Journal, lock: Lock, intent: Dispatch) -> int:
        told.append(any("sending step" in text for text in it.said))
        number = real(self, lock, intent)
        told.append(any("sending step" in text for text in it.said))
        return number

    def update(step: Step) -> None:
        told.append(any("sending step 1 of 1: " in text for text in it.said))

    monkeypatch.setattr(Journal, "intend", intend)
    it.apply(it.plan(), it.wrapped(before_update=update))
    assert told == [False, False, True]


def test_a_plan_of_another_catalogue_is_refused_naming_the_option(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = replace(it.plan(), catalogue="2020-01-01 + overlay x")
    with pytest.raises(StalePlanError) as error:
        it.apply(plan)
    assert f"expected 2020-01-01 + overlay x, found {CATALOGUE.label}" in str(error.value)
    assert "--overlay FILE" in str(error.value)


def test_in_zookeeper_mode_a_change_that_was_undone_is_noticed_too(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    plan, wrapped = it.plan(), it.wrapped()
    other_writer(it, "f", 2)
    other_writer(it, "f", 1, UpgradeType.SAFE_DOWNGRADE)
    says = "version of the features node: expected 100, found 102"
    with pytest.raises(StalePlanError, match=says):
        it.apply(plan, wrapped)
    assert wrapped.sent == []


def test_a_broker_with_a_narrower_range_that_joins_in_between_is_noticed(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(21, release="4.0.1"))
    plan, wrapped = it.plan(), it.wrapped()
    it.cluster.register(Node(node_id=14, role=Role.BROKER, supported=OLD, release="3.9.2"))
    with pytest.raises(StalePlanError, match="broker 14: expected no such node, found") as error:
        it.apply(plan, wrapped)
    assert "metadata.version 1-21" in str(error.value)
    assert wrapped.sent == []


def test_a_controller_that_moves_between_look_and_update_is_not_asked_twice(
    tmp_path: Path,
) -> None:
    """NOT_CONTROLLER may come after the request was taken up: only the look settles it."""
    it = bench(tmp_path, kraft(25))

    def moved(reply: Reply) -> Reply:
        return Reply(code=41, message="This server is not the controller.", results=())

    wrapped = it.wrapped(after_update=moved)
    ending = it.apply(it.plan(), wrapped)
    assert ending.kind is EndingKind.APPLIED  # it was taken up
    assert len(wrapped.written) == 1
    assert "although the controller" in update_line(
        ending.steps[0].updates[0].update, ending.steps[0].updates[0]
    )


def test_an_interrupt_while_the_outcome_is_written_down_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    it = bench(tmp_path, kraft(25))
    plan = it.plan()
    monkeypatch.setattr(Journal, "settle", interrupt)
    with pytest.raises(OutcomeUnknownError, match="it may have been applied"):
        it.apply(plan)


def test_what_a_controller_that_is_gone_did_not_take_up_is_rejected(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan()
    inner = it.backend
    wrapped = it.wrapped()
    wrapped.inner = Refusing(inner, Reply(code=41, message="not the controller", results=()))
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.REJECTED
    assert set(fates(ending)) == {"rejected"}
    assert it.levels() == {"metadata.version": 25}


def test_without_anybody_to_send_to_nothing_is_written_down_either(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan, wrapped = it.plan(), it.wrapped()

    def nobody() -> Recipient:
        raise UnreachableError("expected the active controller, found none. Nothing was sent.")

    wrapped.recipient = nobody  # type: ignore[method-assign]
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.REJECTED
    assert set(fates(ending)) == {"not applied"}
    said = sentence(ending, CATALOGUE, way=Way(reach="c-1"), again="featurelib apply p.json")
    assert said.endswith("Nothing was sent). Go on with the same plan: featurelib apply p.json")
    assert (wrapped.written, it.fates()) == ([], [])


def test_what_was_accepted_and_cannot_be_seen_is_not_said_to_be_pending(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))

    def unseen(look: int) -> None:
        if look > 1:
            raise UnreachableError("nobody answers.")

    ending = it.apply(it.plan(), it.wrapped(before_describe=unseen))
    assert ending.kind is EndingKind.UNKNOWN
    assert "no node could be seen to report it: the cluster cannot be looked at" in says(ending)
    assert "may still be carried out" not in says(ending)


def test_what_was_accepted_and_is_gone_again_somebody_took_back(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    plan = it.plan(up={"f": "2"})

    def taken_back(reply: Reply) -> Reply:
        other_writer(it, "f", 1, UpgradeType.SAFE_DOWNGRADE)
        return reply

    ending = it.apply(plan, it.wrapped(after_update=taken_back))
    assert fates(ending) == ["overtaken"]


def test_a_plan_that_would_be_refused_now_is_not_sent(tmp_path: Path) -> None:
    """Its requirements hold, but nobody would have planned it: policy and controller speak."""
    it = bench(tmp_path, kraft(25))
    wrapped = it.wrapped()
    plan = it.by_hand([("metadata.version", 25, 30, UP)])
    with pytest.raises(RefusedError) as error:
        it.apply(plan, wrapped)
    text = str(error.value)
    assert (
        "judged again: expected nothing against the plan, found strict: metadata.version 30" in text
    )
    assert "kraft-4.2: metadata.version 30" in text
    assert wrapped.sent == []


def test_a_cluster_that_does_not_answer_is_an_error_and_nothing_is_sent(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan()
    for node in (1, 2, 11, 12, 13):
        it.cluster.stop(node)
    with pytest.raises(UnreachableError):
        it.apply(plan)
    assert it.fates() == []


# --- The controller refuses -----------------------------------------------------------------------


class Refusing:
    """A backend that validates as the real one, and then answers something else instead."""

    def __init__(self, inner: object, reply: Reply) -> None:
        self._inner, self._reply = inner, reply

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        if validate_only:
            return self._inner.update(step, validate_only=True)  # type: ignore[attr-defined]
        return self._reply


def test_what_the_controller_refuses_to_validate_is_never_sent(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    wrapped, plan = it.wrapped(), it.plan()

    class Validating(Refusing):
        def update(self, step: Step, *, validate_only: bool = False) -> Reply:
            return self._reply

    wrapped.inner = Validating(it.backend, Reply(code=95, message="not this level", results=()))
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.REJECTED
    assert wrapped.written == []
    assert it.fates() == []
    assert "nothing was written" in says(ending)
    assert "error 95, not this level" in says(ending)


def test_a_request_to_validate_without_an_answer_wrote_nothing(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    wrapped, plan = it.wrapped(), it.plan()

    class Silent(Refusing):
        def update(self, step: Step, *, validate_only: bool = False) -> Reply:
            raise OutcomeUnknownError("the reply was cut off.")

    wrapped.inner = Silent(it.backend, Reply(code=0, message=None, results=None))
    with pytest.raises(UnreachableError, match="Nothing was written"):
        it.apply(plan, wrapped)
    assert it.fates() == []


def test_a_refused_request_is_rejected_in_the_controller_s_words(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    wrapped, plan = it.wrapped(), it.plan()
    wrapped.inner = Refusing(it.backend, Reply(code=31, message="no rights", results=()))
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.REJECTED
    assert it.fates() == ["rejected"]
    update = ending.steps[0].updates[0]
    assert update_line(update.update, update).endswith("Result: FAILED due to error 31, no rights")


def test_a_partial_answer_is_never_called_applied(tmp_path: Path) -> None:
    """Up to 3.9 a controller writes the good part of a request whose other part it refuses."""
    it = bench(tmp_path, kraft(25))
    plan, inner = it.plan(), it.backend
    first, *others = plan.steps[0].updates

    class Partly(Refusing):
        def update(self, step: Step, *, validate_only: bool = False) -> Reply:
            if validate_only:
                return inner.update(step, validate_only=True)
            inner.update(replace(step, updates=(first,)))
            return self._reply

    results = [Result(feature=first.feature, code=0, message=None)]
    results += [Result(feature=u.feature, code=42, message="not this") for u in others]
    wrapped = it.wrapped()
    wrapped.inner = Partly(inner, Reply(code=0, message=None, results=tuple(results)))
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.STOPPED
    assert (ending.applied, ending.kind.exit_code) == (0, 1)
    assert fates(ending) == ["applied", *["rejected"] * len(others)]
    assert says(ending).startswith("Stopped after 0 of 1 step: cluster c-1: ")
    refused = sorted(u.feature for u in others)
    assert f"{', '.join(refused)} were refused (error 42, not this)" in says(ending)
    assert says(ending).count("not this") == 1, "what is true of all of them is said once"
    assert it.fates() == ["partly applied"]


def test_a_refusal_of_4_1_that_carried_kraft_version_is_read_back(tmp_path: Path) -> None:
    """The request is refused as a whole, and kraft.version has moved (KAFKA-16538)."""
    it = bench(tmp_path, kraft(27, release="4.1.2"))
    plan = it.plan(up={"kraft.version": "1"})
    assert [u.feature for step in plan.steps for u in step.updates] == ["kraft.version"]
    wrapped = it.wrapped(
        after_update=lambda reply: Reply(code=95, message="The update failed.", results=())
    )
    ending = it.apply(plan, wrapped)
    assert it.levels()["kraft.version"] == 1
    assert ending.kind is EndingKind.APPLIED
    assert says(ending).startswith("Applied: cluster c-1: kraft.version is at 1; 5 of 5")
    update = ending.steps[0].updates[0]
    assert update_line(update.update, update).endswith(
        "Result: OK, although the controller answered error 95, The update failed."
    )


# --- Code 96 in ZooKeeper mode --------------------------------------------------------------------

FAILED = Reply(code=0, message=None, results=(Result(feature="f", code=96, message="too late"),))


def test_after_code_96_the_node_is_read_before_anything_is_said(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    plan = it.plan(up={"f": "2"})
    ending = it.apply(plan, it.wrapped(after_update=lambda reply: FAILED))
    assert ending.kind is EndingKind.APPLIED  # it was written all the same
    assert it.levels()["f"] == 2


def test_after_code_96_what_is_not_there_is_rejected_by_proof_alone(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    wrapped, plan = it.wrapped(unproven="broker 1 is silent"), it.plan(up={"f": "2"})
    wrapped.inner = Refusing(it.backend, FAILED)
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.UNKNOWN
    assert "whether f was written is not known (error 96, too late)" in says(ending)
    assert "it may still be carried out: broker 1 is silent. Run: featurelib resume" in says(ending)
    [entry] = Journal(it.journal_path).entries()
    assert (entry.is_open, entry.outcomes[0].result.unproven) == (True, "broker 1 is silent")
    journal = Journal(it.journal_path)
    [settled] = resume(it.watcher(wrapped.inner), journal, "c-1", waits=WAITS)  # type: ignore[arg-type]
    assert settled.fate is Fate.REJECTED
    assert settled.outcomes[-1].result.updates[0].code == 96, "what was answered is not forgotten"
    assert settled.outcomes[-1].result.proof
    journal.close()
    assert len(wrapped.written) == 1


# --- A reply that never came ----------------------------------------------------------------------


def cut(reply: Reply) -> Reply:
    raise OutcomeUnknownError("the connection was cut after the request was sent.")


def cut_before(step: Step) -> None:
    raise OutcomeUnknownError("the connection was cut after the request was sent.")


@pytest.mark.parametrize(("mode", "made"), [("kraft", kraft(25)), ("zk", zookeeper())])
def test_a_lost_reply_to_a_request_that_was_applied_is_settled_by_looking(
    tmp_path: Path, mode: str, made: object
) -> None:
    it = bench(tmp_path, made, mode)  # type: ignore[arg-type]
    wrapped, plan = it.wrapped(after_update=cut), it.plan()
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.APPLIED
    assert wrapped.written == list(plan.steps), "each was sent once"


def test_a_lost_reply_to_a_request_that_was_not_applied_is_not_sent_again(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    wrapped, plan = it.wrapped(before_update=cut_before), it.plan()
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.REJECTED
    assert set(fates(ending)) == {"not applied"}
    assert len(wrapped.written) == 1
    assert says(ending) == (
        "Rejected: cluster c-1: nothing was written: "
        f"{', '.join(it.features(plan))} were not applied (the connection was cut after "
        "the request was sent); the file holds every request that was carried out."
    )
    assert it.fates() == ["not applied"]
    assert it.apply(plan).kind is EndingKind.APPLIED  # the person sends it again


def test_a_lost_reply_and_a_cluster_that_cannot_be_seen_is_unknown(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))

    def unseen(look: int) -> None:
        if look > 1:
            raise UnreachableError("nobody answers.")

    wrapped = it.wrapped(after_update=cut, before_describe=unseen)
    plan = it.plan()
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.UNKNOWN
    assert says(ending).startswith("Unknown: cluster c-1: 0 of 1 step known to be applied; whether")
    assert says(ending).endswith("Run: featurelib resume --file x")
    with pytest.raises(OutcomeUnknownError, match=r"journal entry 1 unknown.*resume"):
        it.apply(plan, wrapped)
    assert len(wrapped.written) == 1


def test_a_lost_reply_of_the_second_step_never_makes_the_plan_applied(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")

    def second(step: Step) -> None:
        if step.updates[0].feature == "g":
            cut_before(step)

    wrapped = it.wrapped(before_update=second)
    ending = it.apply(it.plan(), wrapped)
    assert ending.kind is EndingKind.STOPPED
    assert fates(ending) == ["applied", "not applied"]
    assert says(ending).startswith("Stopped after 1 of 2 steps: cluster c-1: f is at 5, g is at 1;")


def test_a_plan_that_stopped_goes_on_where_it_stopped_when_it_is_applied_again(
    tmp_path: Path,
) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    plan, lost = it.plan(), [cut_before]

    def second(step: Step) -> None:
        if step.updates[0].feature == "g" and lost:
            lost.pop()(step)

    wrapped = it.wrapped(before_update=second)
    assert it.apply(plan, wrapped).kind is EndingKind.STOPPED
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.APPLIED
    assert (ending.before, it.levels(), it.cluster.epoch) == (1, {"f": 5, "g": 5}, 102)


def test_an_approval_that_was_used_is_not_good_for_a_second_time(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan, wrapped = it.plan(up={"metadata.version": "26"}), it.wrapped()
    it.apply(plan)
    other_writer(it, "metadata.version", 25, UpgradeType.SAFE_DOWNGRADE)
    with pytest.raises(StalePlanError, match=r"With this approval 1 of 1 steps were applied"):
        it.apply(plan, wrapped)
    assert wrapped.sent == []
    again = it.apply(plan, wrapped, check_approval=lambda at: Clearance(approval="another"))
    assert again.kind is EndingKind.APPLIED


# --- Other writers and nodes while it runs --------------------------------------------------------


def test_another_writer_between_look_and_update_is_seen_in_what_is_true(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    plan = it.plan(up={"f": "2"})
    wrapped = it.wrapped(before_update=lambda step: other_writer(it, "f", 4))
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.STOPPED
    assert fates(ending) == ["overtaken"]
    assert "f is at 4; somebody else wrote f" in says(ending)


def test_another_writer_between_two_steps_stops_the_plan(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    plan, wrapped = it.plan(), it.wrapped()

    def third(look: int) -> None:
        if look == 2:  # the look after the first step
            it.cluster.fence(3)

    wrapped.before_describe = third
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.STOPPED
    assert len(wrapped.written) == 1
    assert "broker 3 (it answers no longer)" in says(ending)


def test_nodes_that_do_not_report_the_level_are_named_after_the_wait(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan(up={"metadata.version": "26"})

    class Lagging:
        def __init__(self) -> None:
            self._inner = it.backend

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        def update(self, step: Step, *, validate_only: bool = False) -> Reply:
            reply = self._inner.update(step, validate_only=validate_only)
            if not validate_only:
                it.cluster._file.hold([12, 13], it.cluster._newest()[0] - 1)
            return reply

    wrapped = it.wrapped()
    wrapped.inner = Lagging()
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.STOPPED
    assert ending.kind.exit_code == 1
    assert fates(ending) == ["applied"]
    assert says(ending) == (
        "Stopped after 1 of 1 step: cluster c-1: metadata.version is at 26 (4.1-IV0); "
        "3 of 5 nodes report it, not broker 12 (metadata.version 25), "
        "broker 13 (metadata.version 25)."
    )
    assert any(text == "3 of 5 nodes report metadata.version 26" for text in it.said)


def test_the_next_step_waits_until_every_node_reports_the_one_before(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan(up={"metadata.version": "27"}, stepwise=True)
    assert len(plan.steps) == 2
    wrapped = it.wrapped()
    real = wrapped.inner.describe
    looks: list[int] = []

    def hold(reply: Reply) -> Reply:
        it.cluster._file.hold([12], it.cluster._newest()[0] - 1)
        return reply

    def describe(say: Say) -> tuple[bytes, ...]:
        looks.append(len(wrapped.written))
        if looks.count(len(wrapped.written)) == 3:
            it.cluster.settle()
        return real(say)

    wrapped.after_update = hold
    wrapped.inner.describe = describe  # type: ignore[method-assign]
    ending = it.apply(plan, wrapped, waits=replace(WAITS, nodes=60.0))
    assert ending.kind is EndingKind.APPLIED
    assert looks == [0, 1, 1, 1, 2, 2, 2], "it looked again and again before it went on"

    again = it.by_hand([("metadata.version", 27, 28, UP)], [("metadata.version", 28, 29, UP)])
    stuck = it.wrapped(after_update=hold)
    ending = it.apply(again, stuck)
    assert ending.kind is EndingKind.STOPPED
    assert (ending.applied, len(stuck.written)) == (1, 1)
    assert "4 of 5 nodes report it, not broker 12 (metadata.version 27)" in says(ending)


def test_an_interrupt_between_two_requests_says_what_was_done(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    asked: list[datetime] = []

    def interrupted(at: datetime) -> Clearance:
        asked.append(at)
        if it.levels()["f"] == 5:
            raise KeyboardInterrupt
        return approved(at)

    ending = it.apply(it.plan(), check_approval=interrupted)
    assert ending.kind is EndingKind.STOPPED
    assert "interrupted" in says(ending)
    assert Fate.UNKNOWN.value not in it.fates()
