"""Pages about what is written: the Delta tables, and the schemas of JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from featurelib.api import documents as of_clusters
from featurelib.tables import ALL, Table
from featurelib.view import documents as of_commands
from featurelib.view.documents import Document
from scripts.docs_texts import SCHEMAS_INTRO, TABLES_INTRO
from scripts.markdown import code, page, table

PACKAGE = Path(__file__).parents[1] / "featurelib"
SCHEMAS = tuple(sorted(PACKAGE.rglob("*.schema.json")))
LAYERS = {
    "bronze": "what landed, line by line",
    "silver": "what the lines say: histories, and one snapshot row a cluster",
    "gold": "what the audit says of it, night by night",
}


def tables_page() -> str:
    """Every table: a line each, then grain and columns."""
    rows = [[f"[{each.full_name}](#{_anchor(each)})", each.comment] for each in ALL]
    layers = [[code(layer), text] for layer, text in LAYERS.items()]
    return page(
        "# Tables",
        TABLES_INTRO,
        table(["layer", "holds"], layers),
        table(["table", "a row is"], rows),
        *(part for each in ALL for part in _table(each)),
    )


def _anchor(each: Table) -> str:
    """The place of a heading with a dot in it, as Python-Markdown names it."""
    return each.full_name.replace(".", "")


def _table(each: Table) -> list[str]:
    said = [
        f"- Path: {code('TABLES/' + each.path)}",
        f"- Grain: {', '.join(code(name) for name in each.grain)}; no two rows agree in all of it",
        f"- Version: {each.version}",
    ]
    rows = [
        [code(field.name), _type(field.type), "–" if field.name in each.required else "yes"]
        for field in each.schema
    ]
    return [
        f"## {each.full_name}",
        each.comment,
        "\n".join(said),
        table(["column", "type", "may be null"], rows),
    ]


def _type(kind: pa.DataType) -> str:
    """An Arrow type in words a reader of Delta knows."""
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}"
    if pa.types.is_struct(kind):
        inner = ", ".join(f"{field.name} {_type(field.type)}" for field in kind)
        return f"struct ({inner})"
    if pa.types.is_timestamp(kind):
        return "timestamp, UTC"
    return str(kind)


def commands_schema() -> str:
    """The JSON schema of what every command prints with --json, by the type of its document."""
    types = [kind for module in (of_clusters, of_commands) for kind in vars(module).values()]
    classes = dict.fromkeys(kind for kind in types if isinstance(kind, type))
    documents = [kind for kind in classes if issubclass(kind, Document) and kind is not Document]
    _, parts = msgspec.json.schema_components(documents, ref_template="#/$defs/{name}")
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": parts}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def schemas_page() -> str:
    """Every JSON schema that ships: its objects, their keys, types and meanings."""
    rows = []
    parts: list[str] = []
    for path in SCHEMAS:
        document = json.loads(path.read_text(encoding="utf-8"))
        name = path.name.removesuffix(".schema.json")
        place = path.relative_to(PACKAGE.parent).as_posix()
        about = document["$defs"][_named(document["$ref"])].get("description", "")
        rows.append([f"[{name}](#{name})", code(place), _line(about)])
        parts += [f"## {name}", f"The schema is {code(place)}."]
        for own, form in document["$defs"].items():
            parts += _form(own, form)
    return page("# JSON schemas", SCHEMAS_INTRO, table(["document", "schema", "is"], rows), *parts)


def _form(name: str, form: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield _line(form.get("description", ""))
    required = form.get("required", ())
    rows = [
        [code(key), _json_type(value), "yes" if key in required else "–", _line(_about(value))]
        for key, value in form.get("properties", {}).items()
    ]
    if rows:
        yield table(["key", "type", "required", "means"], rows)
    elif "enum" in form:
        yield "One of " + ", ".join(code(value) for value in form["enum"]) + "."


def _about(value: dict[str, Any]) -> str:
    return str(value.get("description", ""))


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
