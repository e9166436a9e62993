"""Holds documents against the JSON Schemas that ship."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from jsonschema import Draft202012Validator


def faults(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    """Where and how `value` breaks `schema`."""
    for error in Draft202012Validator(schema).iter_errors(value):
        yield f"{error.json_path}: {error.message}"


def expect_made_of(kind: type, path: Path) -> None:
    """The schema that ships is made of the type; FEATURELIB_REWRITE makes it anew."""
    schema = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("FEATURELIB_REWRITE"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
