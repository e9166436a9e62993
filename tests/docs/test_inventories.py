"""Every inventory that a page shows can be read as one."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from featurelib.catalogue import load
from featurelib.config.fleet import parse_fleet
from tests.docs.examples import PAGES, name_of

# From [[cluster]] to the end of its block: lines that are indented as it is, and empty ones.
SHOWN = re.compile(r"^( *)\[\[cluster\]\]\n(?:(?!```)\1\S.*\n|\n(?=\1\S))*", re.MULTILINE)
INVENTORIES = [
    pytest.param(name_of(page), dedent(found[0]), id=f"{name_of(page)}-{number}")
    for page in PAGES
    for number, found in enumerate(SHOWN.finditer(page.read_text(encoding="utf-8")), 1)
]


def test_pages_show_inventories() -> None:
    assert len(INVENTORIES) >= 4


@pytest.mark.parametrize(("page", "text"), INVENTORIES)
def test_an_inventory_that_a_page_shows_can_be_read(page: str, text: str) -> None:
    (entry,) = parse_fleet(text, page, load()).cluster
    assert entry.is_reachable
