"""The options that choose one cluster, and what the inventory says of the one that answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from featurelib.backends.base import look
from featurelib.catalogue import load
from featurelib.errors import ConfigError
from featurelib.source import Wanted, open_fleet, reach
from tests.test_collect import embedded, quiet

FLEET = """
[[cluster]]
id = "id-one"
name = "payments"
bootstrap = ["a:1"]
controller_bootstrap = ["a:2"]
managed_by = "strimzi"
[cluster.security]
protocol = "SSL"
[[cluster]]
id = "unreachable"
"""


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET)
    return str(path)


@pytest.mark.parametrize("name", ["payments", "id-one"])
def test_a_cluster_is_named_as_the_inventory_does(fleet: str, name: str) -> None:
    reached = reach(Wanted(cluster=name, fleet=fleet), load())
    assert (reached.entry.title, reached.entry.bootstrap) == ("payments", ("a:1",))


def test_addresses_beside_a_name_replace_the_inventory_s_and_keep_the_owner_s_word(
    fleet: str,
) -> None:
    entry = reach(Wanted(cluster="payments", fleet=fleet, bootstrap="b:1, c:2"), load()).entry
    assert (entry.bootstrap, entry.controller_bootstrap) == (("b:1", "c:2"), ())
    assert (entry.security.protocol, entry.managed_by, entry.id) == ("SSL", "strimzi", "id-one")


def test_addresses_alone_are_a_cluster_whose_id_the_look_tells(fleet: str, tmp_path: Path) -> None:
    file = embedded(tmp_path, "one").file
    reached = reach(Wanted(fleet=fleet, file=file), load())
    assert (reached.entry.file, reached.entry.id) == (file, "")
    backend = reached.open()
    try:
        assert look(backend, reached.entry, quiet)
    finally:
        backend.close()
    assert reached.entry_of("id-one").managed_by == "strimzi"
    assert reached.entry_of("another").managed_by == ""


def test_another_cluster_than_the_one_named_is_refused(fleet: str, tmp_path: Path) -> None:
    file = embedded(tmp_path, "two").file
    reached = reach(Wanted(cluster="payments", fleet=fleet, file=file), load())
    backend = reached.open()
    with pytest.raises(
        ConfigError, match=r"expected the cluster id-one \(payments\), found id-two"
    ):
        look(backend, reached.entry, quiet)
    backend.close()


def test_a_release_is_checked_where_a_catalogue_judges(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[[cluster]]\nid = "a"\nrelease = "9.9"\n')
    with pytest.raises(ConfigError, match="release: expected one the catalogue of"):
        open_fleet(str(path), load())
    assert open_fleet(str(path), None)[1].cluster[0].release == "9.9"
