"""Make inventory entries from lists of Strimzi, Amazon or an address: `featurelib inventory`."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from msgspec.structs import replace

from featurelib.backends.base import id_of, open_backend
from featurelib.catalogue import load
from featurelib.cli.entrance import say
from featurelib.collecting import read_text, strimzi_resources
from featurelib.config.fleet import Fleet
from featurelib.errors import ConfigError
from featurelib.extras.inventory_import.entries import FoundEntry, new_ones, of_msk, of_strimzi
from featurelib.source import Wanted, choose, open_fleet
from featurelib.view.documents import Document, fill
from featurelib.view.documents import as_json as to_json
from featurelib.words import count


class FoundDocument(Document):
    """featurelib inventory; clusters as the inventory has them, and notes"""

    clusters: list[dict[str, Any]]
    known: int
    left_out: list[str]


def inventory(
    action: str,
    from_strimzi: str | None = None,
    from_msk: list[str] | None = None,
    bootstrap: list[str] | None = None,
    fleet: str | None = None,
    as_json: bool = False,
) -> int:
    """Make inventory entries for listed clusters.

    Clusters that the inventory already has, by id or by managed_as, are left out, so you can append
    the output to the inventory again and again. The output is TOML without secrets. Amazon's lists
    have no cluster id: their entries are comments until you insert the id. A cluster at an address
    returns its own id.

    Exit codes: 0 done, also without a new cluster; 2 usage; 5 an address could not be reached.

    \b
        kubectl get kafka,kafkanodepool,strimzipodset -A -o json |
            featurelib inventory import --from-strimzi - >> conf/fleet.toml
        featurelib inventory import --from-msk clusters.json --from-msk nodes.json >> fleet.toml
        featurelib inventory import --bootstrap kafka-1.example:9092 >> conf/fleet.toml
    """
    if action != "import":
        raise ConfigError(
            f"inventory {action}: The only action is import. Use for example featurelib inventory "
            "import --bootstrap HOST:PORT"
        )
    if (sources := sum(map(bool, (from_strimzi, from_msk, bootstrap)))) != 1:
        raise ConfigError(
            "inventory import needs exactly one of --from-strimzi FILE, --from-msk FILE and "
            f"--bootstrap HOST:PORT. You gave {'several' if sources else 'none'}. See featurelib "
            "inventory --help."
        )
    source, inventory = open_fleet(fleet, None)
    if from_strimzi is not None:
        listed = strimzi_resources(from_strimzi)
        entries, left_out = [*of_strimzi(listed.clusters)], [*listed.left_out]
    elif bootstrap:
        entries, left_out = [_at(address) for address in bootstrap], []
    else:
        entries, left_out = of_msk([(name, read_text(name)) for name in from_msk or ()])
    new = new_ones(entries, inventory)
    for reason in left_out:
        say(reason)
    say(f"{count(len(entries), 'cluster')} listed, {len(entries) - len(new)} of them in {source}")
    if as_json:
        clusters = [e.keys | {"notes": [*e.notes]} for e in new]
        document = fill(
            FoundDocument, clusters=clusters, known=len(entries) - len(new), left_out=left_out
        )
        print(to_json(document))
    else:
        print("\n".join(e.toml for e in new), end="")
    return 0


def _at(address: str) -> FoundEntry:
    """Return an inventory entry for a cluster's address. Raises ConfigError, UnreachableError."""
    entry = choose(Wanted(bootstrap=address), Fleet(), "--bootstrap")
    with closing(open_backend(entry, load())) as backend:
        cluster_id = id_of(backend.describe(say)[0])
    return FoundEntry(replace(entry, id=cluster_id))
