"""The requests a real node offers tell its release; scripts.record_api_keys measures every line."""

from __future__ import annotations

from featurelib.catalogue.rows import releases_offering
from featurelib.feature import Role
from scripts.record_exchanges import look
from tests.backends.rig.cluster import RunningCluster


def test_both_listeners_of_a_real_node_offer_what_the_catalogue_says(
    kraft_node: RunningCluster,
) -> None:
    node = kraft_node.nodes[1]
    for role, address in ((Role.BROKER, node.broker), (Role.CONTROLLER, node.controller)):
        keys = look(address)["api_keys"]
        offers = tuple(
            sorted((one["api_key"], one["min_version"], one["max_version"]) for one in keys)
        )
        assert releases_offering(role, offers) == (".".join(node.release.split(".")[:2]),)
