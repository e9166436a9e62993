"""What the controller itself said of a level is proof in `why-not`, and binds every plan."""

from __future__ import annotations

from featurelib.audit.cluster_view import Sight
from featurelib.core.reply import Reply, Result
from featurelib.feature import METADATA_VERSION
from featurelib.landing import Landing, read
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.planning.reasons import PROBE
from featurelib.questions.why_not import LevelStatus, why_not
from tests.questions.nights import CATALOGUE
from tests.test_probing import OK, WITH_UPGRADE, Scripted, asked, judged, probes

REFUSED = Reply(
    code=0, message=None, results=(Result(feature=METADATA_VERSION, code=95, message="ghost 7"),)
)


def probed(reply: Reply) -> tuple[Sight, int, int]:
    """The sample with a probe: as it is judged, the level that was asked about, its line's time."""
    (sent, _), lines = asked(WITH_UPGRADE, Scripted(reply))
    assert sent is not None
    line = read(sent)
    assert isinstance(line, Landing)
    assert line.observed_at is not None
    levels = {one.feature: one.to_level for one in probes([sent])[0].answers}
    return judged([*lines, sent]), levels[METADATA_VERSION], line.observed_at


def upgrade(level: int) -> Intent:
    return Intent(command=Command.UPGRADE, up={METADATA_VERSION: str(level)})


def test_a_refusal_of_the_controller_is_proof_with_its_words_and_its_line() -> None:
    sight, level, when = probed(REFUSED)
    found = why_not(sight, METADATA_VERSION, level, CATALOGUE)
    assert (found.answer, found.agreed) == (LevelStatus.BLOCKED, None)
    [proof] = found.proofs
    assert (proof.judge, proof.code, proof.level) == (PROBE, "probe_refused", level)
    assert "error 95: ghost 7" in proof.message
    assert (proof.seen_at, proof.line_id != 0) == (when, True)


def test_a_level_that_was_not_asked_about_is_judged_as_ever() -> None:
    sight, level, _ = probed(REFUSED)
    lower = why_not(sight, METADATA_VERSION, level - 1, CATALOGUE)
    assert (lower.answer, lower.proofs, lower.agreed) == (LevelStatus.NOTHING, (), None)


def test_an_agreement_is_said_with_when_it_was_given() -> None:
    sight, level, when = probed(OK)
    found = why_not(sight, METADATA_VERSION, level, CATALOGUE)
    assert found.answer is LevelStatus.NOTHING
    assert found.agreed is not None
    assert (found.agreed.code, found.agreed.seen_at) == ("probe_agreed", when)
    assert f"{METADATA_VERSION} {level}" in found.agreed.message
    assert why_not(sight, METADATA_VERSION, level - 1, CATALOGUE).agreed is None


def test_no_plan_is_made_of_what_the_controller_refused() -> None:
    sight, level, _ = probed(REFUSED)
    refused = make_plan(sight, upgrade(level), CATALOGUE)
    assert refused.plan is None
    assert [reason.code for reason in refused.refusals] == ["probe_refused"]
    assert make_plan(sight, upgrade(level - 1), CATALOGUE).plan is not None
    everything = make_plan(sight, Intent(command=Command.UPGRADE_ALL), CATALOGUE)
    moved = {move.feature for move in everything.goal.moves}
    assert METADATA_VERSION not in moved
    assert "probe_refused" in [reason.code for reason in everything.refusals]
    agreed, level, _ = probed(OK)
    assert make_plan(agreed, upgrade(level), CATALOGUE).plan is not None
