"""Words for a document whose fields are not what their types ask.

The parser says where a field is wrong; what was expected is the wording beside the field's type
(wire.py), and what was found is copied from the line itself, as it stands there.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec
from msgspec.inspect import ListType, Metadata, NoneType, StructType, Type, UnionType

from featurelib.landing.fault import FaultError, show

_MISSING = re.compile(r"missing required field `(.+?)`")
_WHERE = re.compile(r" - at `\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


_type = cache(msgspec.inspect.type_info)  # slow, and asked for each line of a broken file


def misfit(raw: bytes, shape: object, error: Exception, where: str = "") -> FaultError:
    """What to raise for `error`, which the parser raised for `raw` as a `shape`.

    `where` is the name of the field `raw` is the value of; empty for a whole line.
    """
    kind = _type(shape)
    path = where
    place = _WHERE.search(str(error))
    for name, index in _STEP.findall(place[1] if place else ""):
        if name:
            kind, raw = _field(kind, name), _MEMBERS.decode(raw)[name]
            path = f"{path}.{name}" if path else name
        else:
            kind, raw = _item(kind), _ITEMS.decode(raw)[int(index)]
            path = f"{path}[{index}]"
    if missing := _MISSING.search(str(error)):
        name = missing[1]
        expected = _words(_field(kind, name))
        return FaultError(f"{path and path + '.'}{name} is missing: expected {expected}")
    found = show(bytes(raw).decode())
    return FaultError(f"{path or 'the line'}: expected {_words(kind)}, found {found}")


def _field(kind: Type, name: str) -> Type:
    struct = _plain(kind)
    assert isinstance(struct, StructType)
    return next(field.type for field in struct.fields if field.encode_name == name)


def _item(kind: Type) -> Type:
    items = _plain(kind)
    assert isinstance(items, ListType)
    return items.item_type


def _plain(kind: Type) -> Type:
    """The type that has fields or items: null beside it has none."""
    if isinstance(kind, Metadata):
        kind = kind.type
    if isinstance(kind, UnionType):
        return next(option for option in kind.types if not isinstance(option, NoneType))
    return kind


def _words(kind: Type) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_words(option) for option in kind.types)
    if isinstance(kind, Metadata) and kind.extra_json_schema:
        return str(kind.extra_json_schema["description"])
    if isinstance(kind, NoneType):
        return "null"
    return "a list" if isinstance(kind, ListType) else "an object"
