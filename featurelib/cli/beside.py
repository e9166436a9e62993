"""What a plan's file says beside its meaning.

Whoever can write the file can change it, and the digest stays the same: so it stands apart, no fact
is taken from it, and where it contradicts what is known it is said so.
"""

from __future__ import annotations

from collections.abc import Iterator

from featurelib.catalogue import Catalogue
from featurelib.cli.plan_text import plan_width
from featurelib.cli.reach import open_fleet
from featurelib.planning.files import ForPeople, PlanFile
from featurelib.planning.night import level_names
from featurelib.view.layout import wrap
from featurelib.words import clean

HEAD = "Also in the file, not covered by the digest, and nothing above is taken from it:"


def known_name(cluster: str, fleet: str | None, catalogue: Catalogue) -> str:
    """What the inventory calls the cluster; empty where it does not list it. Raises ConfigError."""
    _, inventory = open_fleet(fleet, catalogue)
    return next((entry.name for entry in inventory.cluster if entry.id == cluster), "")


def beside_lines(people: ForPeople) -> Iterator[str]:
    """All of it that a person may want to read, below a line that says what it is."""
    made = [clean(people.written_at)] if people.written_at else []
    made += [f"from {clean(people.made_from, 300)}"] if people.made_from else []
    made += [f"last seen {clean(people.seen_at)}"] if people.seen_at else []
    said = [f"name: {clean(people.name)}"] if people.name else []
    said += [f"made: {', '.join(made)}"] if made else []
    said += [f"warning: {clean(text, 1000)}" for text in people.warnings]
    said += [f"left out: {clean(text, 400)}" for text in people.left_out]
    if said:
        yield from wrap(HEAD, plan_width())
        for text in said:
            yield from wrap(text, plan_width(), "  ", "    ")


def contradictions(file: PlanFile, name: str, catalogue: Catalogue) -> Iterator[str]:
    """Where the file's own text cannot be what `featurelib plan` wrote of this meaning. `name` is
    the inventory's. Level names are held against the same catalogue only."""
    people = file.for_people
    if name and people.name and people.name != name:
        yield (
            f"THE FILE CALLS THIS CLUSTER {people.name}, the inventory calls it {name}: its text "
            "was changed, or the cluster got another name. Go by the id."
        )
    if not people.level_names or file.plan.catalogue != catalogue.label:
        return
    if people.level_names != level_names(file.plan, catalogue):
        yield (
            "THE TEXT OF THIS FILE WAS CHANGED after the plan was made: its level_names are not "
            "those of its levels. What is shown here is worked out anew. Make the plan again."
        )
