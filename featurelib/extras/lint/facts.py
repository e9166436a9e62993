"""The facts of a change, by which rules decide, and the texts that rules name.

    scope before ──┐
    scope after  ──┼──> facts (words that conditions of rules.toml name), texts (its {placeholders})
    known cluster ─┘

A fact is one word of a few, so that a rule is a row.
"""

from __future__ import annotations

from featurelib.extras.lint import declared as of
from featurelib.extras.lint.change import MOVES, FileChange, mode_of, number_of
from featurelib.feature import METADATA_VERSION
from featurelib.words import clean, level_text

# Facts that are attributes of a change.
_OWN = (
    *("steps", "by_itself", "way_back", "kraft", "quorum", "voters", "controllers", "roles"),
    *("node", "conflict", "protocol_fits", "request"),
)
# Texts that are settings.
_SETTINGS = {
    "version": of.VERSION,
    "level": of.METADATA,
    "controllers": of.CONTROLLERS,
    "protocol": of.PROTOCOL,
    "roles": of.ROLES,
    "api": of.API,
}


def facts_of(change: FileChange) -> dict[str, str]:
    """Return the word of each fact."""
    mode, refusals = mode_of(change.after), change.refusals
    protocols = [number_of(of_(of.PROTOCOL)) for of_ in (change.value, change.value_before)]
    is_unstable = change.value(of.UNSTABLE) == "true"
    return {name: getattr(change, name) for name in _OWN} | {
        "kind": change.after.kind,
        "api": "unknown" if of.API in change.after.settings else "known",
        "version": change.turn_of_version,
        "software": _software(change),
        "metadata": change.turn(of.METADATA, *map(change.asked, (change.after, change.before))),
        "metadata_fits": change.fits(change.asked(change.after)),
        "finalized_fits": change.fits(change.finalized[0]),
        "basis": change.finalized[1],
        "mode": mode,
        "move": MOVES.get((mode_of(change.before), mode), "none"),
        "protocol": change.turn(of.PROTOCOL, *protocols),
        "unstable": "on" if is_unstable else "off",
        "register": "unknown" if refusals is None else "refused" if refusals else "joins",
    }


def _software(change: FileChange) -> str:
    """Return whether the catalogue has the software."""
    is_vendor = of.VENDOR in change.after.settings
    return "vendor" if is_vendor else "unknown" if change.own is None else "known"


def texts_of(change: FileChange) -> dict[str, str]:
    """Return the texts that rules name; those that are not known say so."""

    def level(number: int | None) -> str:
        return level_text(change.cluster.catalogue, METADATA_VERSION, number)

    removed, added = change.voter_ids or (set[int](), set[int]())
    every, stale = change.blockers or ((), ())
    values = {name: change.value(key) for name, key in _SETTINGS.items()}
    values |= {f"{name}_before": change.value_before(key) for name, key in _SETTINGS.items()}
    values |= {
        "next_level": level(change.next_level),
        "finalized": level(change.finalized[0]),
        "no_return": level(change.no_return) if change.no_return else "none",
        "reasons": " ".join(stale or every),
        "refusals": " ".join(change.refusals or ()),
        "removed": ", ".join(map(str, sorted(removed))),
        "added": ", ".join(map(str, sorted(added))),
        "node_id": change.value("node.id") or change.value("broker.id"),
    }
    return {name: clean(text, 1000) if text else "not known" for name, text in values.items()}
