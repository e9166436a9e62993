"""Describe the side effects of a level, from the catalogue and the cluster's own values.

A value is known only if a node returned it; an unknown value is None and shown as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from featurelib.audit.evidence import KAFKAS_DEFAULT, OWN_FILE, Evidence
from featurelib.catalogue import Catalogue
from featurelib.feature import Role
from featurelib.model import Plan, SideEffect, Step, ValueChange
from featurelib.words import nodes

_SET_DEFAULT = (
    "kafka-configs.sh --bootstrap-server HOST:PORT --entity-type brokers --entity-default "
    "--alter --add-config {}={}"
)


def effects_clause(catalogue: Catalogue, feature: str, level: int) -> str:
    """Return a clause about the side effects up to `level`: the changed keys, and if a downgrade
    restores their values."""
    rows = [row for row in catalogue.side_effects(feature) if row.level <= level]
    keys = ", ".join(dict.fromkeys(row.key for row in rows if row.key)) or "more than its level"
    suffix = "" if all(row.restored for row in rows) else ", and going back does not restore that"
    return f"it changes {keys} too{suffix}"


def side_effects(
    catalogue: Catalogue, steps: Iterable[Step], evidence: Evidence | None = None, cluster: int = 0
) -> tuple[SideEffect, ...]:
    """Return the side effects of `steps`. Their values come from the cluster at position `cluster`
    of the evidence; without evidence they are unknown."""
    return tuple(
        SideEffect(
            feature=row.feature,
            level=row.level,
            key=row.key,
            what=row.what,
            afterwards=row.afterwards,
            restored=row.restored,
            values=() if evidence is None or not row.from_controller
            else _values(evidence, cluster, row.key),
        )
        for step in steps
        for update in step.updates
        for row in catalogue.side_effects(update.feature)
        if update.from_level < row.level <= update.to_level
    )  # one condition per line  # fmt: skip


def effects_of(meaning: Plan, catalogue: Catalogue) -> tuple[SideEffect, ...]:
    """Return the side effects in a plan, or those in the catalogue if the plan, made by an old
    release, lists none."""
    return meaning.side_effects or side_effects(catalogue, meaning.steps)


def _values(evidence: Evidence, cluster: int, key: str) -> tuple[ValueChange, ...]:
    """Return the distinct values of `key` on the brokers, each with its value after the update."""
    half, after = evidence.subjects, _value_after(evidence, cluster, key)
    cluster_rows = slice(*np.searchsorted(half.cluster, (cluster, cluster + 1)))
    brokers: dict[str | None, list[int]] = {}
    for node in half.node_id[cluster_rows][half.role[cluster_rows] == int(Role.BROKER)].tolist():
        answer = evidence.configurations.of(cluster, Role.BROKER, node, key)
        brokers.setdefault(None if answer is None else answer.value, []).append(node)
    return tuple(
        ValueChange(brokers=tuple(ids), before=before, after=after)
        for before, ids in brokers.items()
    )


def _value_after(evidence: Evidence, cluster: int, key: str) -> str | None:
    """Return the value of `key` after the update: the cluster default, otherwise the active
    controller's own value (ConfigurationControlManager.maybeGenerateElrSafetyRecords). None =
    unknown."""
    default = evidence.configurations.default(cluster, key)
    if default is None or default.value is not None:
        return None if default is None else default.value
    active = int(evidence.controller[cluster])
    answer = evidence.configurations.of(cluster, Role.CONTROLLER, active, key)
    static = answer is not None and answer.source in (OWN_FILE, KAFKAS_DEFAULT)
    return answer.value if answer is not None and static else None


def say_effect(effect: SideEffect) -> str:
    """Return the full text of a side effect: `min.insync.replicas: brokers 1-2: 2 → 1 (where …;
    afterwards …). Going back …`."""
    text = f"{effect.what}; afterwards {effect.afterwards}" if effect.afterwards else effect.what
    values = _say_values(effect)
    return f"{f'{values} ({text})' if values else text}. {_say_restored(effect)}"


def say_briefly(effect: SideEffect) -> str:
    """Return the short text of a side effect: `min.insync.replicas: brokers 1-2: 2 → 1. Going back
    does not restore it.`"""
    return f"{_say_values(effect) or effect.what}. {_say_restored(effect)}"


def _say_restored(effect: SideEffect) -> str:
    return "Going back restores it." if effect.restored else "Going back does not restore it."


def _say_values(effect: SideEffect) -> str:
    """Return the key of a side effect with its known values; "" if no key changes."""
    if not effect.key:
        return ""
    parts = []
    for change in effect.values:
        before, after = (value or "not known" for value in (change.before, change.after))
        moves = f"{before} as now" if before == after else f"{before} → {after}"
        if (change.before, change.after) != (None, None):
            parts.append(f"{nodes('broker', change.brokers)}: {moves}")
    if not _is_known(effect):
        missing = "not all is known" if parts else "its values are not known"
        parts.append(f"{missing}; check brokers, controllers and the cluster's default")
    return f"{effect.key}: {'; '.join(parts)}"


def _is_known(effect: SideEffect) -> bool:
    are_known = [change.before is not None and change.after is not None for change in effect.values]
    return bool(are_known) and all(are_known)


def first_command(effect: SideEffect) -> str:
    """Return the command to run before the update, which keeps the present values; "" if no value
    changes, or no configuration can keep the values."""
    before = {change.before for change in effect.values}
    if not effect.key or (_is_known(effect) and before == {value.after for value in effect.values}):
        return ""
    [value] = before if len(before) == 1 else [None]
    return _SET_DEFAULT.format(effect.key, value or "N")


def differences(
    expected: Iterable[SideEffect], current: Iterable[SideEffect]
) -> Mapping[str, tuple[str, str]]:
    """Return `side effect of FEATURE LEVEL` → (text in the plan, text now) for the side effects
    that differ from the plan."""
    before, after = ({(e.feature, e.level, e.key): e for e in e_} for e_ in (expected, current))
    return {
        f"side effect of {feature} {level}": tuple(  # type: ignore[misc]  # two texts each
            say_effect(e_[feature, level, key]) if (feature, level, key) in e_ else "none"
            for e_ in (before, after)
        )
        for feature, level, key in sorted({*before, *after})
        if before.get((feature, level, key)) != after.get((feature, level, key))
    }
