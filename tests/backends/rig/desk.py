"""A desk where a person works: a folder with an inventory, and commands run there.

What was printed and written is kept, so that it can be searched for secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.backends.rig.cluster import RunningCluster
from tests.cli.forked import forks

SECRETS = "secrets"  # the only folder that may hold some


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A folder with an inventory, commands run there as a person runs them, and all they said."""

    folder: Path
    said: list[str]
    environment: Mapping[str, str]

    def run(self, *words: str, code: int = 0) -> str:
        environment = {"HOME": str(self.folder), **self.environment}
        found, *said = forks().run(*words, cwd=self.folder, environment=environment)
        out, err = (text.decode() for text in said)
        self.said.extend((out, err))
        assert found == code, f"{words}\n{out}\n{err}"
        return out + err

    def upgrade(self, cluster: str) -> str:
        """Plan, approve and apply what the newest release allows; what applying said."""
        self.run("plan", cluster, "upgrade", "--out", "plan.json")
        self.run("approve", "plan.json", "--expires", "1h", "--yes", "--reason", "test")
        approved = ("plan.json", "--approval", "plan.approval.json")
        return self.run("apply", *approved, "--yes", "--journal", "journal.sqlite")

    def leaks(self, *secrets: str) -> list[str]:
        """Where a secret stands: what was printed, and the name of a file that was written."""
        found = [text for text in self.said if any(one in text for one in secrets)]
        for path in self.folder.rglob("*"):
            if path.is_file() and path.parent.name != SECRETS:
                raw = path.read_bytes()
                found += [str(path) for one in secrets if one.encode() in raw]
        return found


def make_desk(
    folder: Path, cluster: RunningCluster, keys: str, environment: Mapping[str, str] | None = None
) -> Desk:
    """An inventory with the cluster as `payments`, by SASL_SSL with `keys`; node 1 is expected."""
    (folder / "conf").mkdir()
    (folder / SECRETS).mkdir()
    assert cluster.security is not None
    (folder / "conf" / "fleet.toml").write_text(
        f'[[cluster]]\nid = "{cluster.cluster_id}"\nname = "payments"\n'
        f'bootstrap = ["{cluster.bootstrap}"]\nbrokers = [1]\ncontrollers = [1]\n'
        f'[cluster.security]\nprotocol = "SASL_SSL"\nca_file = "{cluster.security.certificate}"\n'
        + keys
    )
    return Desk(folder=folder, said=[], environment=environment or {})


def collected(at: Desk) -> dict[tuple[str, int], dict[str, object]]:
    """The newest ApiVersions line of each listener below `landing`."""
    found = {}
    for path in sorted((at.folder / "landing").iterdir()):
        for line in map(json.loads, path.read_bytes().splitlines()):
            if line["kind"] == "api_versions":
                found[line["role"], line["node_id"]] = line
    return found
