"""Addresses beside a name: how a cluster is reached, and whose word of it holds."""

from __future__ import annotations

from pathlib import Path

from featurelib.catalogue import load
from featurelib.source import Chosen, Wanted

FLEET = """
[[cluster]]
id = "id-one"
name = "payments"
bootstrap = ["a:1"]
controller_bootstrap = ["a:2"]
managed_by = "strimzi"
[cluster.security]
protocol = "SSL"
"""


def test_addresses_beside_a_name_replace_the_inventory_s_and_keep_the_owner_s_word(
    tmp_path: Path,
) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    wanted = Wanted(cluster="payments", fleet=str(fleet), bootstrap="b:1, c:2")
    reached = Chosen(wanted=wanted, catalogue=load()).reached()
    entry = reached.entry
    assert (entry.bootstrap, entry.controller_bootstrap) == (("b:1", "c:2"), ())
    assert (entry.security.protocol, entry.managed_by, entry.id) == ("SSL", "strimzi", "id-one")
    assert (reached.entry_of("id-one").managed_by, reached.entry_of("another")) == (
        "strimzi",
        entry,
    )
