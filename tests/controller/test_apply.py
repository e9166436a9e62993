"""An approved plan carried out on embedded clusters: what is sent, when not, and what is said."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from featurelib.backends.base import Say
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as FleetEntry
from featurelib.controller.journal import (
    Clearance,
    ClusterArgs,
    Dispatch,
    Journal,
    Lock,
    Withdrawal,
    myself,
)
from featurelib.controller.send import resume
from featurelib.core.cluster import Request, Update
from featurelib.core.outcome import Ending, EndingKind, Fate
from featurelib.core.reply import Reply, Result
from featurelib.errors import (
    ApprovalError,
    OutcomeUnknownError,
    RefusedError,
    StalePlanError,
    UnreachableError,
)
from featurelib.feature import UpgradeType
from featurelib.model import Guards, Recipient, Step
from featurelib.view.outcome import sentence, update_line
from tests.controller.clusters import (
    CATALOGUE,
    WAITS,
    Bench,
    approved,
    bench,
    kraft,
    replace,
    zookeeper,
)

UP = "UPGRADE"
LOST = OutcomeUnknownError("the connection was cut after the request was sent.")


def made(folder: Path, mode: str = "kraft") -> Bench:
    """KRaft 4.2 at metadata.version 25, or ZooKeeper mode with f and g at 1."""
    return bench(folder, kraft(25) if mode == "kraft" else zookeeper(), mode)


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
    return sentence(ending, CATALOGUE, options=ClusterArgs(reach="--file x"))


def cut(reply: Reply) -> Reply:
    raise LOST


def cut_second(step: Step) -> None:
    if step.updates[0].feature == "g":
        raise LOST


def unseen(look: int) -> None:
    """Nobody answers from the second look on."""
    if look > 1:
        raise UnreachableError("nobody answers.")


def refused(code: int, words: str) -> Reply:
    return Reply(code=code, message=words, results=())


# --- Applied --------------------------------------------------------------------------------------


def test_a_plan_for_kraft_is_validated_applied_and_reported_by_every_node(tmp_path: Path) -> None:
    it = made(tmp_path)
    wrapped, plan = it.wrapped(), it.plan()
    assert it.apply(plan, wrapped).kind is EndingKind.APPLIED
    assert wrapped.sent == [(plan.steps[0], True), (plan.steps[0], False)]
    assert (it.levels()["metadata.version"], it.fates()) == (29, ["applied"])
    assert any("5 of 5 nodes report" in text for text in it.said)


def test_a_plan_for_zookeeper_mode_is_sent_step_by_step_and_never_to_validate(
    tmp_path: Path,
) -> None:
    it = made(tmp_path, "zk")
    wrapped, plan = it.wrapped(), it.plan()
    assert it.apply(plan, wrapped).kind is EndingKind.APPLIED
    assert wrapped.sent == [(step, False) for step in plan.steps]
    assert (it.levels(), it.cluster.epoch) == ({"f": 5, "g": 5}, 102)
    assert it.fates() == ["applied", "applied"]


def test_a_plan_that_is_there_has_nothing_to_do_whoever_wrote_it(tmp_path: Path) -> None:
    it = made(tmp_path)
    plan = it.plan()
    it.apply(plan)
    it.journal_path.unlink()
    wrapped = it.wrapped()
    assert says(it.apply(plan, wrapped)) == (
        "Nothing to do: cluster c-1 has every level of the plan already; nothing was sent."
    )
    assert wrapped.sent == []


# --- Refused before anything is sent --------------------------------------------------------------


def test_what_somebody_else_finalizes_is_left_to_him_with_his_command_filled_in(
    tmp_path: Path,
) -> None:
    it = made(tmp_path)
    plan = it.plan(up={"metadata.version": "26", "group.version": "1"})
    wrapped = it.wrapped()
    it.fleet = Fleet(cluster=(FleetEntry(id="c-1", name="pay", managed_by="strimzi"),))
    with pytest.raises(RefusedError) as told:
        it.apply(plan, wrapped)
    assert str(told.value) == (
        "cluster pay (c-1): featurelib does not finalize metadata.version, managed by "
        "strimzi (managed_by in the inventory). Nothing was sent. Use its command: kubectl -n "
        "NAMESPACE patch kafka pay --type merge --patch "
        '\'{"spec":{"kafka":{"metadataVersion":"4.1-IV0"}}}\'\n'
        "Plan the others: featurelib plan pay update --upgrade group.version:1"
    )
    it.fleet = Fleet(cluster=(FleetEntry(id="c-1", managed_by="the-robot", owner="ann"),))
    with pytest.raises(RefusedError, match=r"Change levels through the-robot; ask ann\.$"):
        it.apply(plan, wrapped)
    assert (wrapped.looks, wrapped.sent) == (0, [])


def test_a_plan_says_itself_who_finalizes_what_wherever_it_is_applied(tmp_path: Path) -> None:
    it = made(tmp_path)
    guards = Guards(
        require_signature=False, managed_by="strimzi", managed_features=("metadata.version",)
    )
    wrapped = it.wrapped()
    with pytest.raises(
        RefusedError,
        match=r"does not finalize metadata\.version, managed by strimzi \(managed_by in the plan",
    ):
        it.apply(replace(it.plan(up={"metadata.version": "26"}), guards=guards), wrapped)
    assert (wrapped.looks, wrapped.sent) == (0, [])
    ours = replace(it.plan(up={"transaction.version": "2"}), guards=guards)
    assert it.apply(ours).kind is EndingKind.APPLIED


def test_a_plan_without_an_approval_is_not_even_looked_at(tmp_path: Path) -> None:
    def refuse(at: datetime) -> Clearance:
        raise ApprovalError("expired")

    it = made(tmp_path)
    wrapped = it.wrapped()
    with pytest.raises(ApprovalError):
        it.apply(it.plan(), wrapped, check_approval=refuse)
    assert (wrapped.looks, wrapped.sent) == (0, [])


@pytest.mark.parametrize(
    ("error", "said"),
    [(ApprovalError("the approval expired"), "the approval expired"),
     (KeyboardInterrupt(), "interrupted")],
)  # fmt: skip
def test_what_comes_between_two_requests_stops_the_plan_and_says_what_was_done(
    tmp_path: Path, error: BaseException, said: str
) -> None:
    it = made(tmp_path, "zk")

    def check(at: datetime) -> Clearance:
        if it.levels()["f"] == 5:
            raise error
        return approved(at)

    wrapped = it.wrapped()
    ending = it.apply(it.plan(), wrapped, check_approval=check)
    assert (ending.kind, ending.applied, len(wrapped.written)) == (EndingKind.STOPPED, 1, 1)
    assert says(ending) == f"Stopped after 1 of 2 steps: cluster c-1: f is at 5; {said}."
    assert it.fates() == ["applied"]


def test_an_approval_that_is_taken_back_stops_the_plan_before_its_next_request(
    tmp_path: Path,
) -> None:
    it = made(tmp_path, "zk")

    def take_back(reply: Reply) -> Reply:
        one = Withdrawal(
            approval="approval-1", plan="p", cluster="c-1", approved_by="ann",
            who=myself("a test"), at=1000.0, reason="CHG-2",
        )  # fmt: skip
        with it.journal() as journal:
            journal.withdraw(one)
            assert journal.withdrawals() == (one,)
        return reply

    wrapped = it.wrapped(after_update=take_back)
    ending = it.apply(it.plan(), wrapped)
    assert (ending.kind, ending.applied, len(wrapped.written)) == (EndingKind.STOPPED, 1, 1)
    assert "taken back by " in says(ending)
    assert "(CHG-2)" in says(ending)


def test_a_request_is_announced_before_it_is_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = made(tmp_path)
    real, told = Journal.intend, []

    def note(*_: object) -> None:
        told.append(any("sending step 1 of 1: " in text for text in it.said))

    def intend(self: Journal, lock: Lock, intent: Dispatch) -> int:
        note()
        number = real(self, lock, intent)
        note()
        return number

    monkeypatch.setattr(Journal, "intend", intend)
    it.apply(it.plan(), it.wrapped(before_update=note))
    assert told == [True, True, True]


def test_a_plan_of_another_catalogue_is_refused_naming_the_option(tmp_path: Path) -> None:
    it = made(tmp_path)
    plan = replace(it.plan(), catalogue="2020-01-01 + overlay x")
    with pytest.raises(StalePlanError, match="--overlay FILE") as error:
        it.apply(plan)
    assert f"expected 2020-01-01 + overlay x, found {CATALOGUE.label}" in str(error.value)


def test_in_zookeeper_mode_a_change_that_was_undone_is_noticed_too(tmp_path: Path) -> None:
    it = made(tmp_path, "zk")
    plan, wrapped = it.plan(), it.wrapped()
    other_writer(it, "f", 2)
    other_writer(it, "f", 1, UpgradeType.SAFE_DOWNGRADE)
    with pytest.raises(StalePlanError, match="of the features node: expected 100, found 102"):
        it.apply(plan, wrapped)
    assert wrapped.sent == []


def test_a_plan_that_would_be_refused_now_is_not_sent(tmp_path: Path) -> None:
    """Its requirements hold, but nobody would have planned it: policy and controller speak."""
    it = made(tmp_path)
    wrapped = it.wrapped()
    with pytest.raises(RefusedError, match=r"the plan, found strict: metadata\.version 30"):
        it.apply(it.by_hand([("metadata.version", 25, 30, UP)]), wrapped)
    assert wrapped.sent == []


def test_a_request_to_validate_without_an_answer_wrote_nothing(tmp_path: Path) -> None:
    it = made(tmp_path)
    with pytest.raises(UnreachableError, match="Nothing was written"):
        it.apply(it.plan(), it.wrapped(validated=LOST))
    assert it.fates() == []


def test_an_interrupt_while_the_outcome_is_written_down_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    it = made(tmp_path)
    plan = it.plan()
    monkeypatch.setattr(Journal, "settle", interrupt)
    with pytest.raises(OutcomeUnknownError, match="it may have been applied"):
        it.apply(plan)


# --- How it ends ----------------------------------------------------------------------------------

F_2 = {"up": {"f": "2"}}
FAILED = Reply(code=0, message=None, results=(Result(feature="f", code=96, message="too late"),))
APPLIED, REJECTED, STOPPED, UNKNOWN = (
    EndingKind[name] for name in ("APPLIED", "REJECTED", "STOPPED", "UNKNOWN")
)
# What happens: mode, what is planned, what the backend does; the ending, what became of every
# update, how many requests were written, and parts of what is said.
ENDINGS: dict[str, tuple[str, dict[str, Any], dict[str, Any], EndingKind, set[str], int, list[str]]]
ENDINGS = {
    "NOT_CONTROLLER may come after the request was taken up: only the look settles it": (
        "kraft", {}, {"after_update": lambda reply: refused(41, "not the controller")},
        APPLIED, {"applied"}, 1, ["5 of 5"],
    ),
    "and a controller that is gone did not take it up": (
        "kraft", {}, {"answer": refused(41, "not the controller")},
        REJECTED, {"rejected"}, 1, ["nothing was written"],
    ),
    "a refusal is in the controller's words": (
        "kraft", {}, {"answer": refused(31, "no rights")},
        REJECTED, {"rejected"}, 1, ["error 31, no rights"],
    ),
    "what it refuses to validate is never sent": (
        "kraft", {}, {"validated": refused(95, "not this level")},
        REJECTED, {"rejected"}, 0, ["nothing was written", "error 95, not this level"],
    ),
    "what was accepted and cannot be seen is not said to be pending": (
        "kraft", {}, {"before_describe": unseen}, UNKNOWN, {"unknown"}, 1,
        ["no node reports its levels: the cluster cannot be read"],
    ),
    "a lost reply and a cluster that cannot be seen": (
        "kraft", {}, {"after_update": cut, "before_describe": unseen}, UNKNOWN, {"unknown"}, 1,
        ["0 of 1 step known to be applied; whether", "Run: featurelib resume --file x"],
    ),
    "a lost reply to what was applied is settled by looking": (
        "kraft", {}, {"after_update": cut}, APPLIED, {"applied"}, 1, [],
    ),
    "in ZooKeeper mode too, and each was sent once": (
        "zk", {}, {"after_update": cut}, APPLIED, {"applied"}, 2, [],
    ),
    "a lost reply of the second step never makes the plan applied": (
        "zk", {}, {"before_update": cut_second}, STOPPED, {"applied", "not applied"}, 2,
        ["Stopped after 1 of 2 steps: cluster c-1: f is at 5, g is at 1;"],
    ),
    "after code 96 the node is read before anything is said": (
        "zk", F_2, {"after_update": lambda reply: FAILED}, APPLIED, {"applied"}, 1, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDINGS)
def test_what_is_true_decides_how_a_run_ends(tmp_path: Path, case: str) -> None:
    mode, asked, happens, kind, each, written, words = ENDINGS[case]
    it = made(tmp_path, mode)
    wrapped, plan = it.wrapped(**happens), it.plan(**asked)
    before = it.levels()
    ending = it.apply(plan, wrapped)
    assert (ending.kind, set(fates(ending)), len(wrapped.written)) == (kind, each, written)
    assert [text for text in words if text not in says(ending)] == []
    if "pending" in case:
        assert "may still be applied" not in says(ending)
    assert len(it.fates()) == written
    if kind is REJECTED:
        assert it.levels() == before
    if kind is UNKNOWN:
        with pytest.raises(OutcomeUnknownError, match=r"journal entry 1 is unknown.*resume"):
            it.apply(plan, it.wrapped())


def test_without_anybody_to_send_to_nothing_is_written_down_either(tmp_path: Path) -> None:
    it = made(tmp_path)
    plan, wrapped = it.plan(), it.wrapped()

    def nobody() -> Recipient:
        raise UnreachableError("expected the active controller, found none. Nothing was sent.")

    wrapped.recipient = nobody  # type: ignore[method-assign]
    ending = it.apply(plan, wrapped)
    assert (ending.kind, set(fates(ending))) == (REJECTED, {"not applied"})
    said = sentence(
        ending, CATALOGUE, options=ClusterArgs(reach="c-1"), again="featurelib apply p.json"
    )
    assert said.endswith("Nothing was sent). Go on with the same plan: featurelib apply p.json")
    assert (wrapped.written, it.fates()) == ([], [])


def test_a_partial_answer_is_never_called_applied(tmp_path: Path) -> None:
    """Up to 3.9 a controller writes the good part of a request whose other part it refuses."""
    it = made(tmp_path)
    plan, inner = it.plan(), it.backend
    first, *others = plan.steps[0].updates
    results = [Result(feature=first.feature, code=0, message=None)]
    results += [Result(feature=u.feature, code=42, message="not this") for u in others]

    def partly(step: Step) -> None:
        inner.update(replace(step, updates=(first,)))

    answer = Reply(code=0, message=None, results=tuple(results))
    ending = it.apply(plan, it.wrapped(before_update=partly, answer=answer))
    assert (ending.kind, ending.applied, ending.kind.exit_code) == (STOPPED, 0, 1)
    assert fates(ending) == ["applied", *["rejected"] * len(others)]
    assert says(ending).startswith("Stopped after 0 of 1 step: cluster c-1: ")
    refused = sorted(u.feature for u in others)
    assert f"{', '.join(refused)} were refused (error 42, not this)" in says(ending)
    assert says(ending).count("not this") == 1, "what is true of all of them is said once"
    assert it.fates() == ["partly applied"]


def test_a_refusal_of_4_1_that_carried_kraft_version_is_read_back(tmp_path: Path) -> None:
    """The request is refused as a whole, and kraft.version has moved (KAFKA-16538)."""
    it = bench(tmp_path, kraft(27, release="4.1.2"))
    wrapped = it.wrapped(after_update=lambda reply: refused(95, "The update failed."))
    ending = it.apply(it.plan(up={"kraft.version": "1"}), wrapped)
    assert (ending.kind, it.levels()["kraft.version"]) == (APPLIED, 1)
    assert says(ending).startswith("Applied: cluster c-1: kraft.version is at 1; 5 of 5")
    [update] = ending.steps[0].updates
    assert update_line(update.update, update).endswith(
        "Result: OK, although the controller responded with error 95, The update failed."
    )


def test_after_code_96_what_is_not_there_is_rejected_by_proof_alone(tmp_path: Path) -> None:
    it = made(tmp_path, "zk")
    wrapped = it.wrapped(unproven="broker 1 is silent", answer=FAILED)
    ending = it.apply(it.plan(**F_2), wrapped)
    assert ending.kind is UNKNOWN
    assert "whether f was written is not known (error 96, too late)" in says(ending)
    assert "it may still be applied: broker 1 is silent. Run: featurelib resume" in says(ending)
    with it.journal() as journal:
        [entry] = journal.entries()
        assert (entry.is_open, entry.outcomes[0].result.unproven) == (True, "broker 1 is silent")
        [settled] = resume(it.watcher(), journal, "c-1", waits=WAITS)
    assert settled.fate is Fate.REJECTED
    assert settled.outcomes[-1].result.updates[0].code == 96, "what was answered is not forgotten"
    assert settled.outcomes[-1].result.proof
    assert len(wrapped.written) == 1


def test_a_lost_reply_to_a_request_that_was_not_applied_is_not_sent_again(tmp_path: Path) -> None:
    it = made(tmp_path)
    wrapped, plan = it.wrapped(answer=LOST), it.plan()
    ending = it.apply(plan, wrapped)
    assert (ending.kind, set(fates(ending))) == (REJECTED, {"not applied"})
    assert len(wrapped.written) == 1
    features = [move.feature for move in plan.moves]
    assert says(ending) == (
        f"Rejected: cluster c-1: nothing was written: {', '.join(features)} were not applied (the "
        "connection was cut after the request was sent); the file holds every request that was "
        "carried out."
    )
    assert it.fates() == ["not applied"]
    assert it.apply(plan).kind is APPLIED  # the person sends it again


def test_a_plan_that_stopped_goes_on_where_it_stopped_when_it_is_applied_again(
    tmp_path: Path,
) -> None:
    it = made(tmp_path, "zk")
    plan = it.plan()
    assert it.apply(plan, it.wrapped(before_update=cut_second)).kind is STOPPED
    ending = it.apply(plan)
    assert (ending.kind, ending.before) == (APPLIED, 1)
    assert (it.levels(), it.cluster.epoch) == ({"f": 5, "g": 5}, 102)


def test_an_approval_that_was_used_is_not_good_for_a_second_time(tmp_path: Path) -> None:
    it = made(tmp_path)
    plan, wrapped = it.plan(up={"metadata.version": "26"}), it.wrapped()
    it.apply(plan)
    other_writer(it, "metadata.version", 25, UpgradeType.SAFE_DOWNGRADE)
    with pytest.raises(StalePlanError, match=r"With this approval 1 of 1 steps were applied"):
        it.apply(plan, wrapped)
    assert wrapped.sent == []
    again = it.apply(plan, wrapped, check_approval=lambda at: Clearance(approval="another"))
    assert again.kind is APPLIED


# --- Other writers and nodes while it runs --------------------------------------------------------


@pytest.mark.parametrize("when", ["before_update", "after_update"])
def test_another_writer_beside_the_update_is_seen_in_what_is_true(
    tmp_path: Path, when: str
) -> None:
    it = made(tmp_path, "zk")
    level, kind = (4, UpgradeType.UPGRADE) if when == "before_update" else (1, 2)

    def writes(given: Any) -> Any:
        other_writer(it, "f", level, kind)
        return given

    ending = it.apply(it.plan(**F_2), it.wrapped(**{when: writes}))
    assert (ending.kind, fates(ending)) == (STOPPED, ["overtaken"])
    assert f"f is at {level}; somebody else wrote f" in says(ending)


def test_a_machine_that_stalls_asks_whoever_may_hold_the_request_all_the_same(
    tmp_path: Path,
) -> None:
    it, now = made(tmp_path, "zk"), [time.time()]

    def writes(given: Any) -> Any:
        other_writer(it, "f", 1, 2)
        return given

    def stalls(look: int) -> None:
        now[0] += 60 if it.levels()["f"] == 1 and wrapped.written else 0

    waits = replace(WAITS, clock=lambda: now[0])
    wrapped = it.wrapped(after_update=writes, before_describe=stalls)
    ending = it.apply(it.plan(**F_2), wrapped, waits=waits)
    assert fates(ending) == ["overtaken"]


def test_a_broker_that_goes_between_two_steps_stops_the_plan(tmp_path: Path) -> None:
    it = made(tmp_path, "zk")

    def third(look: int) -> None:
        if look == 2:  # the look after the first step
            it.cluster.fence(3)

    wrapped = it.wrapped(before_describe=third)
    ending = it.apply(it.plan(), wrapped)
    assert (ending.kind, len(wrapped.written)) == (STOPPED, 1)
    assert "broker 3 (it no longer responds)" in says(ending)


def lagging(it: Bench, *nodes: int) -> Callable[[Reply], Reply]:
    """These nodes have not applied what was just written."""

    def hold(reply: Reply) -> Reply:
        it.cluster._file.hold(nodes, it.cluster._newest()[0] - 1)
        return reply

    return hold


def test_nodes_that_do_not_report_the_level_are_named_after_the_wait(tmp_path: Path) -> None:
    it = made(tmp_path)
    wrapped = it.wrapped(after_update=lagging(it, 12, 13))
    ending = it.apply(it.plan(up={"metadata.version": "26"}), wrapped)
    assert (ending.kind.exit_code, fates(ending)) == (1, ["applied"])
    assert says(ending) == (
        "Stopped after 1 of 1 step: cluster c-1: metadata.version is at 26 (4.1-IV0); "
        "3 of 5 nodes report it, not broker 12 (metadata.version 25), "
        "broker 13 (metadata.version 25)."
    )
    assert any(text == "3 of 5 nodes report metadata.version 26" for text in it.said)


def test_the_next_step_waits_until_every_node_reports_the_one_before(tmp_path: Path) -> None:
    it = made(tmp_path)
    plan = it.plan(up={"metadata.version": "27"}, stepwise=True)
    assert len(plan.steps) == 2
    wrapped = it.wrapped(after_update=lagging(it, 12))
    real = wrapped.inner.describe
    looks: list[int] = []

    def describe(say: Say) -> tuple[bytes, ...]:
        looks.append(len(wrapped.written))
        if looks.count(len(wrapped.written)) == 3:
            it.cluster.settle()
        return real(say)

    wrapped.inner.describe = describe  # type: ignore[method-assign]
    ending = it.apply(plan, wrapped, waits=replace(WAITS, nodes=60.0))
    assert ending.kind is APPLIED
    assert looks == [0, 1, 1, 1, 2, 2, 2], "it looked again and again before it went on"

    again = it.by_hand([("metadata.version", 27, 28, UP)], [("metadata.version", 28, 29, UP)])
    stuck = it.wrapped(after_update=lagging(it, 12))
    ending = it.apply(again, stuck)
    assert (ending.kind, ending.applied, len(stuck.written)) == (STOPPED, 1, 1)
    assert "4 of 5 nodes report it, not broker 12 (metadata.version 27)" in says(ending)
