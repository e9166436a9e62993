"""Compute the levels of a new cluster, or every reason why kafka-storage format refuses.

The tool of one release is a table (`storage_format.toml`) of its checks and messages. All tools
share one order of checks; the tool prints the first refusal, here are all. The levels of a release
come from its own catalogue (KIP-1022, storage tool; Formatter.java, StorageTool).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.errors import ConfigError
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, SILENT_METADATA_VERSION

DYNAMIC, STATIC = 1, 0  # kraft.version of a dynamic and of a static quorum (KIP-853)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    """The arguments and settings of kafka-storage.sh format."""

    release_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    dynamic_quorum: bool = False  # --standalone, --initial-controllers, --no-initial-controllers
    static_voters: bool = True  # controller.quorum.voters is set; it is empty in a dynamic quorum
    unstable: bool = False  # the setting unstable.feature.versions.enable
    migration: bool = False  # the setting zookeeper.metadata.migration.enable
    patch: str = ""  # the tool's release, such as 4.1.0: patch releases differ


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRefusal:
    """A reason why kafka-storage.sh format refuses: a stable code and the tool's message."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Initial:
    """The levels of a new cluster, or why format refuses. Unlisted features have level 0."""

    levels: dict[str, int]  # metadata.version first, then levels above 0 by feature name
    refusals: tuple[FormatRefusal, ...]  # refusals in the tool's order; the tool prints the first

    @property
    def records(self) -> dict[str, int]:
        """The levels that format writes as FeatureLevelRecords: all except kraft.version."""
        return {name: level for name, level in self.levels.items() if name != KRAFT_VERSION}


def initial_levels(software: ReleaseCatalogue, request: FormatRequest) -> Initial:
    """Return the levels that kafka-storage.sh format of `software` writes, or its refusals."""
    # A vendor build uses the tool of the release it is based on.
    tools = (tool for tool in _TOOLS if software.based_on in tool.releases)
    tool = next(tools, _TOOLS[-1])
    formatting, texts = _Format(software, request, tool), tool.says | _DATA["migration"]["says"]
    refusals = tuple(
        FormatRefusal(code=code, text=texts[code].format_map(values))
        for code, is_so, values in formatting.questions()
        if is_so and code in texts
    )
    return Initial(levels={} if refusals else formatting.written(), refusals=refusals)


def preview_levels(software: ReleaseCatalogue) -> Initial:
    """Return the levels that `software` reads from a cluster formatted before 3.3, as a preview.

    Its log has no record of metadata.version, which the active controller takes for 3.0-IV1
    (KIP-778; QuorumController). Software that does not know that level cannot read it.
    """
    if software.knows(METADATA_VERSION, SILENT_METADATA_VERSION):
        return Initial(levels={METADATA_VERSION: SILENT_METADATA_VERSION}, refusals=())
    text = _DATA["preview"]["unreadable"].format(release=software.release)
    return Initial(levels={}, refusals=(FormatRefusal(code="preview", text=text),))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """The kafka-storage tool of some releases: a row of storage_format.toml."""

    releases: list[str]
    says: dict[str, str]  # check → message; checks without a message are skipped
    ignores_unknown_features: bool = False
    defaults_of_latest: bool = False
    unstable_by_default: bool = False
    unstable_names_unknown: bool = False
    kraft_needs_nothing: bool = False
    kraft_needs: dict[str, int] = field(default_factory=dict)  # patch → lowest metadata.version


_DATA: Final = tomllib.loads(
    files(__package__).joinpath("storage_format.toml").read_text(encoding="utf-8")
)
_TOOLS: Final = tuple(_Tool(**row) for row in _DATA["tool"])


_Asked = tuple[str, bool, dict[str, object]]  # code, true if it refuses, values for the message


class _Format:
    """A format request to one release's tool. If the metadata.version is invalid, checks that need
    it are skipped."""

    def __init__(self, software: ReleaseCatalogue, request: FormatRequest, tool: _Tool) -> None:
        self.software, self.request, self.tool = software, request, tool
        # True if the tool lacks the names of unstable versions.
        self.names_unstable = request.unstable or not tool.unstable_names_unknown
        self.version = self._chosen_version()
        self.before_kraft = self._old_name() if "before_kraft" in tool.says else None
        self.features = {
            name: level
            for name, level in request.features.items()
            if name in software.features or not tool.ignores_unknown_features
            if name != METADATA_VERSION
        }
        self.proposed = self._proposed()
        self.others = sorted(set(self.proposed) - {METADATA_VERSION})
        usable = software.known_levels(METADATA_VERSION, unstable=request.unstable)
        self.is_unstable = self.version is not None and self.version not in usable

    def questions(self) -> Iterator[_Asked]:
        """Yield (code, is refused, values for the message) for each check, in order."""
        software, request, version = self.software, self.request, self.version
        text, level = request.release_version, request.features.get(METADATA_VERSION)
        dynamic, features = request.dynamic_quorum, bool(request.features)
        accepted = software.known_levels(METADATA_VERSION, unstable=self.names_unstable)
        names = [software.names[n] for n in accepted]
        listed = {"names": ", ".join(names), "oldest": names[0], "newest": names[-1]}
        ends = {"oldest_level": accepted[0], "newest_level": max(software.names)}
        unknown = text is not None and version is None and self.before_kraft is None
        yield "no_feature_flag", features, {}
        yield "no_dynamic_quorum", dynamic, {}
        yield "both_flags", features and text is not None, {}
        yield "unknown_version", unknown, {"version": text, **listed}
        yield "no_quorum", not (request.static_voters or dynamic), {}
        yield "version_twice", text is not None and level is not None, {}
        unknown = text is None and level is not None and version is None
        yield "unknown_level", unknown, {"level": level, **ends}
        yield "before_kraft", self.before_kraft is not None, {"name": self.before_kraft}
        yield "unstable", self.is_unstable, {"name": software.names.get(version or 0)}
        known = ", ".join(sorted(software.features))
        for name in sorted(set(self.features) - set(software.features)):
            yield "unsupported_feature", True, {"feature": name, "features": known}
        if KRAFT_VERSION in self.features and KRAFT_VERSION in software.features:
            kraft = self.features[KRAFT_VERSION]
            yield "kraft_of_dynamic", dynamic and kraft == STATIC, {"level": kraft}
            yield "kraft_of_static", not dynamic and kraft != STATIC, {"level": kraft}
        for name in self.others:
            yield from self._of_level(name, self.proposed[name])
        least = self.tool.kraft_needs.get(request.patch, 0)
        is_below = self.proposed.get(KRAFT_VERSION) == DYNAMIC and (version or least) < least
        needed = {"feature": KRAFT_VERSION, "level": DYNAMIC, "other": METADATA_VERSION}
        yield "dependency", is_below, {**needed, "least": least}
        too_old = version is not None and version < software.oldest_bootstrap
        yield "bootstrap", too_old, {}  # the check is in BootstrapMetadata.java
        least = _DATA["migration"]["needs"].get(software.based_on)
        yield "no_migration", request.migration and not least, {"release": software.release}
        if request.migration and least and version is not None:
            named = {"name": software.names[version], "least_name": software.names[least]}
            yield "migration", version < int(least), {**named}

    def written(self) -> dict[str, int]:
        """Return the levels above 0 that format writes; metadata.version comes first."""
        names = (METADATA_VERSION, *self.others)
        return {name: self.proposed[name] for name in names if self.proposed[name]}

    def _chosen_version(self) -> int | None:
        """Return the requested or default metadata.version; None if unknown."""
        software, request = self.software, self.request
        if request.release_version is not None:
            return software.level_of(request.release_version, unstable=self.names_unstable)
        if METADATA_VERSION in request.features:
            level = request.features[METADATA_VERSION]
            return level if software.knows(METADATA_VERSION, level) else None
        testing = request.unstable and self.tool.unstable_by_default
        return software.newest_unstable if testing else software.newest_stable

    def _old_name(self) -> str | None:
        """Return the full name of a version before KRaft, such as 2.8-IV1 for 2.8.2; None for
        another text."""
        text = self.request.release_version
        if text is None or self.version is not None:
            return None
        short = ".".join(text.split(".")[: 3 if text.startswith("0.") else 2])
        names: list[str] = _DATA["before_kraft"]
        return next((n for n in reversed(names) if n == short or n.startswith(f"{short}-")), None)

    def _proposed(self) -> dict[str, int]:
        """Return feature → requested level, or default level if none is requested (Formatter)."""
        software = self.software
        levels = {} if self.version is None else {METADATA_VERSION: self.version}
        has_release = self.request.release_version is not None
        latest = self.tool.defaults_of_latest and not has_release
        mapped = software.newest_stable if latest else self.version
        for name in software.features:
            if name in self.features:
                levels[name] = self.features[name]
            elif name == KRAFT_VERSION:  # the kind of quorum decides, not the mapping
                levels[name] = DYNAMIC if self.request.dynamic_quorum else STATIC
            elif mapped is not None:
                levels[name] = software.default(name, mapped)
        return levels

    def _of_level(self, name: str, level: int) -> Iterator[_Asked]:
        values: dict[str, object] = {"feature": name, "level": level}
        if not self.software.knows(name, level, unstable=self.request.unstable):
            # A default of an unstable version is refused only once, with the version.
            yield "unknown_feature_level", name in self.features or not self.is_unstable, values
            return
        if self.version is None or (name == KRAFT_VERSION and self.tool.kraft_needs_nothing):
            return
        declared = self.software.needs(name, level)
        for needed in self.software.unmet(self.proposed):
            code = "dependency" if needed in declared else "too_old_for_features"
            least = {"other": needed.other, "least": needed.least}
            least_name = self.software.names.get(needed.least, "")
            yield code, needed.feature == name, {**values, **least, "least_name": least_name}


def choose_software(catalogue: Catalogue, text: str) -> ReleaseCatalogue:
    """Return the catalogue of a version's release. Raises ConfigError if it is unknown."""
    release = catalogue.release_named(text)
    if release is None:
        releases = ", ".join(software.release for software in catalogue.releases)
        advice = f"Use one of them, or add {text} with --overlay FILE."
        oldest = catalogue.releases[0].release
        parts, first = ([int(n) for n in re.findall("[0-9]+", r)[:2]] for r in (text, oldest))
        if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})+", text) and parts < first:
            advice = (
                f"Before {oldest} Kafka finalizes nothing of its own. For a cluster that was "
                "formatted then, name the software it runs now: "
                "featurelib initial-levels --software RELEASE --preview"
            )
        raise ConfigError(
            f"--software {text}: The catalogue of {catalogue.label} has no such release. Its "
            f"releases: {releases}. {advice}"
        )
    return catalogue.of(release)
