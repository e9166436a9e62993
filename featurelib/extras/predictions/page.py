"""Show predictions as text: verdicts before and after a change, and a rolling upgrade."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from featurelib import words
from featurelib.extras.predictions.rolling import Back, First, ReplayProof, Roll, WayBack
from featurelib.extras.predictions.what_if import FeatureDiff, Refused, WhatIf
from featurelib.feature import METADATA_VERSION, Severity
from featurelib.questions.muted import over_row
from featurelib.source import Source
from featurelib.view.layout import Page
from featurelib.view.questions import QuestionPage, judges_line
from featurelib.view.words import SNAPSHOT_FIRST, idle_text, no_return_text, show_muted, update_text
from featurelib.words import clean, level_text, levels_text, range_text, releases_text

Row = Mapping[str, Any]

FATES = {
    # BrokerLifecycleManager gives up; ControllerRegistrationManager does not.
    "refused": (
        "would be refused{over}, ask again for initial.broker.registration.timeout.ms "
        "(1 minute by default), and end"
    ),
    "refused controller": "would be refused{over}, and ask again without end",
    "stops": "would end{over}, and again at each start",
    "ignored": "would be registered, and the controller would leave it out{over}",
}


def what_if_page(
    answer: WhatIf,
    change: str,
    source: Source,
    width: int | None = None,
    cause: Callable[[QuestionPage], None] | None = None,
) -> Page:
    """Return the page of `what-if`, which lists the differences. `change`: the change as text;
    `cause`: adds the nodes behind it."""
    page = QuestionPage(source, width)

    def is_critical(rows: Iterable[Row]) -> bool:
        critical = (row for row in rows if row["severity"] == Severity.CRITICAL)
        return any(over_row(source.muted, row) is None for row in critical)

    page.text(f"{words.clean(source.name)}, if {change}")
    page.text(words.clean(source.made_from, 300))
    if cause is not None:
        cause(page)
    if answer.joined:
        page.text(f"{words.nodes(None, answer.joined)} can register with that software")
    show_refused(answer.refused, page)
    if idle := idle_text(answer.off, answer.silent):
        page.text(f"{idle}: use --node or --remove for it")
    if answer.runs:
        names = f"{words.nodes(None, answer.runs)} {'runs' if len(answer.runs) == 1 else 'run'}"
        meaning = "stopped for good, and counted neither by Kafka nor by the inventory"
        page.text(f"{names}: gone means {meaning} (docs/how-to/stale.md)")
    sides = (answer.was, answer.resolved), (answer.now, answer.new)
    old, now = (
        f"{side.verdict} ({side.phase})" + ", critical" * is_critical((*rows, *answer.critical))
        for side, rows in sides
    )
    page.line()
    page.text(f"cluster: {old}" if old == now else f"cluster: {old} → {now}")
    _turns(answer, page)
    _differences(answer, page)
    return page


def _differences(answer: WhatIf, page: QuestionPage) -> None:
    """Add the new, the resolved and the critical findings to the page; muted findings come last."""
    heads = "findings that are new", "critical as before", "findings that are gone"
    for title, rows in zip(heads, (answer.new, answer.critical, answer.resolved), strict=True):
        if rows:
            page.head(f"{title}: {len(rows):,}")
            _findings(rows, page)
    if not (answer.new or answer.resolved):
        page.line("no finding is new or gone")
    rows = (*answer.new, *answer.critical, *answer.resolved)
    muted = (over_row(page.source.muted, row) for row in rows)
    show_muted(muted, page, "of these, muted in the settings file")


def show_refused(refused: Sequence[Refused], page: Page, indent: int = 0) -> None:
    """Add the refused nodes to the page. Nodes with equal messages are grouped."""
    groups: dict[tuple[str, str, str, tuple[str, ...]], list[Refused]] = {}
    for node in refused:
        key = (node.role.text, node.entry, node.message, node.features)
        groups.setdefault(key, []).append(node)
    for (role, entry, message, features), group in groups.items():
        nodes_text = words.nodes(role, [n.node_id for n in group])
        suffix = f" over {_names(features)}" if features else ""
        fate = FATES.get(f"{entry} {role}") or FATES[entry]
        page.item(f"{nodes_text} {fate.format(over=suffix)}", indent)
        judges = judges_line(n.dialect for n in group)
        page.item(f'{judges}: "{words.clean(message, 600)}"', indent + 2)


def _names(names: Sequence[str]) -> str:
    return ", ".join(words.clean(name, 60) for name in names)


def _turns(answer: WhatIf, page: QuestionPage) -> None:
    turned = [
        (
            words.clean(change.feature, 60),
            *(_state(change, row, page) for row in (change.before, change.after)),
        )
        for change in sorted(answer.turns, key=lambda change: words.metadata_first(change.feature))
    ]
    differ = [row for row in turned if row[1] != row[2]]
    if turned:
        page.line()
    if differ:
        page.table([("feature", "before", "after"), *differ])
    if unchanged := answer.unchanged + len(turned) - len(differ):
        page.line(f"{words.count(unchanged, 'feature')} unchanged")
    else:
        page.line("every feature changes" if turned else "no node supports a feature")


def _state(change: FeatureDiff, row: Row | None, page: QuestionPage) -> str:
    """Return the state of a feature as text: `READY 21 (3.9-IV0) → 29 (4.2-IV1)`, `BLOCKED at 1,
    ceiling 2`."""
    if row is None:
        return "not listed"
    names = ("finalized_level", "target", "ceiling")
    start, end, ceiling = (page.level(change.feature, row[name]) for name in names)
    target = row["finalized_level"] if row["target"] is None else row["target"]
    suffix = f", ceiling {ceiling}" if row["ceiling"] != target else ""
    move = f"at {start}" if row["target"] is None else f"{start} → {end}"
    return f"{row['verdict']} {move}{suffix}"


def _findings(rows: Iterable[Row], page: QuestionPage) -> None:
    """Add one line per finding to the page, worst first. Equal sentences appear once."""
    texts: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: [*Severity].index(Severity(row["severity"]))):
        message = page.words.of(row).statement
        text = f"{row['severity']}  {words.code_text(row['code'])}: {message}"
        texts[text] = texts.get(text, 0) + 1
    for text, times in texts.items():
        page.item(text + (f" (×{times})" if times > 1 else ""), 2)


def roll_page(roll: Roll, source: Source, width: int | None = None) -> Page:
    """Return the page of `can-roll`: registration of the release, first steps, and rollback."""
    page = QuestionPage(source, width)
    page.text(f"{clean(source.name)}: software of {roll.release} {_may_join(roll)}")
    empty = "nothing" if roll.levels_known else "not known"
    page.item(f"finalized: {levels_text(page.catalogue, roll.levels.items()) or empty}")
    page.text(clean(source.made_from, 300))
    for text in dict.fromkeys(f"{fix.statement} {fix.action}".rstrip() for fix in roll.mend_first):
        page.text(f"first, before the roll: {clean(text, 900)}")
    for text in _replays(roll, page):
        page.text(text)
    if not roll.levels_known:
        text = "UNKNOWN: the data about finalized levels is incomplete, so this is true only "
        advice = "" if roll.mend_first else " Collect the cluster again."
        page.text(f"{text}if it is as shown.{advice}")
    if roll.misfits:
        page.head(f"what software of {roll.release} does not support")
        _misfits(roll, page)
    _consequences(roll, page)
    for first in roll.first:
        page.head("what must happen first")
        _first(first, page, kraft=roll.way_back is not None)
    _after(roll, page)
    return page


def _may_join(roll: Roll) -> str:
    """Return the sentence that says if software of the release can register."""
    if roll.may_join:
        pending = roll.mend_first or roll.replays
        yet = "can register, but not yet" if pending else "can register now"
        proof = () if roll.levels_known else ("it is as shown",)
        hold = ("the conditions below hold", "the condition below holds")[len(roll.conditions) == 1]
        ifs = " and ".join((*proof, hold) if roll.conditions else proof)
        return f"{yet}, if {ifs}" if ifs else yet
    return "can NOT register now" if roll.misfits or roll.refused else "joins or not: UNKNOWN"


def _replays(roll: Roll, page: QuestionPage) -> Iterator[str]:
    """Yield paragraphs about levels that stop a starting controller, and conditions."""
    for replay in roll.replays:
        level = level_text(page.catalogue, replay.feature, replay.level)
        text = _PROOFS[replay.proof].format(level=f"{clean(replay.feature)} {level}")
        supports = range_text(page.catalogue, replay.feature, replay.supported)
        yield f"first, for controllers: {text} Software of {roll.release} supports {supports}."
    if any(replay.proof is not ReplayProof.BOOTSTRAP for replay in roll.replays):
        yield SNAPSHOT_FIRST
    for condition in roll.conditions:
        yield f"condition: {condition}"


_NO_SNAPSHOT = "The data does not prove a newer snapshot on each controller."
_PROOFS = {
    ReplayProof.LOG: "a dump shows {level} in the metadata log, and no snapshot after it.",
    ReplayProof.BOOTSTRAP: (
        "bootstrap.checkpoint holds {level}. 4.0.0 ends on it at each start, also with a newer "
        "metadata snapshot: use 4.0.1 or later."
    ),
    ReplayProof.SEEN: f"{{level}} was finalized before. {_NO_SNAPSHOT}",
    ReplayProof.JOURNAL: f"{{level}} was finalized before, says the journal. {_NO_SNAPSHOT}",
}


def _misfits(roll: Roll, page: QuestionPage) -> None:
    for misfit in roll.misfits:
        levels = levels_text(page.catalogue, [(misfit.feature, misfit.level)])
        supports = range_text(page.catalogue, misfit.feature, misfit.supported)
        page.item(f"{levels}: it supports {supports}", 2)
    if roll.only_unstable:
        names = ", ".join(roll.only_unstable)
        page.item(f"with unstable features enabled it supports {names}; do not, in production", 2)


def _consequences(roll: Roll, page: QuestionPage) -> None:
    """Add the consequences for refused nodes to the page; without any, the findings."""
    if roll.refused:
        page.head("what would become of its nodes")
        show_refused(roll.refused, page, 2)
        return
    if roll.misfits and roll.then.before.cluster.nodes:
        page.text("its controllers would let such nodes in all the same")
    rows: list[Any] = [row for row in roll.then.new if row["severity"] in ("critical", "warning")]
    if texts := dict.fromkeys(page.words.of(row).statement for row in rows):
        page.head("what the audit would find then")
        for text in texts:
            page.item(text, 2)


def _first(first: First, page: QuestionPage, *, kraft: bool) -> None:
    for number, step in enumerate(first.steps, start=1):
        for update in step.updates:
            page.item(f"step {number}: {update_text(update, page.catalogue)}", 2)
    moves = [move for step in first.steps for move in step.updates]
    if kraft and any(move.to_level < move.from_level for move in moves):
        page.item(f"then: {SNAPSHOT_FIRST}", 2)
    if first.steps:
        page.line(f"  featurelib plan{page.name} {first.intent}{page.later}")
    elif first.refusals:
        page.item(f"it cannot happen now: {first.intent}", 2)
        for message in dict.fromkeys(reason.statement for reason in first.refusals):
            page.item(clean(message, 600), 4)
    else:
        page.line("  nothing that a plan could do")


def _after(roll: Roll, page: QuestionPage) -> None:
    page.line()
    if roll.mode == "zk":
        text = "ZooKeeper mode: production software finalizes nothing of its own"
        page.text(text + "; nothing is lost" * (not roll.mend_first))
    elif roll.levels and not roll.may_join:
        names = releases_text(page.catalogue, roll.joins_now)
        page.text(f"releases that can register as things are: {names}")
    elif roll.way_back is not None:
        page.line("rollback")
        for line in _way_back(roll, roll.way_back, page):
            page.item(line, 2)
    if tool := roll.format_with:
        page.line()
        text = f"while a rollback is possible, format new storage with kafka-storage.sh of {tool}"
        page.text(f"{text}: older software cannot start with storage of a newer tool (KIP-1170)")


def _way_back(roll: Roll, route: WayBack, page: QuestionPage) -> Iterator[str]:
    """Yield paragraphs about the rollback to each running release, then about new levels."""
    catalogue = page.catalogue
    if not route.back:
        yield "no node runs another release"
    for downgrade in route.back:
        now = "yes, no level has moved" if downgrade.after_roll else "no, it does not fit already"
        yield f"to {downgrade.release}, right after the roll: {now}"
        if route.brings:
            brought = f"once what {roll.release} brings is finalized"
            yield f"to {downgrade.release}, {brought}: {_later(downgrade, page)}"
    if not route.brings:
        yield f"{roll.release} brings no new level"
        return
    yield f"{roll.release} brings {levels_text(catalogue, route.brings.items())}"
    if idle := idle_text(roll.then.off, roll.then.silent):
        command = f"what-if{page.name} --release {roll.release}{page.source.wanted.ways[0]}"
        yield f"{idle}; what that holds back of it: featurelib {command}"
    if route.point_of_no_return is not None:
        before = roll.levels[METADATA_VERSION]
        yield no_return_text(METADATA_VERSION, before, route.point_of_no_return, catalogue)
    if route.downgrade_floor is not None:
        floor = page.level(METADATA_VERSION, route.downgrade_floor)
        yield f"with it finalized, {METADATA_VERSION} goes down to {floor} without loss, no further"
    releases = releases_text(catalogue, route.joins_after_finalizing)
    yield f"with it finalized, these can register: {releases}"


def _later(downgrade: Back, page: QuestionPage) -> str:
    if downgrade.after_finalizing:
        return "yes"
    if downgrade.after_lowering:
        command = f"plan{page.name} downgrade-all --release-version {downgrade.release}{page.later}"
        text = "only after levels are downgraded again, without loss"
        return f"{text}, controllers only after a metadata snapshot then: featurelib {command}"
    return "no: the needed downgrade loses metadata, or is impossible"
