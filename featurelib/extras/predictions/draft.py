"""Change one snapshot row as if nodes had other software, were stopped, or were new.

Only facts that landing lines would show are changed, and the core judges the row afterwards. The
parts are those of featurelib.schema.LAYOUT; the content of a list or map is in `entries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from featurelib.core.features_znode import ENABLED, Generation, ZnodeContent, ZnodeReading, decode
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, Role, Witness
from featurelib.rows import TableRows
from featurelib.schema import LAYOUT
from featurelib.snapshot.records import NODE_GONE, make_records, open_row, write_rows

Record = dict[str, Any]
Ranges = Mapping[str, tuple[int, int]]
NOTHING = -1  # the position of no profile or map
UNFENCED, FENCED = 0, 1
MAPS = {"profiles": "ranges", "level_maps": "levels"}
_LISTS = MAPS | {"members": "member"}
_ANSWERS = ("full", "partial")
_NO_LISTENER = dict.fromkeys(
    ("full", "partial", "levels", "epoch", "highest_epoch", "error", "releases", "scraped"), NOTHING
)


class Draft:
    """A snapshot row of a cluster to which changes are applied. `at`: the time of the changes,
    microseconds."""

    def __init__(self, row: TableRows, at: int) -> None:
        self._row, self._at = open_row(row), at
        self._parts: dict[str, list[Record]] = {
            part: [dict(zip(kind.names or (), r, strict=True)) for r in records.tolist()]
            for (part, records), kind in zip(self._row.parts.items(), LAYOUT.values(), strict=True)
        }
        for lists, part in _LISTS.items():
            entries = iter(self._parts.pop(part))
            for r in self._parts[lists]:
                r["entries"] = list(islice(entries, r["size"]))
        for r in (r for field in MAPS for r in self._parts[field]):
            coded = [tuple(entry.values()) for entry in r["entries"]]
            r["entries"] = [(self._row.names[code], low, high) for code, low, high in coded]
        [self._scalars] = self._parts["scalars"]

    def row(self) -> TableRows:
        """Return the changed row of featurelib.schema.SNAPSHOT. The column `state` is empty."""
        parts = dict(self._parts)
        for field, part in _LISTS.items():
            parts[field] = [r | {"size": len(r["entries"])} for r in parts[field]]
            parts[part] = [entry for r in parts[field] for entry in r["entries"]]
        code = self._row.name_code
        for part, layout in LAYOUT.items():
            if part in MAPS.values():
                rows = [(code(name), *ends) for name, *ends in parts[part]]
            else:
                rows = [tuple(r[name] for name in layout.names or ()) for r in parts[part]]
            self._row.parts[part] = make_records(part, rows)
        return write_rows([self._row])

    def run(self, node_id: int, role: Role, ranges: Ranges) -> None:
        """Change a node in one role to software with the supported `ranges`, and register it."""
        profile = self._map("profiles", {name: ranges[name] for name in sorted(ranges)})
        answered = dict.fromkeys(("partial_at", "partial_line", "failed_at", "failed_line"), 0)
        # The supported requests in the row identify the old software.
        answered |= dict.fromkeys(("partial", "error", "scraped", "releases"), NOTHING)
        answered |= {"full": profile, "full_at": self._at}
        for r in self._of("listeners", node_id, role) or [self._add_listener(node_id, role)]:
            r |= answered
        for r in self._of("registrations", node_id, role):
            r |= {"profile": profile, "at": self._at, "fenced": min(r["fenced"], UNFENCED)}
        self._fence(node_id, UNFENCED)
        for operated in self._parts["strimzi"]:  # the operator's status will follow
            operated["status_version"] = NOTHING

    def stop(self, node_id: int, role: Role) -> None:
        """Stop a node in one role. Its registration stays."""
        error = self._row.text_code("it would not start")
        for r in self._of("listeners", node_id, role):
            r |= {"failed_at": self._at, "error": error, "scraped": NOTHING}
        if role is Role.BROKER:
            registered = self._of("registrations", node_id, role)
            if self._scalars["zookeeper"]:  # a registration ends with its broker
                for r in registered:
                    self._parts["registrations"].remove(r)
            else:  # the registration of a stopped node still counts
                for r in registered or [self._add_registration(node_id)]:
                    r |= {"profile": self._newest(r), "at": self._at, "fenced": FENCED}
            self._fence(node_id, FENCED)

    def add(self, node_id: int, ranges: Ranges) -> None:
        """Add a registered, responding broker."""
        if self._scalars["zookeeper"] or self._scalars["log_end"] > 0:
            self._add_registration(node_id)
        for r in self._parts["members"]:
            if r["role"] == Role.BROKER:
                fenced = UNFENCED if r["fenced_shown"] else -1
                r["entries"].append({"node_id": node_id, "fenced": fenced})
        if self._parts["strimzi"]:
            self._add("strimzi_nodes", node_id=node_id, role=Role.BROKER, version=NOTHING)
        self.run(node_id, Role.BROKER, ranges)

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Set the finalized `levels` in every source of levels; 0 deletes a feature. Raises
        ConfigError if the `/feature` znode is unreadable."""
        for r in self._parts["level_maps"]:
            entries = {name: (name, low, level) for name, low, level in r["entries"]}
            entries |= {name: (name, level, level) for name, level in levels.items()}
            r["entries"] = [entries[n] for n in sorted(entries) if n not in levels or levels[n]]
        for operated in self._parts["strimzi"] if METADATA_VERSION in levels else ():
            # The operator's status will follow. Without a requested level, a level in the status
            # shows that the operator upgrades levels by itself.
            raises = operated["metadata_version"] == NOTHING != operated["status_metadata_version"]
            text = str(levels[METADATA_VERSION]) if raises else None
            operated["status_metadata_version"] = self._row.text_code(text)
        is_gone = self._scalars["features_node_version"] == NODE_GONE
        if self._row.features_node is not None and not is_gone:
            self._row.features_node = _written(self._row.features_node, levels)

    def elect(self, text: str, version: int, content: ZnodeContent) -> None:
        """Set `/feature` to the content that a new controller writes. Every broker has read it."""
        self._row.features_node = text
        new = {"version": version, "at": self._at, "line": 0}
        self._scalars |= {f"features_node_{name}": value for name, value in new.items()}
        is_on = content.status == ENABLED
        levels = {name: (low, level) for name, low, level in content.levels}
        read = {
            "levels": self._map("level_maps", levels) if is_on else NOTHING,
            "epoch": version if is_on else NOTHING,
            "highest_epoch": version if is_on else NOTHING,
            "levels_at": self._at if is_on else 0,
            "levels_line": 0,
        }
        for r in self._parts["listeners"]:
            r |= read
        self.register_features(on=is_on)

    def register_features(self, *, on: bool) -> None:
        """Register the supported features of every broker in ZooKeeper mode. `on` false: register
        no features, as with an old protocol version."""
        for r in self._parts["registrations"]:
            software = self._software(r)
            r["profile"] = software if on else NOTHING

    def depose(self) -> None:
        """Remove the active controller."""
        self._scalars["controller"] = NOTHING

    def _newest(self, registered: Record) -> int:
        """Return the number of a broker's newest range map, from its registration or responses."""
        listeners = self._of("listeners", registered["node_id"], registered["role"])
        profiles = [(r[f"{kind}_at"], r[kind]) for r in listeners for kind in _ANSWERS]
        profiles.append((registered["at"], registered["profile"]))
        return int(max(((number >= 0, at, number) for at, number in profiles))[2])

    def _software(self, registered: Record) -> int:
        """Return the number of the range map of a broker's software. If only the registration has
        it, add it as a response."""
        node_key, profile = (registered["node_id"], registered["role"]), int(registered["profile"])
        listeners = self._of("listeners", *node_key)
        if profile >= 0 and not any(r[kind] >= 0 for r in listeners for kind in _ANSWERS):
            first = listeners[0] if listeners else self._add_listener(*node_key)
            first |= {"full": profile, "full_at": registered["at"], "full_line": registered["line"]}
        return profile if profile >= 0 else self._newest(registered)

    def _map(self, lists: str, ends: Ranges) -> int:
        """Return the position of a range map or level map; add the map if it is new."""
        entries = [(name, low, high) for name, (low, high) in ends.items()]
        maps = [r["entries"] for r in self._parts[lists]]
        if entries not in maps:
            self._parts[lists].append({"entries": entries})
            maps.append(entries)
        return maps.index(entries)

    def _of(self, part: str, node_id: int, role: int) -> list[Record]:
        """Return the records in a part of the row about a node in one role."""
        node_key = node_id, role
        return [r for r in self._parts[part] if (r["node_id"], r["role"]) == node_key]

    def _add(self, part: str, **values: int) -> Record:
        """Add a record to a part of the row. Fields not in `values` are 0."""
        self._parts[part].append(dict.fromkeys(LAYOUT[part].names or (), 0) | values)
        return self._parts[part][-1]

    def _add_registration(self, node_id: int) -> Record:
        keys = {"node_id": node_id, "role": Role.BROKER, "profile": NOTHING, "at": self._at}
        if self._scalars["zookeeper"]:
            return self._add("registrations", **keys, witness=Witness.FEATURES_NODE, fenced=-1)
        return self._add("registrations", **keys, witness=Witness.METADATA_LOG, fenced=UNFENCED)

    def _add_listener(self, node_id: int, role: int) -> Record:
        return self._add("listeners", node_id=node_id, role=role, **_NO_LISTENER)

    def _fence(self, node_id: int, fenced: int) -> None:
        for r in (r for members in self._parts["members"] for r in members["entries"]):
            if r["node_id"] == node_id and r["fenced"] >= 0:
                r["fenced"] = fenced


def _written(text: str, levels: Mapping[str, int]) -> str:
    """Return the text of `/feature` with these levels, as a controller writes it."""
    readings = [decode(text, generation) for generation in Generation]
    good = next((reading for reading in readings if reading.reading is ZnodeReading.ACCEPTED), None)
    if good is None:
        raise ConfigError(
            "--finalize: The /feature znode cannot be changed: "
            f"{readings[-1].fault or 'the feature system is off'}"
        )
    rows = {name: (low, level) for name, low, level in good.levels}
    for name, level in levels.items():
        rows[name] = (min(rows.get(name, (1, 1))[0], level), level)
    ranges = sorted((name, *ends) for name, ends in rows.items() if ends[1])
    schema, status = good.schema_version or 1, good.status or 0
    return ZnodeContent(schema_version=schema, status=status, levels=tuple(ranges)).text
