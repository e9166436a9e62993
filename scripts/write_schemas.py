"""Write the pages about the Delta tables and about the schemas of JSON files."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from featurelib.api import documents as of_clusters
from featurelib.extras.conformance import replay as of_conformance
from featurelib.extras.elections.foresee import Election
from featurelib.extras.history.command import OfTables
from featurelib.extras.history.comparison import ClusterDiff, Diff
from featurelib.extras.history.timeline import Timeline
from featurelib.extras.initial_levels import levels as of_levels
from featurelib.extras.inventory_import import command as of_inventory
from featurelib.extras.lint import pages as of_lint
from featurelib.extras.lint import patch as of_patch
from featurelib.extras.notify import command as of_notify
from featurelib.extras.predictions.rolling import Roll
from featurelib.extras.predictions.what_if import WhatIf
from featurelib.extras.rules import book as of_rules
from featurelib.extras.sandbox import command as of_sandbox
from featurelib.extras.tool_preview.tool import ToolPreview
from featurelib.extras.watch.watching import Watched
from featurelib.extras.waves import page as of_waves
from featurelib.feature import Role
from featurelib.model import Plan
from featurelib.schema import BOOL, DATE, FINDING, LONG, TEXT, TIME, Kind, ListOf, Schema
from featurelib.tables import ALL, Table
from featurelib.view import documents as of_commands
from featurelib.view.documents import Document
from scripts.docs_texts import KEYS, SCHEMAS_INTRO, TABLES_INTRO
from scripts.markdown import code, page, table

PACKAGE = Path(__file__).parents[1] / "featurelib"
SCHEMAS = tuple(sorted(PACKAGE.rglob("*.schema.json")))
LAYERS = {
    "bronze": "the lines of the landing files",
    "silver": "the content of the lines: histories, and one snapshot row per cluster",
    "gold": "the results of each audit",
}


def tables_page() -> str:
    """Return the page of tables: a line per table, then grain and columns of each."""
    rows = [[f"[{each.full_name}](#{_anchor(each)})", each.comment] for each in ALL]
    layers = [[code(layer), text] for layer, text in LAYERS.items()]
    return page(
        "# Tables",
        TABLES_INTRO,
        table(["layer", "holds"], layers),
        table(["table", "content"], rows),
        *(part for each in ALL for part in _table(each)),
    )


def _anchor(each: Table) -> str:
    """Return the anchor of a table's heading, as Python-Markdown makes it."""
    return each.full_name.replace(".", "")


def _table(each: Table) -> list[str]:
    said = [
        f"- Path: {code('TABLES/' + each.path)}",
        f"- Key: {', '.join(map(code, each.grain))}. No two rows have equal values in the key.",
        f"- Version: {each.version}",
    ]
    if missing := [name for name in each.schema.names if name not in each.about]:
        raise SystemExit(
            f"featurelib/columns.toml: [{each.full_name}] and [columns] lack a sentence about "
            f"{', '.join(missing)}. Add it."
        )
    rows = [
        [code(name), _type(kind), "–" if name in each.required else "yes", each.about[name]]
        for name, kind in each.schema.fields
    ]
    parts = [[code(name), text] for name, text in each.about.items() if "." in name]
    return [
        f"## {each.full_name}",
        each.comment,
        "\n".join(said),
        table(["column", "type", "may be null", "holds"], rows),
        *([table(["part of a list or struct", "holds"], parts)] if parts else []),
    ]


def _type(kind: Kind) -> str:
    """Return a column's type in the words of Delta."""
    if isinstance(kind, ListOf):
        return f"list of {_type(kind.of)}"
    if isinstance(kind, Schema):
        inner = ", ".join(f"{name} {_type(of)}" for name, of in kind.fields)
        return f"struct ({inner})"
    return "timestamp, UTC" if kind is TIME else str(kind)


def _row_schema(columns: Schema, *more: str) -> msgspec.Meta:
    """Return the JSON schema of a table's row. `more`: additional text keys."""
    keys = {name: _key_schema(of) for name, of in columns.fields}
    keys |= {name: {"type": ["string"]} for name in more}
    return msgspec.Meta(extra_json_schema={"properties": keys})


def _key_schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON schema of a column."""
    if isinstance(kind, Schema):
        return {"type": "object", "properties": {name: _key_schema(of) for name, of in kind.fields}}
    kinds = {TEXT: "string", BOOL: "boolean"}
    return {} if kind in (TIME, DATE) else {"type": [kinds.get(kind, "integer"), "null"]}


_Findings = list[Annotated[dict[str, Any], _row_schema(FINDING)]]
_OfNight = list[Annotated[dict[str, Any], _row_schema(FINDING.with_first("run", LONG), "why")]]
ROWS: dict[type, dict[str, Any]] = {  # keys whose rows are findings
    WhatIf: {"new": _Findings, "gone": _Findings},
    ClusterDiff: dict.fromkeys(("new", "resolved", "incomparable"), _OfNight),
}
EXTRAS = (
    of_waves,
    of_sandbox,
    of_levels,
    of_conformance,
    of_inventory,
    of_lint,
    of_patch,
    of_notify,
    of_rules,
)
QUESTIONS = {
    "what-if": (of_clusters.OfCluster, WhatIf),
    "can-roll": (of_clusters.OfCluster, Roll),
    "watch": (of_clusters.OfCluster, Watched),
    "history": (of_clusters.OfCluster, Timeline),
    "diff": (OfTables, Diff),
    "kafka-features": (of_clusters.OfCluster, ToolPreview),
    "election": (of_clusters.OfCluster, Election),
}
# Commands whose documents contain a plan in the form of its file.
PLANS = {"plan": Plan | None, "show": Plan}


def document_types() -> dict[str, type[msgspec.Struct]]:
    """Return command → type of its JSON document; "" = an error."""
    found: dict[str, type[msgspec.Struct]] = {"": of_commands.ErrorDocument}
    for module in (of_commands, of_clusters, *EXTRAS):
        for kind in vars(module).values():
            words = (isinstance(kind, type) and issubclass(kind, Document) and kind.__doc__) or ""
            words = words.removeprefix("The JSON of ")
            if words.startswith("featurelib "):
                found[words.split(";")[0].removeprefix("featurelib ")] = kind
    for command, (head, value) in (of_clusters.DOCUMENTS | QUESTIONS).items():
        fields = list(get_type_hints(head).items()) + _fields(value)
        name = "".join(map(str.capitalize, command.split("-"))) + "Document"
        found[command] = _struct(name, fields, f"featurelib {command}")
    for command, plan in PLANS.items():
        kind = found[command]
        hints = get_type_hints(kind) | {"plan": plan}
        found[command] = _struct(kind.__name__, list(hints.items()), kind.__doc__ or "")
    return found


def _fields(kind: type) -> list[tuple[str, Any]]:
    """Return (key, type) of the keys of a value's JSON object."""
    keys, hints = of_clusters.keys_of(kind) or {}, get_type_hints(kind)
    fields = []
    for key, attribute in keys.items():
        member = getattr(kind, attribute, None)
        hint = get_type_hints(member.fget)["return"] if isinstance(member, property) else None
        hint = hints[attribute] if hint is None else hint
        fields.append((key, ROWS.get(kind, {}).get(key) or _published(hint)))
    return fields


def _published(hint: Any) -> Any:
    """Return a type hint in which values that are printed as objects have the type of the
    object."""
    if hint is Role:
        return str
    if isinstance(hint, type) and of_clusters.keys_of(hint):
        return _object(hint)
    if (origin := get_origin(hint)) is None or origin is Annotated:
        return hint
    inner = tuple(map(_published, get_args(hint)))
    if origin in (UnionType, Union):
        return Union[inner]  # noqa: UP007  # of a tuple
    return {Mapping: dict}.get(origin, origin)[inner]


@cache
def _object(kind: type) -> type[msgspec.Struct]:
    fields = _fields(kind)
    if is_dataclass(kind) and fields == list(get_type_hints(kind).items()):
        return kind  # type: ignore[return-value]  # as good as a struct of the same fields
    return _struct(kind.__name__, fields, kind.__doc__ or "")


def _struct(name: str, fields: list[tuple[str, Any]], words: str) -> type[msgspec.Struct]:
    return msgspec.defstruct(name, fields, namespace={"__doc__": inspect.cleandoc(words)})


def commands_schema() -> str:
    """Return the JSON schema of the JSON output of every command."""
    kinds = list(document_types().values())
    _, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": parts}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def schemas_page() -> str:
    """Return the page of JSON schemas: objects, keys, types and meanings."""
    rows = []
    parts: list[str] = []
    for path in SCHEMAS:
        document = json.loads(path.read_text(encoding="utf-8"))
        name = path.name.removesuffix(".schema.json")
        place = path.relative_to(PACKAGE.parent).as_posix()
        whole = document["$defs"][_named(document["$ref"])]
        about, _ = _meanings(_line(whole.get("description", "")), whole.get("properties", {}))
        rows.append([f"[{name}](#{name})", code(place), about])
        parts += [f"## {name}", f"The schema is {code(place)}."]
        for own, form in document["$defs"].items():
            parts += _form(own, form)
    return page("# JSON schemas", SCHEMAS_INTRO, table(["document", "schema", "is"], rows), *parts)


def _form(name: str, form: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    required, keys = form.get("required", ()), form.get("properties", {})
    about, meanings = _meanings(_line(form.get("description", "")), keys)
    yield about
    rows = [
        [
            code(key),
            _json_type(value),
            "yes" if key in required else "–",
            meanings.get(key) or KEYS.get(f"{name}.{key}") or KEYS.get(key, ""),
        ]
        for key, value in keys.items()
    ]
    if rows:
        yield table(["key", "type", "required", "means"], rows)
    elif "enum" in form:
        yield "One of " + ", ".join(code(value) for value in form["enum"]) + "."


def _meanings(text: str, keys: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return (description without the meanings of keys, key → meaning). A meaning has the form
    "`key`: text"."""
    if not keys:
        return text, {}
    key = f"`(?:{'|'.join(map(re.escape, keys))})`"
    about, *parts = re.split(rf"(?:^|(?<=[.;])\s)(?={key}(?:, {key})*: )", text)
    meanings: dict[str, str] = {}
    for part in parts:
        names, _, meaning = part.partition(": ")
        sentence = meaning[0].upper() + meaning[1:].rstrip(".; ") + "."
        meanings |= dict.fromkeys(re.findall(r"\w+", names), sentence)
    return about.rstrip("; "), meanings


def _line(text: str) -> str:
    return " ".join(text.split())


def _named(reference: str) -> str:
    return reference.rpartition("/")[2]


def _json_type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return code(_named(value["$ref"]))
    if "enum" in value:
        return " or ".join(code(each) for each in value["enum"])
    if "anyOf" in value:
        return " or ".join(_json_type(each) for each in value["anyOf"])
    if value.get("type") == "array":
        return f"list of {_json_type(value.get('items', {}))}"
    if value.get("type") == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"object of {_json_type(value['additionalProperties'])}"
    known = str(value.get("type", "any"))
    return f"{known}, {value['format']}" if "format" in value else known
