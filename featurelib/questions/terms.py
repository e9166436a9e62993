"""What a look is judged by beside its evidence, so that a changed look is judged by the same."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from featurelib.catalogue import Catalogue
from featurelib.configuration.fleet import Fleet
from featurelib.feature import Severity
from featurelib.sight import NO_FLEET, Sight, see_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """`as_of` and `max_age` in microseconds; `as_of` None = the newest line of the cluster."""

    catalogue: Catalogue
    as_of: int | None
    max_age: int
    fleet: Fleet = NO_FLEET
    severities: dict[str, Severity] | None = None

    def see(self, row: pa.RecordBatch) -> Sight:
        """A snapshot row as these terms judge it."""
        return see_row(
            row,
            catalogue=self.catalogue,
            as_of=self.as_of,
            max_age=self.max_age,
            fleet=self.fleet,
            severities=self.severities,
        )
