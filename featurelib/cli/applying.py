"""What `featurelib apply` shows: the plan before it asks, a line an update, one sentence after.

Text goes to stdout; with JSON one object does, and what is asked goes to stderr.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from featurelib.cli.asking import confirm
from featurelib.cli.entrance import say
from featurelib.cli.journal import results_as_json
from featurelib.cli.reach import Reached
from featurelib.cli.usage import WORDS
from featurelib.controller.ending_words import move_text, update_line, warnings
from featurelib.core.ending import Ending, NothingToDo
from featurelib.errors import FeatureLibError
from featurelib.journal.journal import Clearance
from featurelib.planning.files import PlanFile
from featurelib.view.layout import terminal_width, wrap
from featurelib.words import clean


def _wrapped_for_people(sentence: str) -> list[str]:
    """The sentence as one line, which a script takes; at a terminal as long as it is wide."""
    return wrap(sentence, terminal_width()) if sys.stdout.isatty() else [sentence]


@dataclass(slots=True, kw_only=True)
class Shown:
    """One plan, the cluster it is for, and by whose word it would be sent: `settings` is the file
    that rules, `clearance` the approval once it was checked."""

    made: PlanFile
    reached: Reached
    as_json: bool
    settings: str
    clearance: Clearance | None = None

    @property
    def name(self) -> str:
        """What people call the cluster, with its id."""
        cluster = clean(self.made.plan.cluster)
        title = clean(self.reached.entry_of(self.made.plan.cluster).title or cluster)
        return cluster if title == cluster else f"{title} ({cluster})"

    def ask(self, *, yes: bool) -> None:
        """What would be done, and what cannot be taken back; then the question."""
        plan, show = self.made.plan, say if self.as_json else print
        width = terminal_width()
        lines = [f"plan {self.made.digest}"]
        lines += wrap(f"{clean(plan.intent)}, for cluster {self.name}", width, "  ")
        lines += self._rule_lines()
        for position, step in enumerate(plan.steps, start=1):
            lines.append(f"step {position} of {len(plan.steps)}:")
            for update in step.updates:
                lines += wrap(move_text(update, self.reached.catalogue), width, "  ", "    ")
        show("\n".join([*lines, *self._warning_lines()]))
        confirm(f"Apply this plan to cluster {self.name}?", yes=yes)

    def warn(self) -> None:
        """What rules and what cannot be taken back, where nothing is asked because nothing is
        written."""
        for line in self._rule_lines():
            say(line)
        if lines := self._warning_lines():
            (say if self.as_json else print)("\n".join(lines))

    def _rule_lines(self) -> list[str]:
        width, given = terminal_width(), self.clearance
        lines = wrap(f"settings: {clean(self.settings, 400)}", width, "", "  ")
        if given is not None and given.by:
            lines += wrap(f"approval: {clean(given.text, 2000)}", width, "", "  ")
        return lines

    def _warning_lines(self) -> list[str]:
        said = warnings(self.made.plan, self.reached.catalogue)
        return [line for warning in said for line in wrap(warning, terminal_width(), "! ")]

    def refused(self, error: FeatureLibError) -> None:
        """What ended it before anything was sent, for a program; people are told on stderr."""
        error.facts = self._document(WORDS[error.exit_code], error.exit_code, str(error))

    def ended(self, ending: Ending, says: str) -> None:
        """What became of it."""
        if self.as_json:
            document = self._document(ending.word, ending.exit_code, says, ending)
            print(json.dumps(document, indent=2, ensure_ascii=False))
            return
        if not isinstance(ending, NothingToDo):
            print("\n".join(self._lines(ending)))
        print("\n".join(_wrapped_for_people(says)))

    def _lines(self, ending: Ending) -> list[str]:
        """One line an update, in KIP-584's form: with its result, or without if it was not sent."""
        results = {
            (step.position, outcome.update.feature): outcome
            for step in ending.steps
            for outcome in step.updates
        }
        lines = []
        for position, step in enumerate(self.made.plan.steps):
            for update in step.updates:
                outcome = results.get((position, update.feature))
                line = update_line(update, outcome)
                if outcome is None and ending.steps:
                    line += " Result: " + ("OK, before" if position < ending.before else "NOT SENT")
                lines.append(line)
        return lines

    def _document(
        self, word: str, code: int, says: str, ending: Ending | None = None
    ) -> dict[str, object]:
        plan, given = self.made.plan, self.clearance or Clearance(approval="")
        return {
            "version": 1,
            "cluster": plan.cluster,
            "name": self.reached.entry_of(plan.cluster).title,
            "plan": self.made.digest,
            "settings": self.settings,
            "approved_by": given.by or None,
            "reason": given.reason or None,
            "signed": given.signed if given.by else None,
            "outcome": word,
            "exit_code": code,
            "says": says,
            "steps": len(plan.steps),
            "applied_before": ending.before if ending else 0,
            "requests": [
                {
                    "step": step.position + 1,
                    "outcome": step.fate.value,
                    "nodes_asked": step.asked,
                    "nodes_late": list(step.late),
                    "updates": results_as_json(step.updates),
                }
                for step in (ending.steps if ending else ())
            ],
            "reasons": list(ending.reasons) if ending else [],
        }
