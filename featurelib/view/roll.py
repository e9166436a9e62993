"""Whether software of a release may join, what must happen first, and the way back, as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from featurelib.audit.wording import FindingColumns, FindingWords
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import STRICT, load
from featurelib.feature import METADATA_VERSION, Severity
from featurelib.questions.roll import Back, First, Misfit, Roll, WayBack
from featurelib.view.layout import wrap
from featurelib.view.plan import update_text
from featurelib.view.what_if import refused_lines
from featurelib.words import clean, level_text, metadata_first, range_text, releases_text

_KEPT = (Severity.CRITICAL, Severity.WARNING)


def roll_lines(
    found: Roll, name: str, made_from: str, catalogue: Catalogue, width: int
) -> Iterator[str]:
    """The lines of an answer, without line ends."""
    words = FindingWords(catalogue, load(STRICT))
    may = "may join now" if found.may_join else "may NOT join now"
    yield from wrap(f"{clean(name)}: software of {found.release} {may}", width)
    order = sorted(found.levels.items(), key=lambda item: metadata_first(item[0]))
    levels = [f"{clean(n, 60)} {_level(words, n, v)}" for n, v in order]
    yield from wrap(f"finalized: {', '.join(levels) or 'nothing'}", width, "", "  ")
    yield from wrap(clean(made_from, 300), width)
    if not found.levels_known:
        text = (
            "UNKNOWN: nobody who can be trusted says all that is finalized, so this holds only if "
            "it is as shown. Collect the cluster again."
        )
        yield from wrap(text, width)
    if found.misfits:
        yield ""
        yield f"what software of {found.release} does not support"
        for misfit in found.misfits:
            yield from wrap(_misfit(misfit, words), width, "  ", "    ")
        if found.only_unstable:
            names = ", ".join(found.only_unstable)
            text = f"with unstable features enabled it supports {names}; do not, in production"
            yield from wrap(text, width, "  ", "    ")
    if found.refused:
        yield ""
        yield "what would become of its nodes"
        for line in refused_lines(found.refused, width - 2):
            yield f"  {line}"
    elif found.misfits:
        yield from wrap("its controllers would let such nodes in all the same", width)
    yield from _new_lines(found, words, width)
    for first in found.first:
        yield ""
        yield from _first_lines(first, name, catalogue, width)
    yield from _after_lines(found, name, words, width)


def _level(words: FindingWords, feature: str, level: int) -> str:
    return level_text(words.catalogue, feature, level)


def _misfit(misfit: Misfit, words: FindingWords) -> str:
    ends = misfit.supported
    there = f"{clean(misfit.feature, 60)} {_level(words, misfit.feature, misfit.level)}"
    return f"{there}: it supports {range_text(words.catalogue, misfit.feature, ends)}"


def _new_lines(found: Roll, words: FindingWords, width: int) -> Iterator[str]:
    """What the audit would find once every node that runs is of that release."""
    if found.refused:
        return
    told = dict[str, None]()
    for row in found.then.new:
        columns: FindingColumns = row  # type: ignore[assignment]  # a row has more columns than words use
        if Severity(row["severity"]) in _KEPT:
            told[words.of(columns).message] = None
    if told:
        yield ""
        yield "what the audit would find then"
        for text in told:
            yield from wrap(text, width, "  ", "    ")


def _first_lines(first: First, name: str, catalogue: Catalogue, width: int) -> Iterator[str]:
    planned = first.planned
    yield "what must happen first"
    if planned.plan is not None:
        for number, step in enumerate(planned.plan.steps, start=1):
            for update in step.updates:
                text = f"request {number}: {update_text(update, catalogue)}"
                yield from wrap(text, width, "  ", "    ")
        yield f"  featurelib plan {shlex.quote(name)} {planned.intent.text}"
        return
    if planned.refusals:
        yield from wrap(f"and it cannot happen now: {planned.intent.text}", width, "  ", "    ")
        for message in dict.fromkeys(reason.message for reason in planned.refusals):
            yield from wrap(clean(message, 600), width, "    ", "      ")
        return
    yield "  nothing that a plan could do"


def _after_lines(found: Roll, name: str, words: FindingWords, width: int) -> Iterator[str]:
    yield ""
    if found.way_back is None:
        text = "ZooKeeper mode: production software finalizes nothing of its own; nothing is lost"
        yield from wrap(text, width)
        return
    if not found.may_join:
        joins = releases_text(words.catalogue, found.joins_now)
        yield from wrap(f"releases that may join as things are: {joins}", width)
        return
    yield "the way back"
    for line in _back_lines(found, found.way_back, name, words):
        yield from wrap(line, width, "  ", "    ")


def _back_lines(found: Roll, way: WayBack, name: str, words: FindingWords) -> Iterator[str]:
    """Paragraphs: each release that runs there, then what the new one brings."""
    if not way.back:
        yield "no node runs another release"
    for back in way.back:
        now = "yes, no level has moved" if back.after_roll else "no, it does not fit already"
        yield f"to {back.release}, right after the roll: {now}"
        if way.brings:
            brought = f"once what {found.release} brings is finalized"
            yield f"to {back.release}, {brought}: {_later(back, name)}"
    if not way.brings:
        yield f"{found.release} brings no level that is not there"
        return
    order = sorted(way.brings.items(), key=lambda item: metadata_first(item[0]))
    levels = ", ".join(f"{clean(n, 60)} {_level(words, n, v)}" for n, v in order)
    yield f"{found.release} brings {levels}"
    if way.no_return >= 0:
        here = _level(words, METADATA_VERSION, found.levels[METADATA_VERSION])
        there = _level(words, METADATA_VERSION, way.no_return)
        yield (
            f"POINT OF NO RETURN: from {METADATA_VERSION} {there} on, {here} cannot be had again "
            "without loss"
        )
    if way.floor >= 0:
        floor = _level(words, METADATA_VERSION, way.floor)
        yield f"with it finalized, {METADATA_VERSION} goes down to {floor} without loss, no further"
    yield f"with it finalized, these may join: {releases_text(words.catalogue, way.joins_after)}"


def _later(back: Back, name: str) -> str:
    if back.after_finalizing:
        return "yes"
    if back.after_lowering:
        command = f"plan {shlex.quote(name)} downgrade-all --release-version {back.release}"
        return f"only once levels are lowered again, which loses nothing: featurelib {command}"
    return "no: lowering that far loses metadata, or something never goes back"
