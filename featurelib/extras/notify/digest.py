"""Write the message for one owner: tasks that are urgent, wait for an approval, or are new.

Input: the report on the owner's clusters, and the items that were sent earlier. Output: a
`Message`. An item is one finding of a task, or a task without findings, in one cluster. Tasks are
those of the report, so a message never says anything that the report does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from featurelib.config.fleet import FleetPart
from featurelib.feature import Severity
from featurelib.view.digest import unmuted
from featurelib.view.model import Report, Task
from featurelib.view.report import narrow
from featurelib.view.today import MOST, NAMES, todo_for
from featurelib.words import clean, count, some, time_text

WAITS = ("Approve", "Hand over")  # verbs of tasks with plans
URGENT, WAITING, NEW = "Urgent", "Waits for you", "New"
PAGE = re.compile(r" \(docs/[\w/-]+\.md\)|: see docs/[\w/-]+\.md")  # owners have no checkout
Key = tuple[str, str]  # cluster and text that identify an item
Items = dict[Key, bool]  # item → true if it is critical


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to one owner; "" = clusters without owner. `sections`: (heading, paragraphs)."""

    owner: str
    subject: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    items: Items  # the new items

    @property
    def text(self) -> str:
        """The body of the message as plain text."""
        parts = ["\n\n".join([title.upper(), *texts]) for title, texts in self.sections]
        return "\n\n".join(part.strip() for part in parts) + "\n"


def items_of(report: Report) -> dict[int, Items]:
    """Return the items of each task in `report.today`, by its position."""
    return {index: dict(_items(task, report)) for index, task in enumerate(report.today)}


def _items(task: Task, report: Report) -> Iterator[tuple[Key, bool]]:
    for cluster in (cluster for cluster in report.clusters if cluster.key in task.clusters):
        findings = [
            finding
            for finding in unmuted(cluster.findings)
            if finding.code in task.codes and finding.severity is not Severity.INFO
            if todo_for(finding).verb == task.verb
        ]
        for finding in findings:
            parts = (finding.code, finding.role, finding.node_id, finding.feature)
            text = " ".join(str(part) for part in parts if part is not None)
            yield (cluster.key, text), finding.severity is Severity.CRITICAL
        levels = [f"{step.feature} {step.to_level.number}" for step in cluster.steps]
        if task.verb == "Ask" and report.change is not None:
            lowered = [level for level in report.change.lowered if level.key == cluster.key]
            levels = [f"{level.feature} {level.after.number}" for level in lowered]
        if not findings:
            is_about_levels = task.verb in (*WAITS, "Ask")
            yield (cluster.key, " ".join([task.verb, *levels * is_about_levels])), False


def open_items(report: Report) -> Items:
    """Return the items of all tasks in a report."""
    return {key: critical for items in items_of(report).values() for key, critical in items.items()}


def resolved_of(sent: Mapping[Key, bool], report: Report) -> Items:
    """Return the sent items that the report no longer contains."""
    still_open = open_items(report)
    return {key: critical for key, critical in sent.items() if key not in still_open}


def write_message(
    report: Report, owner: str, sent: Items, link: str, local: Mapping[str, str]
) -> Message:
    """Return the message about the new items of `report`, the report on the owner's clusters. New:
    not in `sent`, or not critical there. `link`: the URL of the report; `local`: replacements for
    options with local files."""
    items = open_items(report)
    new = {key: grave for key, grave in items.items() if key not in sent or grave > sent[key]}
    keys = frozenset(cluster for cluster, _ in new)
    part = narrow(report, FleetPart(text=owner, options="", ids=keys, unlisted=None))
    texts = {kind: list[str]() for kind in (URGENT, WAITING, NEW)}
    named = {cluster.key: cluster.name for cluster in part.clusters}
    for index, of in items_of(part).items():
        if fresh := of.keys() & new.keys():
            task = part.today[index]
            is_urgent = any(new[key] for key in fresh)
            kind = URGENT if is_urgent else WAITING if task.verb in WAITS else NEW
            names = some([named[key] for key in task.clusters], NAMES)
            text = f"{task.verb} {names}: {task.text} {task.how}".rstrip()
            commands = [*task.command.splitlines()]
            if task.verb in WAITS:  # each plan has its own command
                clusters = [c for c in part.clusters if c.key in task.clusters][:MOST]
                commands = [cluster.owner_command or "" for cluster in clusters]
                if task.verb == WAITS[0]:
                    commands = [command for cluster in clusters for command in cluster.commands[:1]]
            text = "\n    ".join([text, *commands])
            for path, instead in local.items():
                text = text.replace(path, instead)
            text = PAGE.sub("", text)
            texts[kind].append(text)
    words = ", ".join(f"{len(tasks)} {kind.lower()}" for kind, tasks in texts.items() if tasks)
    sections = []
    for kind, tasks in texts.items():
        extra = [f"{count(len(tasks) - MOST, 'more task')}: see the report."] * (len(tasks) > MOST)
        sections += [(kind, (*tasks[:MOST], *extra))] * bool(tasks)
    old = len(items) - len(new)
    end = f"Run {report.run.number}, {time_text(report.run.as_of)}. "
    end += f"Sent earlier and still open: {count(old, 'item')}. " * bool(old)
    end += f"All of it: {link}"
    return Message(
        owner=owner,
        subject=f"featurelib: {clean(owner) if owner else 'clusters without an owner'}: {words}",
        sections=(*sections, ("", (end,))),
        items=new,
    )
