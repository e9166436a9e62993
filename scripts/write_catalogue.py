"""Write the catalogue as published data: one JSON file, and the JSON schema that it follows.

    make catalogue   (build/catalogue.json, build/catalogue.schema.json)

Other tools can use it in place of their own tables. For each Kafka release the file has the
features, their levels, defaults, dependencies and side effects, and the rules of its controllers by
dialect.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from featurelib import __version__
from featurelib.catalogue import Catalogue, load
from featurelib.catalogue.catalogue import ReleaseCatalogue
from featurelib.core import dialect as dialects
from featurelib.feature import METADATA_VERSION

ROOT = Path(__file__).parents[1]
SCHEMA_VERSION = 1

Text = Annotated[str, Meta(description="a name of Kafka")]
Level = Annotated[int, Meta(ge=0, description="a feature level")]
Minimums = Annotated[
    dict[str, Level], Meta(description="feature → the lowest level that this level needs of it")
]


class SideEffect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A further change that finalizing a level makes."""

    configuration: Annotated[str, Meta(description="the changed configuration; empty: none")]
    what: str
    afterwards: Annotated[str, Meta(description="what is impossible while it is finalized")]
    restored: Annotated[bool, Meta(description="a downgrade restores what was before")]


class KnownLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One level that the software of a release supports."""

    level: Level
    name: Annotated[str, Meta(description="of metadata.version, such as 4.0-IV3; else empty")]
    production: Annotated[bool, Meta(description="false: needs unstable.feature.versions.enable")]
    default_from: Annotated[
        int | None,
        Meta(description="the metadata.version whose new clusters get it; null: metadata.version"),
    ]
    needs: Minimums
    irreversible: Annotated[bool, Meta(description="no downgrade from this level exists")]
    loses_metadata_below: Annotated[
        bool, Meta(description="a downgrade from this level may lose metadata")
    ]
    side_effects: tuple[SideEffect, ...]


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The software of one Kafka release in KRaft mode."""

    release: Text
    dialect: Annotated[str, Meta(description="a key of dialects: the rules of its controllers")]
    features: Annotated[
        dict[str, tuple[KnownLevel, ...]],
        Meta(description="feature → its levels, lowest first, unstable ones too"),
    ]
    defaults: Annotated[
        dict[str, dict[str, Level]],
        Meta(description="name of a metadata.version → feature → level (version-mapping)"),
    ]


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The published catalogue: Kafka's feature levels per release."""

    format: Literal["featurelib catalogue"]
    schema_version: Annotated[int, Meta(description="rises with every change of this schema")]
    featurelib: Annotated[str, Meta(description="the release of featurelib that wrote it")]
    dated: Annotated[str, Meta(description="the day of the last look at Kafka's releases")]
    releases: tuple[Release, ...]
    dialects: Annotated[
        dict[str, dict[str, Any]],
        Meta(description="dialect → its capabilities; each is explained in docs/dialects.md"),
    ]


def read(catalogue: Catalogue) -> Document:
    """Return the published form of the catalogue, oldest release first."""
    return Document(
        format="featurelib catalogue",
        schema_version=SCHEMA_VERSION,
        featurelib=__version__,
        dated=catalogue.dated,
        releases=tuple(_release(catalogue, own) for own in catalogue.releases),
        dialects={
            name: {"title": known.title, "releases": known.releases} | dataclasses.asdict(known.can)
            for name, known in ((name, dialects.load(name)) for name in dialects.GENERATIONS)
        },
    )


def _release(catalogue: Catalogue, own: ReleaseCatalogue) -> Release:
    return Release(
        release=own.release,
        dialect=dialects.generation_of(own.release, "kraft"),
        features={
            name: tuple(_level(catalogue, own, name, level) for level in own.known_levels(name))
            for name in (METADATA_VERSION, *own.features)
        },
        defaults={name: own.defaults(level) for level, name in own.names.items()},
    )


def _level(catalogue: Catalogue, own: ReleaseCatalogue, feature: str, level: int) -> KnownLevel:
    declared = {known.level: known for known in own.levels if known.feature == feature}
    is_metadata = feature == METADATA_VERSION
    return KnownLevel(
        level=level,
        name=own.names[level] if is_metadata else "",
        production=own.knows(feature, level, unstable=False),
        default_from=None if is_metadata else declared[level].default_from,
        needs={needed.other: needed.least for needed in own.needs(feature, level)},
        irreversible=not is_metadata and declared[level].irreversible,
        loses_metadata_below=is_metadata and level in own.loses_metadata_below,
        side_effects=tuple(
            SideEffect(
                configuration=row.key,
                what=row.what,
                afterwards=row.afterwards,
                restored=row.restored,
            )
            for row in catalogue.side_effects(feature)
            if row.level == level
        ),
    )


def write(folder: Path) -> tuple[Path, Path]:
    """Write catalogue.json and its schema into `folder`; return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, schema = folder / "catalogue.json", folder / "catalogue.schema.json"
    for path, content in ((data, read(load())), (schema, msgspec.json.schema(Document))):
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    return data, schema


def main() -> None:
    """Write the catalogue and its schema, and print the paths."""
    parser = argparse.ArgumentParser(prog="python -m scripts.write_catalogue")
    parser.add_argument("--out", type=Path, default=ROOT / "build")
    for path in write(parser.parse_args().out):
        print(path)


if __name__ == "__main__":
    main()
