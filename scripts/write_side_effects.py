"""Write the page about side effects: the catalogue's entries, and the measurements."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from itertools import groupby

from featurelib.catalogue import load
from scripts.docs_texts import SIDE_EFFECTS_INTRO, SIDE_EFFECTS_MEASURED
from scripts.markdown import code, page, table
from scripts.measure_side_effects import TARGET

Row = dict[str, str]


def side_effects_page() -> str:
    """Return the page of side effects and measured steps."""
    effects = [
        [
            f"{row.feature} {row.level}",
            code(row.key) if row.key else "–",
            row.what,
            row.afterwards or "–",
            "yes" if row.restored else "no",
            row.source,
        ]
        for row in load().rows.side_effect
    ]
    with TARGET.open(encoding="utf-8") as file:
        measured = list(csv.DictReader(file))
    return page(
        "# Side effects",
        SIDE_EFFECTS_INTRO,
        table(["level", "key", "what happens", "afterwards", "restored", "source"], effects),
        SIDE_EFFECTS_MEASURED,
        table(
            ["step", "releases", "records beside the level's own", "what differs", "the downgrade"],
            [_cells(rows) for rows in _alike(measured)],
        ),
    )


def _alike(measured: Iterable[Row]) -> list[list[Row]]:
    """Group the measured steps with equal results in several releases."""
    names = list(dict.fromkeys(row["feature"] for row in measured))

    def key(row: Row) -> tuple[object, ...]:
        step = (names.index(row["feature"]), int(row["level"]), row["setting"])
        return (*step, *(_shown(row)))

    return [list(rows) for _, rows in groupby(sorted(measured, key=key), key=key)]


def _shown(row: Row) -> tuple[str, str, str]:
    """Return (records, differences, downgrade) of a step in short form."""
    records = "; ".join(text.rpartition(" × ")[0] for text in row["records"].split("; ") if text)
    differs = "<br>".join(
        text.replace(" by broker:", ":")
        for text in (row["changed"].split(" | ") + row["no_longer_set"].split(" | "))
        if text and " by controller:" not in text
    )
    if row["reached"] != "yes":
        return "", f"not reached: {row['reached']}", "–"
    back = "refused" if ":" in row["back"] else "accepted"
    if row["not_restored"]:
        back += ", and it restores nothing"
    return records or "none", differs or "nothing", back


def _cells(rows: list[Row]) -> list[str]:
    first = rows[0]
    step = f"{first['feature']} {first['from_level']} → {first['level']}"
    step += f", {first['setting']}" if first["setting"] else ""
    releases = ", ".join(
        row["version"] + ("" if row["stable"] == "true" else " (unstable)") for row in rows
    )
    return [step, releases, *_shown(first)]
