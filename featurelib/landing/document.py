"""Whether a line is one strict JSON object: nothing said twice, nothing cut, nothing after it.

JSON readers differ in what they forgive: repeated keys, lone surrogates, NaN, bad UTF-8 in parts
they skip. A line two readers could understand differently is not evidence. `is_retold` proves the
common case quickly, `is_strict` the next; both say False when they cannot, and `require_strict`
decides exactly.
"""

from __future__ import annotations

import json
import re
from collections import Counter

import msgspec

from featurelib.landing.fault import FaultError, show
from featurelib.landing.memory import remembered

MAX_BYTES = 8 * 1024 * 1024  # the longest line that is looked at
MAX_DEPTH = 100  # of objects and lists; parsers give up somewhere above, each at its own place

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?')
_BRACKET = re.compile(r"[\[\]{}]")
_LONE = re.compile(r"[\ud800-\udfff]")


def is_retold(raw: bytes, again: bytes) -> bool:
    """Whether a line is proven strict by what was decoded of it, written `again`.

    Precondition: the types that were decoded nest less than MAX_DEPTH deep, `again` has no key that
    the line lacks, and whatever it copies undecoded is known to be strict.
    A key costs quotes, and so does a text: where both have as many, the line has no key that was
    not decoded, and none twice. Only an escape `\\u0022` could upset the count.
    False means "not proven", not "broken".
    """
    return raw.count(b'"') == again.count(b'"') and not (b"\\" in raw and b"\\u" in raw)


def is_strict(raw: bytes, objects: int) -> bool:
    """Whether a line that was decoded already is proven to repeat no key and to be UTF-8.

    `objects` counts the JSON objects of the line whose keys the caller vouches for, the line itself
    included: where there are no others, nothing is left to repeat a key in.
    False means "not proven", not "broken".
    """
    if not raw.isascii() and not _is_utf8(raw):
        return False
    members = _MEMBERS.decode(raw)
    values = b"".join(members.values())
    # Every member costs two quotes, a colon and a comma; a repeated key leaves bytes over.
    needed = len(values) + len("".join(members)) + 4 * len(members) + 1
    if needed != len(raw):
        compact = msgspec.json.format(raw, indent=-1)
        return len(compact) < len(raw) and is_strict(compact, objects)
    if values.count(b"[") >= MAX_DEPTH:
        return False
    if values.count(b"{") < objects:
        return True
    inner = [text for value in members.values() if (text := bytes(value))[0] in b"[{"]
    return all(map(_is_strict_value, inner))


def require_strict(raw: bytes, depth: int = MAX_DEPTH) -> None:
    """Raise FaultError unless `raw` is one strict JSON document, no deeper than `depth`."""
    require_size(raw)
    if _is_plain(raw) and _depth(raw.decode()) <= depth:
        return
    text = _text(raw)
    if _depth(text) > depth:
        raise FaultError(f"objects and lists are nested more than {MAX_DEPTH} deep")
    try:
        # Numbers are judged elsewhere; float reads any length of digits.
        value = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_int=float
        )
    except json.JSONDecodeError as error:
        raise FaultError(_syntax(text, error)) from None
    if "\\u" in text and (lone := _LONE.search(json.dumps(value, ensure_ascii=False))):
        raise FaultError(f"a lone surrogate escape: expected a pair, found {show(lone[0])}")


def require_size(raw: bytes) -> None:
    """Raise FaultError if the line is longer than MAX_BYTES."""
    if len(raw) > MAX_BYTES:
        raise FaultError(
            f"the line is too long: expected at most {MAX_BYTES} bytes, found {len(raw)}"
        )


def _is_plain(raw: bytes) -> bool:
    """Whether reading the document and writing it again gives the same bytes, white space apart.

    A repeated key, a lone surrogate, bad UTF-8 or text behind the document would not come back.
    """
    try:
        again = msgspec.json.encode(msgspec.json.decode(raw))
        return again == raw or again == msgspec.json.format(raw, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


@remembered
def _is_strict_value(value: bytes) -> bool:
    try:
        require_strict(value, MAX_DEPTH - 1)  # one level is the line around it
    except FaultError:
        return False
    return True


def _text(raw: bytes) -> str:
    if not raw.strip():
        raise FaultError("the line is empty")
    if raw.startswith(b"\xef\xbb\xbf"):
        raise FaultError("the line starts with a byte-order mark: expected {")
    if (at := raw.find(b"\0")) >= 0:
        raise FaultError(f"byte {at + 1} is NUL: expected JSON text")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        found = f"found 0x{raw[error.start]:02x} at byte {error.start + 1}"
        raise FaultError(f"not UTF-8 text (binary, compressed or damaged): {found}") from None


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") < MAX_DEPTH:
        return 0
    depth = deepest = 0
    for mark in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = counts.most_common(1)[0][0]
        raise FaultError(f'the key "{show(twice)}" stands more than once in one object')
    return members


def _no_number(text: str) -> object:
    raise FaultError(f"not valid JSON: {text} is no number")


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    rest = text[error.pos :]
    if error.msg == "Extra data":
        found = show(rest)
        return f"more text follows the JSON document at character {error.pos + 1}: found {found}"
    if not rest.strip() or error.msg.startswith("Unterminated string"):
        return f"the line is cut: the JSON ends unfinished after {len(text)} characters"
    complaint = error.msg.removesuffix(" at").lower()
    return f"not valid JSON at character {error.pos + 1}: {complaint}, found {show(rest)}"
