"""One snapshot row as evidence that can be rewritten: nodes with other software, gone, or new.

Only what the landing lines would show is changed; who counts, what is finalized and what that means
is judged afterwards, by the same core. The parts are those of featurelib.schema.LAYOUT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from featurelib.audit.cluster_view import NO_FLEET, Sight, see, see_row
from featurelib.audit.columns import Bool
from featurelib.audit.configured import VOTERS
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.core.election import ENABLED, ZnodeContent
from featurelib.core.features_znode import Generation, Reading, decode
from featurelib.errors import ConfigError
from featurelib.feature import Role, Severity, Witness
from featurelib.schema import LAYOUT
from featurelib.snapshot.records import RecordArray, make_records, open_row, write_rows

Ranges = Mapping[str, tuple[int, int]]
Entry = tuple[str, int, int]  # a feature with its two levels or versions
NOTHING = -1  # no profile, no map
UNFENCED, FENCED = 0, 1
_NO_LISTENER = {"full": NOTHING, "partial": NOTHING, "levels": NOTHING, "epoch": NOTHING,
                "highest_epoch": NOTHING, "error": NOTHING, "releases": NOTHING}  # fmt: skip


class Draft:
    """The row of one cluster; `at` is when the changed evidence is seen, microseconds."""

    def __init__(self, row: pa.RecordBatch, at: int) -> None:
        self._row = open_row(row)
        self._parts = self._row.parts
        self._at = at

    def row(self) -> pa.RecordBatch:
        """The row as it is now, of featurelib.schema.SNAPSHOT; its `state` is empty."""
        return write_rows([self._row])

    def run(self, node_id: int, role: Role, ranges: Ranges) -> None:
        """That half of the node runs software that supports `ranges`, registered and answering."""
        profile = self._profile(ranges)
        if not self._of("listeners", node_id, role).any():
            self._append("listeners", node_id=node_id, role=role, **_NO_LISTENER)
        self._set(
            "listeners",
            self._of("listeners", node_id, role),
            full=profile,
            full_at=self._at,
            partial=NOTHING,
            partial_at=0,
            partial_line=0,
            failed_at=0,
            failed_line=0,
            error=NOTHING,
        )
        mine = self._of("registrations", node_id, role)
        fenced = np.minimum(self._parts["registrations"]["fenced"][mine], UNFENCED)
        self._set("registrations", mine, profile=profile, at=self._at, fenced=fenced)
        self._fence(node_id, UNFENCED)

    def stop(self, node_id: int, role: Role) -> None:
        """That half of the node does not run; what is registered of it stays."""
        error = self._row.text_code("it would not start")
        mine = self._of("listeners", node_id, role)
        self._set("listeners", mine, failed_at=self._at, error=error)
        if role is Role.BROKER:
            if self._in_zookeeper:  # a registration lives as long as its broker
                self._remove("registrations", self._of("registrations", node_id, role))
            mine = self._of("registrations", node_id, role)
            mine &= self._parts["registrations"]["fenced"] >= 0
            self._set("registrations", mine, fenced=FENCED)
            self._fence(node_id, FENCED)

    def add(self, node_id: int, ranges: Ranges) -> None:
        """A broker that was not there registers, and answers."""
        is_logged = not self._in_zookeeper
        if self._in_zookeeper or self._scalar("log_end") > 0:
            self._append(
                "registrations",
                node_id=node_id,
                role=Role.BROKER,
                witness=Witness.METADATA_LOG if is_logged else Witness.FEATURES_NODE,
                profile=NOTHING,
                fenced=UNFENCED if is_logged else -1,
                at=self._at,
            )
        lists = self._parts["members"]
        # From the last list on, so that the ends of those before it stay.
        for i in reversed(np.flatnonzero(lists["role"] == Role.BROKER).tolist()):
            new = make_records("member", [(node_id, UNFENCED if lists["fenced_shown"][i] else -1)])
            end = int(lists["size"][: i + 1].sum())
            self._parts["member"] = np.insert(self._parts["member"], end, new)
            lists["size"][i] += 1
        self.run(node_id, Role.BROKER, ranges)

    def remove(self, node_id: int) -> None:
        """Both halves of the node are gone: stopped, unregistered, and no voter."""
        lists, owner = self._parts["members"], self._list_of_member()
        left = owner[~self._of("member", node_id)]
        lists["size"] = np.bincount(left, minlength=len(lists))
        for part in ("listeners", "registrations", "member", "voters", "observers"):
            self._remove(part, self._of(part, node_id))
        if self._scalar("controller") == node_id:
            self.depose()

    def forget_configured(self) -> None:
        """Nothing is known of whom controllers are configured to ask."""
        code = self._row.text_code(VOTERS)
        self._remove("configs", self._parts["configs"]["key"] == code)

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Whoever shows what is finalized shows `levels` as well; 0 takes a feature away.

        Raises ConfigError for a features node that cannot be read.
        """
        maps = []
        for entries in self._maps("level_maps", "levels"):
            kept = {name: (name, low, level) for name, low, level in entries}
            kept |= {name: (name, level, level) for name, level in levels.items()}
            maps.append([kept[n] for n in sorted(kept) if n not in levels or levels[n]])
        self._set_maps("level_maps", "levels", maps)
        if self._row.features_node is not None:
            self._row.features_node = self._written(self._row.features_node, levels)

    def elect(self, text: str, version: int, content: ZnodeContent) -> None:
        """A new controller left the features node so, and every broker has seen it."""
        self._row.features_node = text
        new = {"version": version, "at": self._at, "line": 0}
        for name, value in new.items():
            self._parts["scalars"][f"features_node_{name}"] = value
        is_on = content.status == ENABLED
        everybody = np.ones(len(self._parts["listeners"]), dtype=bool)
        self._set(
            "listeners",
            everybody,
            levels=self._map("level_maps", "levels", list(content.levels)) if is_on else NOTHING,
            epoch=version if is_on else NOTHING,
            highest_epoch=version if is_on else NOTHING,
            levels_at=self._at if is_on else 0,
            levels_line=0,
        )
        self.register_features(on=is_on)

    def register_features(self, *, on: bool) -> None:
        """Every broker of ZooKeeper mode registers what its software supports, or nothing of it:
        by the protocol version it runs with."""
        for i in range(len(self._parts["registrations"])):
            software = self._software(i)
            self._parts["registrations"]["profile"][i] = software if on else NOTHING

    def depose(self) -> None:
        """Nobody is the controller."""
        self._parts["scalars"]["controller"] = NOTHING

    def _software(self, registered: int) -> int:
        """The profile of a broker's software, by its registration or else by its answer."""
        entry = self._parts["registrations"][registered]
        mine = self._of("listeners", int(entry["node_id"]), Role(int(entry["role"])))
        known = self._parts["listeners"][mine]
        if entry["profile"] < 0:
            answers = [(int(one["full_at"]), int(one["full"])) for one in known]
            answers += [(int(one["partial_at"]), int(one["partial"])) for one in known]
            return max(answers)[1] if answers else NOTHING
        if not (np.maximum(known["full"], known["partial"]) >= 0).any():
            if len(known) == 0:
                who = {"node_id": entry["node_id"], "role": entry["role"]}
                self._append("listeners", **who, **_NO_LISTENER)
                mine = np.arange(len(self._parts["listeners"])) == len(mine)
            answer = {"full": entry["profile"], "full_at": entry["at"], "full_line": entry["line"]}
            self._set("listeners", np.arange(len(mine)) == np.argmax(mine), **answer)
        return int(entry["profile"])

    @property
    def _in_zookeeper(self) -> bool:
        return bool(self._scalar("zookeeper"))

    def _scalar(self, name: str) -> int:
        return int(self._parts["scalars"][name][0])

    def _written(self, text: str, levels: Mapping[str, int]) -> str:
        readings = [decode(text, generation) for generation in Generation]
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
        entries = [(name, low, high) for name, (low, high) in sorted(ranges.items())]
        return self._map("profiles", "ranges", entries)

    def _map(self, sizes: str, part: str, entries: list[Entry]) -> int:
        """The position of a map, which is added where it is new."""
        maps = self._maps(sizes, part)
        if entries not in maps:
            self._set_maps(sizes, part, [*maps, entries])
        return len(maps) if entries not in maps else maps.index(entries)

    def _maps(self, sizes: str, part: str) -> list[list[Entry]]:
        entries = [
            (self._row.names[code], low, high) for code, low, high in self._parts[part].tolist()
        ]
        ends = np.cumsum(self._parts[sizes]["size"]).tolist()
        return [entries[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def _set_maps(self, sizes: str, part: str, maps: list[list[Entry]]) -> None:
        name = self._row.name_code
        flat = [(name(feature), low, high) for one in maps for feature, low, high in one]
        self._parts[part] = make_records(part, flat)
        self._parts[sizes] = make_records(sizes, [(len(one),) for one in maps])

    def _of(self, part: str, node_id: int, role: Role | None = None) -> Bool:
        """The records of a node, of one half of it where `role` names one."""
        records = self._parts[part]
        mine: Bool = records["node_id"] == node_id
        return mine if role is None else mine & (records["role"] == role)

    def _set(self, part: str, mine: Bool, **values: int | npt.NDArray[Any]) -> None:
        for name, value in values.items():
            self._parts[part][name][mine] = value

    def _append(self, part: str, **values: int) -> None:
        """A record more; what `values` leaves out is 0."""
        new: RecordArray = np.zeros(1, dtype=LAYOUT[part])
        for name, value in values.items():
            new[name] = value
        self._parts[part] = np.concatenate((self._parts[part], new))

    def _remove(self, part: str, mine: Bool) -> None:
        self._parts[part] = self._parts[part][~mine]

    def _list_of_member(self) -> npt.NDArray[np.int64]:
        lists = self._parts["members"]
        return np.repeat(np.arange(len(lists)), lists["size"])

    def _fence(self, node_id: int, fenced: int) -> None:
        mine = self._of("member", node_id) & (self._parts["member"]["fenced"] >= 0)
        self._set("member", mine, fenced=fenced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """`as_of` and `max_age` in microseconds; `as_of` None = the newest line of the cluster."""

    catalogue: Catalogue
    as_of: int | None
    max_age: int
    fleet: Fleet = NO_FLEET
    severities: dict[str, Severity] | None = None

    def see_lines(self, lines: Iterable[bytes], cluster_id: str | None = None) -> Sight:
        """Judge landing lines of one cluster by these terms."""
        return see(
            lines,
            catalogue=self.catalogue,
            as_of=self.as_of,
            max_age=self.max_age,
            fleet=self.fleet,
            severities=self.severities,
            cluster_id=cluster_id,
        )

    def see(self, row: pa.RecordBatch, *, controller_decides: bool = False) -> Sight:
        """Judge a snapshot row by these terms; see featurelib.audit.cluster_view.see_row."""
        return see_row(
            row,
            catalogue=self.catalogue,
            as_of=self.as_of,
            max_age=self.max_age,
            fleet=self.fleet,
            severities=self.severities,
            controller_decides=controller_decides,
        )
