"""What each release's software knows: levels of metadata.version and of the other features."""

from __future__ import annotations

from tests.core.controllers.words import ELR, KRAFT, METADATA, minor

# The oldest and newest metadata.version a release's software has a name for, unstable ones too.
KNOWN = {
    (3, 3): (1, 7),
    (3, 4): (1, 8),
    (3, 5): (1, 11),
    (3, 6): (1, 14),
    (3, 7): (1, 20),
    (3, 8): (1, 21),
    (3, 9): (1, 23),
    (4, 0): (7, 26),
    (4, 1): (7, 29),
    (4, 2): (7, 30),
    (4, 3): (7, 31),
    (4, 4): (7, 34),
}
# Levels whose step changed how metadata is written.
LOSSY = {1, 3, 5, 6, 7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33}


def knows_metadata(release: str, level: int) -> bool:
    low, high = KNOWN[minor(release)]
    return low <= level <= high


def lossy_steps(release: str) -> set[int]:
    """An unstable level's mark could still change before it was released."""
    if minor(release) == (3, 7):
        return LOSSY | {20}
    if minor(release) == (3, 8):
        return LOSSY | {21}
    if minor(release) == (3, 9):
        return (LOSSY | {22}) - {23}
    if minor(release) == (4, 2):
        return LOSSY - {30}
    return LOSSY


def loses_metadata(release: str, level: int, current: int) -> bool:
    return any(level < step <= current for step in lossy_steps(release))


def levels_of(release: str) -> dict[str, int]:
    """The newest level of each other feature that a 4.x release's software knows."""
    known = {KRAFT: 1, "transaction.version": 2, "group.version": 1, ELR: 1}
    if minor(release) >= (4, 1):
        known |= {"share.version": 1, "streams.version": 1}
    if minor(release) >= (4, 4):
        known["share.version"] = 2
    return known


def needs(release: str, feature: str, level: int) -> dict[str, int]:
    """The declared dependencies of one level."""
    if feature == ELR and level >= 1:
        return {METADATA: 23}
    if feature == KRAFT and level >= 1 and minor(release) <= (4, 0):
        return {METADATA: 21}
    return {}
