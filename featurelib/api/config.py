"""Show which folders, files and settings apply if no option names them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from featurelib.api.clusters import Answer
from featurelib.config.files import INVENTORY, find_file, find_place, find_settings, journal_path
from featurelib.config.settings import NamedPlaces, Settings
from featurelib.view.documents import ConfigDocument, fill
from featurelib.view.layout import Page

Values = tuple[dict[str, str | None], ...]  # rows of name, value, source


def config(config: str | None = None, fleet: str | None = None) -> Answer[Values]:
    """Show each setting, and where it comes from.

    \b
        featurelib config
        FEATURELIB_TABLES=/data/tables featurelib config --json

    An option overrides a variable (FEATURELIB_TABLES, FEATURELIB_FLEET, FEATURELIB_JOURNAL). A
    variable overrides [places] in the settings, which cannot name the inventory. --config selects
    the rules of judgement, and no places. Exit codes: 0 done; 2 a file cannot be read.
    """
    values = tuple(_values(config, fleet))
    rows = [[*values[0]], *([cell or "—" for cell in row.values()] for row in values)]

    def page(width: int | None) -> Page:
        made = Page(width)
        made.table(rows)
        return made

    document = fill(ConfigDocument, values=[*values])
    return Answer(
        value=values, make_rows=lambda: map(dict, values), make_document=lambda: document, page=page
    )


def _values(config: str | None, fleet: str | None) -> Iterator[dict[str, str | None]]:
    settings, file = find_settings(config)
    usual = {"fleet": find_file("--fleet", None, INVENTORY), "journal": journal_path(None)}
    values: dict[str, tuple[str | None, str]] = {}
    values["settings"] = file, "--config" if config else "usual places"
    values["fleet"] = find_place("fleet", fleet)
    for name, given in msgspec.structs.asdict(settings).items():
        text = str(len(given) if isinstance(given, dict | tuple) else given)
        values[name] = text, "default" if given == getattr(Settings(), name) else file
    del values["places"]
    for name in NamedPlaces.__struct_fields__:
        values[name] = find_place(name, None)
    for name, path in usual.items():
        if path and not values[name][1]:
            values[name] = str(path.absolute()), "usual places"
    for name, (value, source) in values.items():
        yield {"name": name, "value": value, "source": source or "not set"}
