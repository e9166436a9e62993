"""Remember sent messages in the Delta table gold.notification beside the nightly's tables.

A row records that an item about an owner's cluster was sent to a target, or is resolved since. The
newest row of an item counts: an item that is resolved and comes back is sent again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from featurelib.cli.entrance import say
from featurelib.errors import NoEvidenceError
from featurelib.extras.notify.digest import Items
from featurelib.faults import explaining
from featurelib.lake import VERSION_PROPERTY, Lake
from featurelib.schema import BOOL, LONG, TEXT, TIME, Schema
from featurelib.tables import Table

_TEXTS = [(name, TEXT) for name in ("target", "owner", "cluster", "item")]
NOTIFICATION = Table(
    layer="gold",
    name="notification",
    comment="A row for each item that `featurelib notify` sent, and once more when it is resolved.",
    grain=("run", "target", "owner", "cluster", "item", "sent_at"),
    schema=Schema.of(
        [("run", LONG), ("sent_at", TIME), *_TEXTS, ("critical", BOOL), ("resolved", BOOL)]
    ),
    required=frozenset({"run", "sent_at", "target", "owner", "cluster", "item"}),
)


@dataclass(slots=True)
class Sent:
    """The open items that an address got about an owner, and the time of the newest message."""

    items: Items
    newest: datetime | None = None


class History:
    """The table of sent messages. `add` collects rows; `write` saves them."""

    def __init__(self, lake: Lake, run: int, now: datetime) -> None:
        self._lake, self._run, self._now = lake, run, now
        self._rows = list[dict[str, Any]]()
        self._sent = dict[tuple[str, str], Sent]()
        try:
            rows = lake.read(NOTIFICATION).to_pylist()
        except NoEvidenceError:  # no message was ever sent before
            rows = []
        for row in sorted(rows, key=lambda row: (row["sent_at"], not row["resolved"])):
            self._remember(row)

    def of(self, target: str, owner: str) -> Sent:
        """Return the open items that a target received about an owner."""
        return self._sent.setdefault((target, owner), Sent({}))

    def add(self, target: str, owner: str, items: Items, *, resolved: bool = False) -> None:
        """Add one row per item: sent now or, with `resolved`, resolved."""
        for (cluster, item), critical in items.items():
            row = {"run": self._run, "sent_at": self._now, "target": target, "owner": owner}
            row |= {"cluster": cluster, "item": item, "critical": critical, "resolved": resolved}
            self._rows.append(row)
            self._remember(row)

    def _remember(self, row: dict[str, Any]) -> None:
        sent, key = self.of(row["target"], row["owner"]), (row["cluster"], row["item"])
        if row["resolved"]:
            sent.items.pop(key, None)
        else:
            sent.items[key], sent.newest = row["critical"], row["sent_at"]

    def write(self) -> None:
        """Append rows in one commit; create a missing table. Raises SurroundingsError."""
        import pyarrow as pa
        from deltalake import DeltaTable, write_deltalake

        from featurelib.arrow import schema_of

        schema, uri = schema_of(NOTIFICATION.schema), self._lake.place(NOTIFICATION)
        with explaining(uri):
            DeltaTable.create(
                uri,
                schema,
                mode="ignore",
                name=NOTIFICATION.name,
                description=NOTIFICATION.comment,
                configuration={VERSION_PROPERTY: str(NOTIFICATION.version)},
                raise_if_key_not_exists=False,
            )
            if self._rows:
                write_deltalake(uri, pa.Table.from_pylist(self._rows, schema), mode="append")
        self._rows.clear()


def alone(lake: Lake, run: int) -> AbstractContextManager[object]:
    """Let one process of this machine send at a time. Raises BusyError."""
    from featurelib.spark.hold import HoldingRun, Lease

    path, me = lake.place(NOTIFICATION), HoldingRun.this("featurelib notify", run)
    return nullcontext() if "://" in path else Lease(path, {}, me, say).held()
