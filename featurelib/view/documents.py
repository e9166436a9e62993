"""Define JSON documents, and make them from values.

A document is a type: its keys, their order and their types. `fill` makes one from a value with the
same attributes; `as_json` makes it text. docs/reference/commands.schema.json is made from these
types. A removed key or a changed meaning raises `version`.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from featurelib.feature import Role

VERSION = 1
Levels = dict[str, int]
# The name of each exit code for programs.
ERROR_WORDS = {2: "usage", 3: "refused", 4: "unknown", 5: "could not look", 70: "fault"}


class JsonPart(msgspec.Struct):
    """A JSON object that is part of a document."""


class Document(JsonPart):
    """A JSON document, printed on standard output."""

    version: int


Filled = TypeVar("Filled", bound=JsonPart)


def fill(kind: type[Filled], value: object = None, **extra: Any) -> Filled:
    """Return a document of type `kind`. Each key comes from `extra` or from an attribute of
    `value`; optional keys may be missing."""
    extra = {"version": VERSION} | extra
    keys = {
        name: extra[name] if name in extra else getattr(value, name, UNSET)
        for name in kind.__struct_fields__
    }
    return kind(**{k: v.text if isinstance(v, Role) else v for k, v in keys.items()})


def as_json(document: object, *, one_line: bool = False) -> str:
    """Return a document as JSON text, indented or in one line."""
    indent = None if one_line else 2
    return json.dumps(msgspec.to_builtins(document), indent=indent, ensure_ascii=False)


class ConvertedDocument(Document):
    """featurelib collect --from"""

    file: str
    cluster: str
    observed_at: str
    read: int
    left_out: int
    lines: int


class ConfigDocument(Document):
    """featurelib config"""

    values: list[dict[str, str | None]]


class ErrorDocument(Document):
    """any command that ends with an error; apply adds the known facts of the plan"""

    error: str
    message: str
    exit_code: int
