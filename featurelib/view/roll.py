"""Whether software of a release may join, what must happen first, and the way back, as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from featurelib.audit.wording import FindingColumns, FindingWords
from featurelib.catalogue import Catalogue
from featurelib.feature import METADATA_VERSION, Severity
from featurelib.questions.roll import Back, First, Roll, WayBack
from featurelib.view.layout import Page
from featurelib.view.what_if import show_refused
from featurelib.view.words import no_return_text, update_text
from featurelib.words import clean, level_text, levels_text, range_text, releases_text

_KEPT = (Severity.CRITICAL, Severity.WARNING)


def roll_page(
    found: Roll, name: str, made_from: str, catalogue: Catalogue, width: int | None = None
) -> Page:
    """The text of an answer."""
    page = Page(width)
    may = "may join now" if found.may_join else "may NOT join now"
    page.text(f"{clean(name)}: software of {found.release} {may}")
    levels = levels_text(catalogue, found.levels.items())
    page.item(f"finalized: {levels or 'nothing'}")
    page.text(clean(made_from, 300))
    if not found.levels_known:
        page.text(
            "UNKNOWN: nobody who can be trusted says all that is finalized, so this holds only if "
            "it is as shown. Collect the cluster again."
        )
    _misfits(found, catalogue, page)
    if found.refused:
        page.line()
        page.line("what would become of its nodes")
        show_refused(found.refused, page, 2)
    elif found.misfits:
        page.text("its controllers would let such nodes in all the same")
    _new(found, catalogue, page)
    for first in found.first:
        page.line()
        _first(first, name, catalogue, page)
    _after(found, name, catalogue, page)
    return page


def _misfits(found: Roll, catalogue: Catalogue, page: Page) -> None:
    if not found.misfits:
        return
    page.line()
    page.line(f"what software of {found.release} does not support")
    for misfit in found.misfits:
        there = levels_text(catalogue, [(misfit.feature, misfit.level)])
        supports = range_text(catalogue, misfit.feature, misfit.supported)
        page.item(f"{there}: it supports {supports}", 2)
    if found.only_unstable:
        names = ", ".join(found.only_unstable)
        text = f"with unstable features enabled it supports {names}; do not, in production"
        page.item(text, 2)


def _new(found: Roll, catalogue: Catalogue, page: Page) -> None:
    """What the audit would find once every node that runs is of that release."""
    if found.refused:
        return
    words, texts = FindingWords(catalogue), dict[str, None]()
    for row in found.then.new:
        columns: FindingColumns = row  # type: ignore[assignment]  # a row has more columns
        if Severity(row["severity"]) in _KEPT:
            texts[words.of(columns).message] = None
    if texts:
        page.line()
        page.line("what the audit would find then")
        for text in texts:
            page.item(text, 2)


def _first(first: First, name: str, catalogue: Catalogue, page: Page) -> None:
    planned = first.planned
    page.line("what must happen first")
    if planned.plan is not None:
        for number, step in enumerate(planned.plan.steps, start=1):
            for update in step.updates:
                page.item(f"step {number}: {update_text(update, catalogue)}", 2)
        page.line(f"  featurelib plan {shlex.quote(name)} {planned.intent.text}")
    elif planned.refusals:
        page.item(f"and it cannot happen now: {planned.intent.text}", 2)
        for message in dict.fromkeys(reason.message for reason in planned.refusals):
            page.item(clean(message, 600), 4)
    else:
        page.line("  nothing that a plan could do")


def _after(found: Roll, name: str, catalogue: Catalogue, page: Page) -> None:
    page.line()
    if found.way_back is None:
        text = "ZooKeeper mode: production software finalizes nothing of its own; nothing is lost"
        page.text(text)
    elif not found.may_join:
        joins = releases_text(catalogue, found.joins_now)
        page.text(f"releases that may join as things are: {joins}")
    else:
        page.line("the way back")
        for line in _way_back(found, found.way_back, name, catalogue):
            page.item(line, 2)


def _way_back(found: Roll, way: WayBack, name: str, catalogue: Catalogue) -> Iterator[str]:
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
    yield f"{found.release} brings {levels_text(catalogue, way.brings.items())}"
    if way.no_return >= 0:
        before = found.levels[METADATA_VERSION]
        yield no_return_text(METADATA_VERSION, before, way.no_return, catalogue)
    if way.floor >= 0:
        floor = level_text(catalogue, METADATA_VERSION, way.floor)
        yield f"with it finalized, {METADATA_VERSION} goes down to {floor} without loss, no further"
    yield f"with it finalized, these may join: {releases_text(catalogue, way.joins_after)}"


def _later(back: Back, name: str) -> str:
    if back.after_finalizing:
        return "yes"
    if back.after_lowering:
        command = f"plan {shlex.quote(name)} downgrade-all --release-version {back.release}"
        return f"only once levels are lowered again, which loses nothing: featurelib {command}"
    return "no: lowering that far loses metadata, or something never goes back"
