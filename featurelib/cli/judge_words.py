"""Who judged, in words: the policy, a generation of controllers, a controller that was asked."""

from __future__ import annotations

from collections.abc import Sequence

from featurelib.core.dialect import GENERATIONS, STRICT, load
from featurelib.core.steps import GOAL
from featurelib.planning.reasons import PROBE


def judges(dialects: Sequence[str]) -> str:
    """Who was asked, in words."""
    own = [load(one).title for one in dialects if one in GENERATIONS]
    return f"the policy{'; and as these controllers answer: ' + '; '.join(own) if own else ''}"


def would(is_answer: bool) -> str:
    """How a controller's words are introduced: it gives one reason, and has others besides."""
    return "would answer" if is_answer else "would refuse this too, once the rest is mended"


def says(judge: str) -> str:
    """Who says something, in a word or two."""
    if judge == STRICT:
        return "policy"
    if judge == GOAL:
        return "the release's catalogue"
    if judge == PROBE:
        return "the controller itself"
    return load(judge).title if judge in GENERATIONS else judge
