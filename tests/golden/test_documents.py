"""What transcripts show of --json is as the published types say, and every command has one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from jsonschema import Draft202012Validator

from featurelib.cli.app import COMMANDS
from featurelib.view.model import Report
from scripts.write_schemas import document_types

TRANSCRIPTS = sorted(Path(__file__).parent.glob("commands/*.txt"))
_DECODER = json.JSONDecoder()
# A report is not printed beside a head: it is what report.json holds.
TYPES: dict[str, type[Any]] = {
    **document_types(),
    "report": Report,
    "check": Report,
    "export": Report,
}
ROOT = Path(__file__).parents[2]
PUBLISHED = {
    kind: json.loads((ROOT / place).read_bytes())["$defs"]
    for kind, place in (
        ("Report", "featurelib/view/report.schema.json"),
        ("", "docs/reference/commands.schema.json"),
    )
}


def closed(schema: Any) -> Any:
    """A schema that refuses every key it does not list."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if "properties" in schema else {}
    return more | {key: closed(one) for key, one in schema.items()}


def validator(kind: str) -> Draft202012Validator:
    """What holds a document to its schema as it is published."""
    parts = closed(PUBLISHED.get(kind, PUBLISHED[""]))
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": parts})


VALIDATORS = {kind.__name__: validator(kind.__name__) for kind in TYPES.values()}


def printed(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """The commands of a transcript with --json, and the object each printed."""
    for block in path.read_text("utf-8").split("\n$ "):
        typed, _, rest = block.partition("\n")
        lines = [line for line in rest.splitlines() if not line.startswith(("! ", "= ", "% ", "#"))]
        if "--json" in typed and "{" in lines:
            start = lines.index("{")  # what a person is told stands around it
            yield (
                typed.removeprefix("$ "),
                _DECODER.raw_decode("\n".join(lines[start:]).replace("<pid>", "1"))[0],
            )


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_what_is_printed_is_of_the_published_type(path: Path) -> None:
    for typed, document in printed(path):
        is_tool = " --from " in typed and "--kind strimzi" not in typed  # which is a round
        command = "collect --from" if is_tool else typed.split()[1]
        kind = TYPES["" if document.get("error") else command]
        text = json.dumps(document).replace('"<time>"', '"2026-11-21T06:00:00Z"')
        read = msgspec.convert(json.loads(text), kind)
        if not document.get("error"):  # which may end a document that was begun
            VALIDATORS[kind.__name__].validate(json.loads(text))
        assert set(document) <= set(get_type_hints(kind)) or "error" in document, typed
        assert read.version == 1


def test_every_command_has_a_published_type() -> None:
    # It answers by the protocol.
    assert {*COMMANDS, "plan"} - TYPES.keys() == {"mcp"}
