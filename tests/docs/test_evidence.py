"""What the explanations quote of recordings is in the recordings that ship."""

from __future__ import annotations

import gzip
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "explanation").glob("*.md"))
NAME = re.compile(r"`((?:zk-)?\d\.\d\.\d-[\w-]+)`")


def exchanges() -> dict[str, dict[str, Any]]:
    """The exchanges of the conformance pack, by id."""
    packed = (
        resources.files("featurelib.extras.conformance")
        .joinpath("conformance_pack.jsonl.gz")
        .read_bytes()
    )
    lines = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    return {line["id"]: line for line in lines}


def quotes(page: Path) -> list[tuple[str, str]]:
    """Each quotation of a page, with the exchange that is named above it."""
    found, name = [], ""
    for line in page.read_text(encoding="utf-8").splitlines():
        name = ([name, *NAME.findall(line)])[-1]
        if line.startswith("> "):
            found.append((name, line.removeprefix("> ")))
    return found


def said(exchange: dict[str, Any]) -> list[str]:
    response = exchange["response"]
    messages = [response.get("error_message")]
    messages += [result.get("error_message") for result in response.get("results") or ()]
    return [message for message in messages if message]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_exchange_that_is_named_ships(page: Path) -> None:
    known = exchanges()
    assert [name for name in NAME.findall(page.read_text("utf-8")) if name not in known] == []


def test_every_quotation_is_the_controllers_own() -> None:
    known = exchanges()
    found = [quote for page in PAGES for quote in quotes(page)]
    assert len(found) >= 7
    wrong = [(n, text) for n, text in found if not any(text in each for each in said(known[n]))]
    assert wrong == []


def test_what_is_said_of_levels_after_an_answer_is_so() -> None:
    """Those the pages lean on: written although refused, failed, or only to be validated."""
    known = exchanges()
    leaked = known["4.1.2-kraft-009-kraft-1-and-mv-99"]
    assert leaked["response"]["error_code"] == 95
    assert leaked["after"]["finalized"]["kraft.version"] == 1
    failed = known["zk-3.3.2-timeout-0-valid-and-invalid-v0"]
    assert failed["after"]["finalized"]["f"] == [4, 4]
    assert {result["error_code"] for result in failed["response"]["results"]} == {42, 96}
    validated = known["zk-3.3.2-validate-only-add-v1"]
    assert validated["request"]["validate_only"]
    assert validated["after"]["finalized"]["big"] == [9, 9]
