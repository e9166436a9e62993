"""The commands that a message goes on with: they reach the same cluster and the same journal again,
from any folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a cluster was chosen on a command line. `reach`: its addresses or file as options, or its
    name; `fleet` and `journal`: the inventory and the journal, where others than the usual ones
    were named."""

    reach: str = ""
    fleet: str | None = None
    journal: str | None = None

    @property
    def text(self) -> str:
        """What chooses the cluster, as options and words of a command line."""
        return f"{self.reach}{_option('fleet', self.fleet)}".strip()

    @property
    def resume(self) -> str:
        """The command that settles a request whose outcome is not known."""
        return f"featurelib resume {self.text}".rstrip() + _option("journal", self.journal)

    @property
    def plan(self) -> str:
        """The command that plans for the cluster again."""
        if self.reach.startswith("--"):  # `plan` takes options after what is asked for
            return f"featurelib plan … {self.text}"
        return f"featurelib plan {self.reach or 'CLUSTER'} …{_option('fleet', self.fleet)}"


def way_of(
    name: str,
    addresses: dict[str, str | None],
    *,
    file: str | None = None,
    fleet: str | None = None,
    journal: str | None = None,
) -> Way:
    """The way by `addresses` (option → value) and `file`, or else by `name`."""
    given = addresses | {"file": _whole(file)}
    words = [f"--{option} {quote(value)}" for option, value in given.items() if value]
    return Way(reach=" ".join(words) or quote(name), fleet=_whole(fleet), journal=_whole(journal))


def _whole(path: str | None) -> str | None:
    return str(Path(path).absolute()) if path else None


def _option(name: str, value: str | None) -> str:
    return f" --{name} {quote(value)}" if value else ""
