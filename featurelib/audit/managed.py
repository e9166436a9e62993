"""What to do where somebody else runs a cluster and the usual remedy cannot work: managed.toml."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib import resources

import msgspec

_SERVICES = frozenset({"msk", "aiven", "confluent"})  # whose controllers nobody else can ask


@dataclass(frozen=True, slots=True, kw_only=True)
class _ManagedRemedy:
    """What to do instead; `role`: about nodes of that role only, "" = any; `moves`: only about a
    feature that the owner finalizes."""

    remedy: str
    role: str = ""
    moves: bool = False


@cache
def _remedies() -> dict[str, dict[str, _ManagedRemedy]]:
    table = resources.files(__package__).joinpath("managed.toml").read_bytes()
    return msgspec.toml.decode(table, type=dict[str, dict[str, _ManagedRemedy]])


def managed_codes() -> Collection[str]:
    """Return the codes that have another remedy somewhere."""
    return {code for table in _remedies().values() for code in table}


def instead(
    code: str, role: str | None, feature: str | None, managed_by: str, moved: Collection[str] | None
) -> str:
    """Return what to do where `managed_by` runs the nodes, "" = the usual remedy holds; `moved`:
    the features that it finalizes, None = all."""
    owner, tables = managed_by.casefold(), _remedies()
    general = tables["service" if owner in _SERVICES else "other"] if owner else {}
    found = tables.get(owner, general).get(code)
    if found is None or found.role not in ("", role):
        return ""
    is_ours = found.moves and moved is not None and feature not in moved
    return "" if is_ours else found.remedy
