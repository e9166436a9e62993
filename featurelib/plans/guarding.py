"""The guards of a plan, as the settings and the inventory have them where it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from featurelib.configuration.fleet import Cluster, Fleet
from featurelib.configuration.settings import Settings
from featurelib.model import Guards


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """What decides the guards of every cluster's plans; `managed` are the clusters, by id, of which
    somebody else finalizes features."""

    require_signature: bool
    managed: Mapping[str, Cluster]

    @staticmethod
    def by(settings: Settings, fleet: Fleet) -> Guarding:
        """By these settings and this inventory."""
        managed = {entry.id: entry for entry in fleet.cluster if entry.managed_by}
        return Guarding(require_signature=settings.require_signature, managed=managed)

    def of(self, cluster: str) -> Guards:
        """The guards of a plan for the cluster with this id."""
        entry = self.managed.get(cluster)
        if entry is None:
            return Guards(require_signature=self.require_signature)
        return Guards(
            require_signature=self.require_signature,
            managed_by=entry.managed_by,
            managed_features=entry.managed,
        )
