"""Holds documents against the JSON Schemas that ship."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator


def faults(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    """Where and how `value` breaks `schema`."""
    for error in Draft202012Validator(schema).iter_errors(value):
        yield f"{error.json_path}: {error.message}"
