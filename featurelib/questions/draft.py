"""One snapshot row as evidence that can be rewritten: nodes with other software, gone, or new.

Only what the landing lines would say is changed; who counts, what is finalized and what that means
is judged afterwards, by the same core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from featurelib.audit.cluster_view import NO_FLEET, Sight, see_row
from featurelib.audit.configured import VOTERS
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.core.election import ENABLED, ZnodeContent
from featurelib.core.features_znode import Generation, Reading, decode
from featurelib.errors import ConfigError
from featurelib.feature import Role, Severity, Witness
from featurelib.schema import SNAPSHOT
from featurelib.snapshot.layout import unpack
from featurelib.snapshot.packed import pack

Ranges = Mapping[str, tuple[int, int]]
NOTHING = -1  # no profile, no map
LISTS = (
    "profiles",
    "level_maps",
    "listeners",
    "registrations",
    "witnesses",
    "members",
    "voters",
    "observers",
)
UNFENCED, FENCED = 0, 1


class Draft:
    """The row of one cluster; `at` is when the changed evidence is seen, microseconds."""

    def __init__(self, row: pa.RecordBatch, at: int) -> None:
        self._said: dict[str, Any] = unpack(row).to_pylist()[0]
        self._at = at

    def row(self) -> pa.RecordBatch:
        """The row as it is now, of featurelib.schema.SNAPSHOT; its `state` is empty."""
        columns = {
            name: pa.array([self._said.get(name)], SNAPSHOT.field(name).type)
            for name in SNAPSHOT.names
            if name not in ("packed", "state")
        }
        columns["packed"] = pack({name: columns[name] for name in LISTS})
        columns["state"] = pa.array([b""], pa.binary())
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in SNAPSHOT.names], schema=SNAPSHOT
        )

    def run(self, node_id: int, role: Role, ranges: Ranges) -> None:
        """That half of the node runs software that supports `ranges`, registered and answering."""
        profile = self._profile(ranges)
        said = {"full": profile, "full_at": self._at, "failed_at": 0, "error": None}
        said |= {"partial": NOTHING, "partial_at": 0, "partial_line": 0, "failed_line": 0}
        mine = [one for one in self._of("listeners", node_id) if one["role"] == role]
        for one in mine:
            one.update(said)
        if not mine:
            self._said["listeners"].append(self._listener(node_id, role) | said)
        for one in self._of("registrations", node_id):
            if one["role"] == role:
                one.update(profile=profile, at=self._at, fenced=min(one["fenced"], UNFENCED))
        self._fence(node_id, UNFENCED)

    def stop(self, node_id: int, role: Role) -> None:
        """That half of the node does not run; what is registered of it stays."""
        for one in self._of("listeners", node_id):
            if one["role"] == role:
                one.update(failed_at=self._at, error="it would not start")
        if role is Role.BROKER:
            if self._said["zookeeper"]:  # a registration lives as long as its broker
                self._keep_without("registrations", node_id, Role.BROKER)
            for one in self._of("registrations", node_id):
                if one["role"] == Role.BROKER and one["fenced"] >= 0:
                    one["fenced"] = FENCED
            self._fence(node_id, FENCED)

    def add(self, node_id: int, ranges: Ranges) -> None:
        """A broker that was not there registers, and answers."""
        witness = Witness.FEATURES_NODE if self._said["zookeeper"] else Witness.METADATA_LOG
        if self._said["zookeeper"] or self._said["log_end"] > 0:
            known = witness is Witness.METADATA_LOG
            self._said["registrations"].append(
                {
                    "node_id": node_id,
                    "role": int(Role.BROKER),
                    "witness": int(witness),
                    "profile": NOTHING,
                    "fenced": UNFENCED if known else -1,
                    "at": self._at,
                    "line": 0,
                }
            )
        for listed in self._said["members"]:
            if listed["role"] == Role.BROKER:
                fenced = UNFENCED if listed["fenced_shown"] else -1
                listed["members"].append({"node_id": node_id, "fenced": fenced})
        self.run(node_id, Role.BROKER, ranges)

    def remove(self, node_id: int) -> None:
        """Both halves of the node are gone: stopped, unregistered, and no voter."""
        for name in ("listeners", "registrations"):
            self._keep_without(name, node_id, None)
        for listed in self._said["members"]:
            listed["members"] = [one for one in listed["members"] if one["node_id"] != node_id]
        for name in ("voters", "observers"):
            self._said[name] = [one for one in self._said[name] if one != node_id]
        if self._said["controller"] == node_id:
            self._said["controller"] = NOTHING

    def forget_configured(self) -> None:
        """Nothing is known of whom controllers are configured to ask."""
        self._said["configs"] = [one for one in self._said["configs"] or () if one["key"] != VOTERS]

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Whoever says what is finalized says `levels` as well; 0 takes a feature away.

        Raises ConfigError for a features node that cannot be read.
        """
        for position, said in enumerate(self._said["level_maps"]):
            kept = {one["feature"]: one for one in said}
            for name, level in levels.items():
                kept[name] = {"feature": name, "min_level": level, "level": level}
            rows = [kept[name] for name in sorted(kept) if name not in levels or levels[name]]
            self._said["level_maps"][position] = rows
        if self._said["features_node"] is not None:
            self._said["features_node"] = self._written(levels)

    def elect(self, text: str, version: int, content: ZnodeContent) -> None:
        """A new controller left the features node so, and every broker has seen it."""
        self._said |= {"features_node": text, "features_node_version": version}
        self._said |= {"features_node_at": self._at, "features_node_line": 0}
        on = content.status == ENABLED
        rows = [{"feature": n, "min_level": low, "level": top} for n, low, top in content.levels]
        seen = {"levels": NOTHING, "epoch": NOTHING, "levels_at": 0, "levels_line": 0}
        if on:
            seen |= {"levels": self._map(rows), "epoch": version, "levels_at": self._at}
        for one in self._said["listeners"]:
            one.update(seen)
        self.register_features(on=on)

    def register_features(self, *, on: bool) -> None:
        """Every broker of ZooKeeper mode registers what its software supports, or nothing of it:
        by the protocol version it runs with."""
        for one in self._said["registrations"]:
            software = self._software(one)
            one["profile"] = software if on else NOTHING

    def depose(self) -> None:
        """Nobody is the controller."""
        self._said["controller"] = NOTHING

    def _software(self, registered: dict[str, Any]) -> int:
        """The profile of a broker's software, by its registration or else by its answer."""
        node_id, profile = registered["node_id"], int(registered["profile"])
        mine = [one for one in self._of("listeners", node_id) if one["role"] == registered["role"]]
        if profile < 0:
            said = [(o["full_at"], o["full"]) for o in mine]
            said += [(o["partial_at"], o["partial"]) for o in mine]
            return int(max(said)[1]) if said else NOTHING
        if not any(max(one["full"], one["partial"]) >= 0 for one in mine):
            if not mine:
                mine = [self._listener(node_id, registered["role"])]
                self._said["listeners"] += mine
            mine[0].update(full=profile, full_at=registered["at"], full_line=registered["line"])
        return profile

    def _map(self, rows: list[dict[str, Any]]) -> int:
        if rows not in self._said["level_maps"]:
            self._said["level_maps"].append(rows)
        return int(self._said["level_maps"].index(rows))

    def _written(self, levels: Mapping[str, int]) -> str:
        readings = [decode(self._said["features_node"], generation) for generation in Generation]
        good = next((one for one in readings if one.reading is Reading.ACCEPTED), None)
        if good is None:
            raise ConfigError(
                "--finalize: expected a features node that can be changed, found one that is off "
                f"or cannot be read: {readings[-1].fault or 'the feature system is off'}"
            )
        rows = {name: (low, level) for name, low, level in good.levels}
        for name, level in levels.items():
            rows[name] = (min(rows.get(name, (1, 1))[0], level), level)
        kept = sorted((name, *ends) for name, ends in rows.items() if ends[1])
        schema, status = good.schema_version or 1, good.status or 0
        return ZnodeContent(schema_version=schema, status=status, levels=tuple(kept)).text

    def _profile(self, ranges: Ranges) -> int:
        rows = [
            {"feature": name, "min_version": low, "max_version": high}
            for name, (low, high) in sorted(ranges.items())
        ]
        if rows not in self._said["profiles"]:
            self._said["profiles"].append(rows)
        return int(self._said["profiles"].index(rows))

    def _of(self, name: str, node_id: int) -> list[dict[str, Any]]:
        return [one for one in self._said[name] if one["node_id"] == node_id]

    def _keep_without(self, name: str, node_id: int, role: Role | None) -> None:
        self._said[name] = [
            one
            for one in self._said[name]
            if one["node_id"] != node_id or role not in (None, one["role"])
        ]

    def _fence(self, node_id: int, fenced: int) -> None:
        for listed in self._said["members"]:
            for one in listed["members"]:
                if one["node_id"] == node_id and one["fenced"] >= 0:
                    one["fenced"] = fenced

    def _listener(self, node_id: int, role: Role) -> dict[str, Any]:
        nothing = dict.fromkeys(("full", "partial", "levels", "epoch"), NOTHING)
        times = ("full_at", "partial_at", "levels_at", "failed_at")
        lines = ("full_line", "partial_line", "levels_line", "failed_line")
        said = {"node_id": node_id, "role": int(role), "error": None}
        return said | nothing | dict.fromkeys((*times, *lines), 0)


# ----------------------------------------
# What a look is judged by beside its evidence, so that a changed look is judged by the same.


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
