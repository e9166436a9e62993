"""Scopes: on which updates a dialect asks a rule. Masks as the rules are, named in its `where`."""

from __future__ import annotations

from featurelib.core.rows import SCOPES as SCOPES
from featurelib.core.rows import Level, Mask, scope


@scope
def sets(level: Level) -> Mask:
    """A level is set, not taken away."""
    return level >= 1


@scope
def raises(level: Level, current: Level) -> Mask:
    """The level goes up."""
    return level > current


@scope
def changes(level: Level, current: Level) -> Mask:
    """The level moves."""
    return level != current


@scope
def finalized(current: Level) -> Mask:
    """The feature is finalized."""
    return current > 0


@scope
def of_metadata_version(is_metadata_version: Mask) -> Mask:
    """The update is about metadata.version."""
    return is_metadata_version


@scope
def of_kraft_version(is_kraft_version: Mask) -> Mask:
    """The update is about kraft.version."""
    return is_kraft_version


@scope
def of_other_features(is_metadata_version: Mask) -> Mask:
    """The update is about anything but metadata.version."""
    return ~is_metadata_version


@scope
def of_ordinary_features(is_metadata_version: Mask, is_kraft_version: Mask) -> Mask:
    """The update is neither about metadata.version nor about kraft.version."""
    return ~is_metadata_version & ~is_kraft_version


@scope
def controllers_register(metadata_version: Level, register_from: Level) -> Mask:
    """Controllers have to be registered at the current metadata.version (KIP-919)."""
    return metadata_version >= register_from
