"""The validate-only probe: the first request of the plan the audit would make, put to the active
controller to validate, and its answer as a landing line.

The plan is made as if whoever did not show its range supported everything: whether that is so is
what is asked. Where nothing can go up, the present metadata.version is asked for: every registered
node has a say in that, too.

Nothing is sent unless writing is ruled out: KRaft alone, every dialect that may be spoken there
honours it, and kraft.version is never among the updates, because 4.1 hands it on
while it validates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from featurelib.backends.base import Backend, Say
from featurelib.catalogue import Catalogue
from featurelib.configuration.fleet import Cluster, Fleet
from featurelib.controller.validating import UNPROVEN, is_honoured
from featurelib.core.moves import level_of
from featurelib.core.refusals import ALTER, NOT_AUTHORIZED
from featurelib.core.reply import Reply
from featurelib.errors import FeatureLibError, RefusedError
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, UpgradeType, Verdict
from featurelib.landing.envelope import write_line
from featurelib.model import Move, Step
from featurelib.questions.draft import Draft
from featurelib.sight import Sight, see, see_row

_DAY = 86_400_000_000  # microseconds; the lines are of this moment
_TIMEOUT_MS = 10_000  # a collector does not wait as long as somebody who writes
_NOTHING = "probe: nothing was sent: "
# Nodes whose range is not known: that they do not block is what the controller is asked.
_UNSEEN = frozenset(
    {
        "node_not_answering",
        "node_not_asked",
        "range_unknown",
        "evidence_too_old",
        "evidence_too_new",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What became of a probe: the landing line, None where nothing was sent, and one sentence."""

    line: bytes | None
    text: str


def probe(
    backend: Backend, entry: Cluster, lines: Sequence[bytes], catalogue: Catalogue, say: Say
) -> Probed:
    """Ask the controller of a cluster that was just looked at, as `lines`.

    What cannot be asked or answered is in the sentence; nothing is raised for it.
    """
    try:
        sight, is_unsure = _sight(entry, lines, catalogue)
        step = _question(backend, sight, is_unsure)
    except FeatureLibError as error:
        return Probed(line=None, text=f"{_NOTHING}{error}")
    moves = ", ".join(f"{u.feature} {u.from_level} to {u.to_level}" for u in step.updates)
    say(f"{backend.where}: asking the controller to validate only: {moves} (needs {ALTER})")
    keys: dict[str, object] = {"updates": [_asked(update) for update in step.updates]}
    try:
        reply = backend.update(step, validate_only=True)
    except RefusedError as error:
        return Probed(line=None, text=f"{_NOTHING}{error}")
    except FeatureLibError as error:  # a request to validate writes nothing
        keys["error"] = text = str(error)
        said = f"probe: no answer to {moves}: {text}"
    else:
        keys["answer"] = _answer(reply)
        said = f"probe: the controller {_verdict(reply)}: {moves}"
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    return Probed(line=write_line("probe", sight.cluster_id, now, keys), text=said)


def _sight(entry: Cluster, lines: Sequence[bytes], catalogue: Catalogue) -> tuple[Sight, bool]:
    """The cluster as if every registration had been seen, and supported everything: whether that
    is so is what is asked. And whether there is anything to ask for but a level above."""
    first = msgspec.json.decode(lines[0], type=_Envelope)
    named = msgspec.structs.replace(entry, id=first.cluster_id)
    fleet = Fleet(cluster=(named,))
    seen = see(lines, catalogue=catalogue, as_of=None, max_age=_DAY, fleet=fleet)
    found = [row for row in seen.judged.findings.to_pylist() if row["code"] in UNPROVEN | _UNSEEN]
    draft = Draft(seen.rows, seen.newest)
    for node_id in {row["node_id"] for row in found if row["code"] in _UNSEEN}:
        draft.remove(node_id)
    draft.forget_configured()  # whom the controller asks is what it is asked
    row = draft.row() if found else seen.rows
    sight = see_row(
        row, catalogue=catalogue, as_of=None, max_age=_DAY, fleet=fleet, controller_decides=True
    )
    return sight, bool(found)


class _Envelope(msgspec.Struct):
    cluster_id: str


def _question(backend: Backend, sight: Sight, is_unsure: bool) -> Step:
    """The first request of the plan. Raises RefusedError where there is none, or where it might be
    applied."""
    if not is_honoured(backend, sight.dialects):
        raise RefusedError("this controller would apply a request to validate.")
    [plan] = sight.judged.plans.select(["verdict", "steps"]).to_pylist()
    first = [row for row in plan["steps"] or () if row["request"] == 1]
    updates = tuple(
        Move(
            feature=row["feature"],
            from_level=row["from_level"],
            to_level=row["to_level"],
            upgrade_type=row["upgrade_type"],
        )
        for row in first
        if row["feature"] != KRAFT_VERSION
    )
    if not updates and is_unsure and plan["verdict"] == Verdict.UP_TO_DATE:
        updates = tuple(_present(sight))
    if not updates:
        raise RefusedError(f"no feature can go up by what is known ({plan['verdict']}).")
    return Step(updates=updates, timeout_ms=_TIMEOUT_MS)


def _present(sight: Sight) -> Iterator[Move]:
    """The update of metadata.version to where it is; none where it is not finalized."""
    if level := level_of(sight.cluster, METADATA_VERSION):
        yield Move(
            feature=METADATA_VERSION,
            from_level=level,
            to_level=level,
            upgrade_type=UpgradeType.UPGRADE.name,
        )


def _asked(update: Move) -> dict[str, object]:
    moves = {"from_level": update.from_level, "to_level": update.to_level}
    return {"feature": update.feature, **moves}


def _answer(reply: Reply) -> dict[str, object]:
    said: dict[str, object] = {"error_code": reply.code, "error_message": reply.message}
    if reply.results is not None:
        said["results"] = [
            {"feature": one.feature, "error_code": one.code, "error_message": one.message}
            for one in reply.results
        ]
    return said


def _verdict(reply: Reply) -> str:
    if reply.code == NOT_AUTHORIZED:
        return f"did not answer, because the right to {ALTER} the cluster is missing"
    refused = [one for one in reply.results or () if one.code]
    if not reply.code and not refused:
        return "agreed, validating only"
    words = reply.message if reply.code else refused[0].message
    return f"refused ({words or 'without words'}), validating only"
