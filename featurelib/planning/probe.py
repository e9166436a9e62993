"""A plan where only those whom nobody shows are in the way: the controller is asked.

It knows every registration, and its own configuration. Each request of the plan is put to it to
validate only; its yes to all of them stands for what was not seen, of just these requests, and its
no is the reason why there is no plan. Where the evidence is whole, or more is missing, nothing is
sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from featurelib.audit.cluster_view import Sight
from featurelib.audit.probe import PROBE_REFUSED
from featurelib.audit.wording import FindingColumns, FindingWords
from featurelib.backends.base import Backend, Say, accepts, may_prove, moves_text, validate
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import STRICT, load
from featurelib.core.reply import NO_ERROR, Reply
from featurelib.landing.responses import NOT_AUTHORIZED
from featurelib.model import Guards, Reason, Step
from featurelib.planning.goal import Intent
from featurelib.planning.planner import Planned, make_plan
from featurelib.planning.reasons import PROBE, UNPROVEN

_RIGHT = "right_withheld"
_NOT_ASKED = "--probe: nothing was sent: "
_WHOLE = "every registration was seen, and whom the controller asks; apply asks it before it sends."
_MORE = "registrations and settings that nobody shows are not all that is in the way."
_WRITES = "this controller cannot be asked without writing, or kraft.version is to move."
_TOLD = (
    "Nobody shows everybody whom the controller of this cluster asks: the plan rests on a probe, "
    "its word when it was asked to validate only. `featurelib apply` asks it again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who is asked: the cluster that was just looked at. `as_if_seen` judges that look as if
    everybody had been seen whom the controller asks; `say` hears what is sent, or why nothing is;
    `guards` go into the plan."""

    backend: Backend
    sight: Sight
    as_if_seen: Callable[[], Sight]
    catalogue: Catalogue
    say: Say
    guards: Guards | None = None


def plan_by_asking(asking: Asking, intent: Intent) -> Planned:
    """As make_plan; where only who was not seen holds it back, what the controller says decides.

    Raises UnreachableError where it says nothing; nothing is ever written.
    """
    seen = make_plan(asking.sight, intent, asking.catalogue, guards=asking.guards)
    if not any(reason.code in UNPROVEN for reason in seen.refusals):
        asking.say(f"{_NOT_ASKED}{_WHOLE}")
        return seen
    proven = make_plan(asking.as_if_seen(), intent, asking.catalogue, guards=asking.guards)
    if proven.plan is None and not proven.refusals:
        return proven  # nothing is to be done, whoever is registered
    if proven.plan is None:
        asking.say(f"{_NOT_ASKED}{_MORE}")
        return seen
    steps = proven.plan.steps
    if not all(may_prove(asking.backend, asking.sight.dialects, step) for step in steps):
        asking.say(f"{_NOT_ASKED}{_WRITES}")
        return seen
    for step in steps:
        reply = validate(asking.backend, step, asking.say)
        if not accepts(reply, step):
            against = tuple(_refusals(step, reply, asking.catalogue))
            missing = seen.refusals if reply.code == NOT_AUTHORIZED else ()
            return replace(proven, plan=None, refusals=(*missing, *against))
    moves = ", then ".join(map(moves_text, steps))
    return replace(proven, probed=moves, warnings=(*proven.warnings, _TOLD))


def _refusals(step: Step, reply: Reply, catalogue: Catalogue) -> Iterator[Reason]:
    """What it said against each update, in its own words."""
    if reply.code == NOT_AUTHORIZED:
        text = f"The controller was not heard: {reply.message}"
        yield Reason(judge=PROBE, code=_RIGHT, message=text)
        return
    words = FindingWords(catalogue, load(STRICT))
    for update in step.updates:
        code, message = reply.of(update.feature)
        if code == NO_ERROR:
            continue
        said = words.of(
            FindingColumns(
                code=PROBE_REFUSED,
                role=None,
                node_id=None,
                feature=update.feature,
                finalized_level=update.from_level,
                level=update.to_level,
                min_version=None,
                max_version=None,
                observed_at=None,
                detail=f"error {code}: {message}" if message else f"error {code}",
            )
        )
        yield Reason(
            judge=PROBE,
            code=PROBE_REFUSED,
            feature=update.feature,
            level=update.to_level,
            message=said.message,
            remedy=said.remedy,
        )
