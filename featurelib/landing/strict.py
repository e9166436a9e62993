"""Check that a line is one strict JSON object: complete, without a repeated key or text after it.

JSON readers tolerate different faults: repeated keys, lone surrogates, NaN, bad UTF-8 in skipped
parts. A line that two readers could understand differently is no evidence. `is_retold` proves the
common case quickly, and returns False if it cannot; `require_strict` decides exactly. A fault is a
`FaultError` with one sentence for people. Only this module cuts parts of the line for such a
sentence and makes them printable.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TypeVar

import msgspec
from msgspec.inspect import ListType, Metadata, NoneType, StructType, Type, UnionType

from featurelib.words import printable

SHOWN = 60  # the maximum length of a value in a reason, in characters


class FaultError(Exception):
    """An error because a landing line is invalid. Its text is the reason for the quarantine."""


def show(text: str) -> str:
    """Return `text` in one line, with unprintable characters escaped, and cut if too long."""
    cut = printable(text[: SHOWN + 1])
    return cut if len(cut) <= SHOWN else cut[:SHOWN] + "…"


REMEMBERED = 2048  # the maximum number of values that one reader caches
REMEMBERED_BYTES = 8 * 1024  # the maximum size of a cached value

_T = TypeVar("_T")


def remembered(read: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
    """Return `read` with a cache for short arguments."""
    recall = lru_cache(maxsize=REMEMBERED)(read)

    def inspect(raw: bytes) -> _T:
        return recall(raw) if len(raw) <= REMEMBERED_BYTES else read(raw)

    return inspect


MAX_BYTES = 8 * 1024 * 1024  # the maximum size of a line
MAX_DEPTH = 100  # the deepest nesting of objects and lists; parsers allow more

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_UNSURE = re.compile(rb"\\u(?:0022|d[89a-f])", re.IGNORECASE)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?')
_BRACKET = re.compile(r"[\[\]{}]")
_LONE = re.compile(r"[\ud800-\udfff]")


def is_retold(raw: bytes, other: bytes) -> bool:
    """Return true if `other`, the encoded values of `raw`, proves that `raw` is strict JSON.

    Precondition: `other` has no key that the line lacks, and its undecoded parts are known to be
    strict. Keys and texts need quotes: if both have equally many quotes, the line has no undecoded
    and no repeated key. Only an escape `\u0022` could disturb the count. False = not proven.
    """
    if b"\\" in raw and b"\\u" in raw and _UNSURE.search(raw):
        return False
    return raw.count(b'"') == other.count(b'"')


def require_strict(raw: bytes, depth: int = MAX_DEPTH) -> None:
    """Raise FaultError unless `raw` is a strict JSON document with at most `depth` levels."""
    require_size(raw)
    if _is_plain(raw) and not is_deep(raw, depth):
        return
    text = _text(raw)
    if is_deep(raw, depth):
        raise FaultError(f"objects and lists are nested more than {MAX_DEPTH} deep")
    try:
        # Numbers are checked elsewhere; float accepts any number of digits.
        value = json.loads(
            text, object_pairs_hook=unique_members, parse_constant=_no_number, parse_int=float
        )
    except json.JSONDecodeError as error:
        raise FaultError(_syntax(text, error)) from None
    if "\\u" in text and (lone := _LONE.search(json.dumps(value, ensure_ascii=False))):
        raise FaultError(f"a lone surrogate escape, which needs a pair: {show(lone[0])}")


def require_size(raw: bytes) -> None:
    """Raise FaultError if a line exceeds MAX_BYTES."""
    if len(raw) > MAX_BYTES:
        raise FaultError(
            f"the line is too long: expected at most {MAX_BYTES} bytes, found {len(raw)}"
        )


def _is_plain(raw: bytes) -> bool:
    """Return true if decoding and encoding the document gives its own bytes, except white space.

    A repeated key, a lone surrogate, bad UTF-8 or text after the document would be lost.
    """
    try:
        encoded = msgspec.json.encode(msgspec.json.decode(raw))
        return encoded == raw or encoded == msgspec.json.format(raw, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _text(raw: bytes) -> str:
    if not raw.strip():
        raise FaultError("the line is empty")
    if raw.startswith(b"\xef\xbb\xbf"):
        raise FaultError("the line starts with a byte-order mark and not with {")
    if (at := raw.find(b"\0")) >= 0:
        raise FaultError(f"byte {at + 1} is NUL: the line is not JSON text")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        actual = f"found 0x{raw[error.start]:02x} at byte {error.start + 1}"
        raise FaultError(f"not UTF-8 text (binary, compressed or damaged): {actual}") from None


def is_deep(raw: bytes, depth: int = MAX_DEPTH) -> bool:
    """Return true if objects and lists in `raw` (UTF-8) are nested deeper than `depth`."""
    if raw.count(b"[") + raw.count(b"{") <= depth:
        return False
    level = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", raw.decode())):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    return deepest > depth


def unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as dict. Raises FaultError for a repeated key."""
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = counts.most_common(1)[0][0]
        raise FaultError(f'the key "{show(repeated)}" stands more than once in one object')
    return members


def _no_number(text: str) -> object:
    raise FaultError(f"not valid JSON: {text} is no number")


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    remainder = text[error.pos :]
    if error.msg == "Extra data":
        extra = show(remainder)
        return f"more text follows the JSON document at character {error.pos + 1}: found {extra}"
    if not remainder.strip() or error.msg.startswith("Unterminated string"):
        return f"the line is cut: the JSON ends unfinished after {len(text)} characters"
    complaint = error.msg.removesuffix(" at").lower()
    return f"not valid JSON at character {error.pos + 1}: {complaint}, found {show(remainder)}"


_MISSING = re.compile(r"missing required field `(.+?)`")
_WHERE = re.compile(r" - at `\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_type = cache(msgspec.inspect.type_info)  # cached: slow, and needed for each line of a broken file


def misfit(raw: bytes, shape: object, error: Exception, field: str = "") -> FaultError:
    """Return the FaultError about `raw`, which a parser rejected as a `shape` with `error`.

    `field`: the name of the field with the value `raw`; "" = `raw` is a whole line.
    """
    kind, path = _type(shape), field
    match = _WHERE.search(str(error))
    steps = match[1] if match else ""
    for name, index in _STEP.findall(steps):
        if (inner := _inside(kind, name)) is None:  # an unused part of a response
            return FaultError(f"{steps[1:]}: the number is out of range")
        kind = inner
        raw = _MEMBERS.decode(raw)[name] if name else _ITEMS.decode(raw)[int(index)]
        path += (f".{name}" if path else name) if name else f"[{index}]"
    if missing := _MISSING.search(str(error)):
        expected = _type_text(_inside(kind, missing[1]))
        return FaultError(f"{path and path + '.'}{missing[1]} is missing: expected {expected}")
    actual = show(bytes(raw).decode())
    return FaultError(f"{path or 'the line'}: expected {_type_text(kind)}, found {actual}")


def _inside(kind: Type, name: str) -> Type | None:
    """Return the type of a field of `kind`, or of its list items; None = any type."""
    if isinstance(kind, Metadata):
        kind = kind.type
    if isinstance(kind, UnionType):
        return _inside(next(part for part in kind.types if not isinstance(part, NoneType)), name)
    if isinstance(kind, ListType):
        return kind.item_type
    fields = kind.fields if isinstance(kind, StructType) else ()
    return next((field.type for field in fields if field.encode_name == name), None)


def _type_text(kind: Type | None) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_type_text(option) for option in kind.types)
    if isinstance(kind, Metadata) and kind.extra_json_schema:
        return str(kind.extra_json_schema["description"])
    if isinstance(kind, NoneType):
        return "null"
    return "a list" if isinstance(kind, ListType) else "an object"
