"""What a controller supports, where its own listener shows something else.

A controller's listener shows unstable levels where `unstable.api.versions.enable` is on, and the
controller uses them where `unstable.feature.versions.enable` is (SimpleApiVersionManager and
QuorumFeatures; tried on 3.7 to 4.4). So what one listener shows is read as the range that its
release has under the configuration the node was started with. A broker's listener is right.
"""

from __future__ import annotations

from functools import cache

from featurelib.catalogue import load
from featurelib.feature import METADATA_VERSION, Role
from featurelib.snapshot.state import Listener, Map, State

UNSTABLE_FEATURES = "unstable.feature.versions.enable"


def supported_by(listener: Listener, shown: Map, state: State) -> Map:
    """The ranges of a listener's node. As they are `shown`, but for a controller of a release that
    is known and has just these: of a vendor's nothing is known but what it shows.

    Without a word about its configuration a controller is taken to support stable levels alone.
    """
    if listener.role != Role.CONTROLLER or listener.releases not in _ranges():
        return shown
    stable, unstable = _ranges()[listener.releases]
    if shown not in (stable, unstable):
        return shown
    return unstable if _has_unstable(listener.node_id, state) else stable


def _has_unstable(node_id: int, state: State) -> bool:
    """Whether a controller said that it was started with unstable features."""
    return any(
        (key, value) == (UNSTABLE_FEATURES, "true")
        for said in state.configs
        if (said.role, said.node_id, said.resource) == (Role.CONTROLLER, node_id, str(node_id))
        for key, value, _ in said.values
    )


@cache
def _ranges() -> dict[str, tuple[Map, Map]]:
    """Release line → all that its software advertises, stable levels alone and with unstable."""
    catalogue = load()
    found: dict[str, tuple[Map, Map]] = {}
    for release in catalogue.releases:
        own = catalogue.of(release.name)
        ends = [
            {name: own.known_levels(name, unstable=unstable) for name in own.features}
            for unstable in (False, True)
        ]
        stable, unstable = (
            tuple(
                sorted(
                    [(METADATA_VERSION, release.oldest, newest)]
                    + [(name, 0, max(levels)) for name, levels in known.items() if any(levels)]
                )
            )
            for known, newest in zip(
                ends, (release.newest_stable, release.newest_unstable), strict=True
            )
        )
        found[release.name] = stable, unstable
    return found
