"""What to do next with a plan, by one look at its cluster; and the words of a refusal.

Whom the controller asks and nobody shows refuses a plan like anything else that is missing, unless
the controller, who knows them all, is asked to validate just what would be sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from featurelib.controller.commands import Way
from featurelib.controller.looking import Look, Watcher
from featurelib.controller.validating import may_prove
from featurelib.core.decide import Decision, Refuse, Send, decide
from featurelib.errors import RefusedError, StalePlanError
from featurelib.journal.journal import Entry
from featurelib.model import Plan

_DECIDES = (
    "nobody shows everybody whom the controller asks, and nothing else is missing: the controller "
    "knows them all, so its answer decides"
)
_ASK = (
    "Only the controller knows everybody whom it asks: with --validate-only it is asked, and "
    "nothing is written."
)


def decide_next(
    watcher: Watcher, look: Look, plan: Plan, position: int, *, asks: bool
) -> tuple[Decision, str]:
    """What to do with the step at `position`, and for a refusal what helps better than a new plan.

    `asks`: before anything is sent the controller is asked to validate it, where it may be. Then a
    step that only who was not seen holds back goes on to that question.
    """
    rest = plan.steps[position:]
    seen = decide(plan, position, watcher.found(look, plan, rest))
    if not isinstance(seen, Refuse) or not look.is_unproven:
        return seen, ""
    proven = decide(plan, position, watcher.found(watcher.as_if_seen(look), plan, rest))
    if not isinstance(proven, Send):
        return seen, ""
    if not may_prove(watcher.backend, look.sight.dialects, proven.step):
        return seen, ""
    if not asks:
        return seen, _ASK
    watcher.say(_DECIDES)
    return proven, ""


def refusal(
    plan: Plan, decision: Refuse, used: Sequence[Entry], before: int, way: Way, instead: str
) -> RefusedError:
    """Every reason not to send, and the next command; `used` are the journal's entries of this plan
    and approval, by which `before` steps are applied."""
    reasons = "".join(f"\n  {reason.text}" for reason in decision.reasons)
    evidence = [reason for reason in decision.reasons if reason.what != "judged again"]
    kind = StalePlanError if evidence else RefusedError
    told = ""
    if before:
        numbers = ", ".join(str(entry.number) for entry in used)
        told = (
            f"\n  With this approval {before} of {len(plan.steps)} steps were applied before "
            f"(journal entry {numbers}); what they wrote is expected."
        )
    overlay = any(reason.what == "catalogue" for reason in evidence)
    hint = " Or judge by the same catalogue, with --overlay FILE." if overlay else ""
    what = "is not as the plan expects it" if evidence else "would refuse the plan now"
    return kind(
        f"cluster {plan.cluster} {what}. Nothing was sent.{reasons}{told}\n"
        + (instead or f"Make a new plan: {way.plan}{hint}")
    )
