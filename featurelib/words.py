"""Write single values for people: a count with its noun, a level, a range, a node list, a time, a
release, a place, and untrusted texts made safe to show.

Unprintable characters in untrusted texts (controls, terminal escapes, marks that change the writing
direction, line ends) become escapes such as `\x1b`; a long text is cut and ends in an ellipsis.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Literal

import msgspec

from featurelib.feature import METADATA_VERSION

if TYPE_CHECKING:  # numpy's import takes time, and a command's help must be fast
    from featurelib.catalogue import Catalogue

LENGTH = 120  # the maximum length of a text, in characters
LONGEST_PATH = 250  # the maximum length of a path; a shortened name would name no file
EMPTY = "(empty)"
RUNS = 12  # the maximum number of runs of node ids in a phrase
# Parts of msgspec's messages, and plain words for them.
_TYPES = {
    "Object contains unknown field": "no key is called",
    "Object missing required field (.*)": r"the key \1 is missing",
    "Invalid enum value (.*)": r"\1 is not allowed",
    " got `float`": " found a fraction",
    r"`int(?: \| null)?`": "a whole number",
    "`date`": "a date",
    "`datetime`": "a date with a time",
    "`str`": "a text",
    "`bool`": "true or false",
    "`float`": "a number",
    "`array`": "a list",
    "`object`": "a table",
    "Expected": "expected",
    " of length >= 1": " that is not empty",
    " >= ": " of at least ",
    " <= ": " of at most ",
    " > ": " above ",
    " got ": " found ",
}
NOT_LISTED = "no such feature"  # follows "supports" or "it supports"


@lru_cache(maxsize=8192)
def clean(text: str, length: int = LENGTH) -> str:
    """Return at most `length` characters of `text`, with unprintable characters escaped."""
    visible = text if len(text) <= length else text[: length + 1]
    visible = printable(visible)
    if len(visible) > length:
        visible = visible[: length - 1] + "…"
    return visible if visible.strip() else EMPTY


def printable(text: str) -> str:
    """Return `text` in one line, with unprintable characters escaped."""
    return text if text.isprintable() else "".join(map(_escape, text))


def pretty_json(value: object, order: Literal["sorted"] | None = None) -> bytes:
    """Return a value as indented JSON with escaped control characters, for people."""
    text = msgspec.json.format(msgspec.json.encode(value, order=order), indent=2).decode()
    if not text.replace("\n", "").isprintable():
        text = "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return text.encode() + b"\n"


def toml_text(text: str) -> str:
    """Return `text` as a TOML string in one line."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def toml_line(text: str, table: str, index: int) -> str:
    """Return `:12`, the line number of the [[table]] number `index` (from 0); "" if not found."""
    table_line = re.compile(rf'\s*\[\[\s*"?{table}"?\s*\]\]')
    lines = [number for number, line in enumerate(text.splitlines(), 1) if table_line.match(line)]
    return f":{lines[index]}" if index < len(lines) else ""


def msgspec_fault(error: Exception) -> tuple[str, int, str]:
    """Return (table, position of its entry, sentence) of a msgspec error; ("", 0, sentence) outside
    a table."""
    parts = re.fullmatch(r"(.*?)(?: - at (?:`key` in )?`\$\.?(.*)`)?", str(error), re.DOTALL)
    assert parts is not None  # the pattern matches any text
    message, path = parts[1], parts[2] or ""
    entry = re.fullmatch(r"(\w+)\[(\d+)\]\.?(.*)", path, re.DOTALL)
    table, index, key = entry.groups() if entry else ("", "0", path)
    for pattern, words in _TYPES.items():
        message = re.sub(pattern, words, message)
    return table, int(index), f"{key}: {message}" if key else message


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def clean_place(location: str) -> str:
    """Return a place `file:line` as safe text. A long path is cut."""
    path, colon, number = location.rpartition(":")
    if not colon:
        return clean(location, LONGEST_PATH)
    return clean(path, LONGEST_PATH) + colon + clean(number)


def place(line: str) -> str:
    """Return a short form of a place: `payments/landing.jsonl:7`."""
    return "/".join(line.split("/")[-2:])


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `no node`, `1 node`, `2,500 nodes`."""
    if number == 0:
        return f"no {noun}"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def progress(done: int, total: int, noun: str, seconds: float) -> str:
    """Return the progress as text: `12 of 60 clusters, about 3 minutes left`. `seconds`:
    remaining."""
    return f"{done:,} of {count(total, noun)}, about {count(ceil(seconds / 60), 'minute')} left"


def reporting(number: int, total: int) -> str:
    """Return a share with its verb: `5 of 6 nodes report`, `1 of 1 node reports`."""
    return f"{number:,} of {count(total, 'node')} {'reports' if total == 1 else 'report'}"


def some(texts: Sequence[str], most: int) -> str:
    """Return at most `most` texts joined: `a, b, c and 4 more`."""
    first = texts if len(texts) == most + 1 else texts[:most]
    rest_count = len(texts) - len(first)
    return ", ".join(first) + (f" and {rest_count:,} more" if rest_count else "")


# A collector's messages about an unreachable cluster, a refused login, and
# security settings that differ from the listener's.
REFUSED_LOGIN = "authentication failed"
OTHER_CLUSTER = "expected the cluster"
OTHER_SECURITY = "the security settings are not the listener's"
NOBODY_ANSWERED = "expected at least one node to answer, found: "
_WHO = re.compile(r"(.*?(?:\S:\d+|(?:broker|controller) \d+)): (.+)")


def share_reasons(text: str) -> str:
    """Join equal reasons: `a:9092: no answer · b:9092: no answer` becomes `a:9092, b:9092: no
    answer`."""
    groups = defaultdict[str, list[str]](list)
    for reason in text.split(" · "):
        match = _WHO.fullmatch(reason)
        node, words = match.groups() if match else ("", reason)
        groups[words].append(node)
    pairs = (
        (", ".join(dict.fromkeys(filter(None, nodes))), words) for words, nodes in groups.items()
    )
    return " · ".join(": ".join(filter(None, pair)) for pair in pairs)


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return (first, last) of each sequence of consecutive numbers."""
    ends: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ends and number == ends[-1][1] + 1:
            ends[-1] = (ends[-1][0], number)
        else:
            ends.append((number, number))
    return ends


def nodes(role: str | None, ids: Iterable[int], most: int | None = RUNS) -> str:
    """Return nodes as text: `broker 2`, `brokers 2-5, 9`. `most`: maximum number of ranges, None =
    all."""
    ranges = runs(ids)
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in ranges[:most]]
    rest_count = sum(high - low + 1 for low, high in ranges[len(texts) :])
    suffix = f" and {rest_count:,} more" if rest_count else ""
    several = len(ranges) > 1 or any(low != high for low, high in ranges)
    return f"{role or 'node'}{'s' if several else ''} {', '.join(texts)}{suffix}"


def brokers_and_controllers(
    brokers: Sequence[int], controllers: Sequence[int], most: int | None = RUNS
) -> str:
    """Return the nodes of a cluster as text: `brokers 1-3; controller 100`."""
    texts = [nodes("broker", brokers, most)] if brokers else []
    texts += [nodes("controller", controllers, most)] if controllers else []
    return "; ".join(texts)


def age(span: timedelta) -> str:
    """Return a time span as text: `12 min`, `47 hours`, `4 days`; `under an hour` for 0."""
    hours, minutes = divmod(int(span.total_seconds() // 60), 60)
    text = count(hours, "hour") if hours < 48 else count(hours // 24, "day")
    return text if hours else f"{minutes} min" if minutes else "under an hour"


def time_text(time: datetime | None, *, seconds: bool = False) -> str:
    """Return a time as text in UTC: `2026-11-21 05:52 UTC`; "" for None."""
    if time is None:
        return ""
    return f"{time.astimezone(UTC):{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'} UTC}"


def moment(microseconds: int | None) -> datetime | None:
    """Return the time `microseconds` after 1970; None for None or 0."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC) if microseconds else None


def microseconds(at: datetime | str) -> int:
    """Return a time, or an ISO 8601 text, in microseconds since 1970. Without zone it is UTC.
    Raises ValueError."""
    time = datetime.fromisoformat(at) if isinstance(at, str) else at
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


def level_text(catalogue: Catalogue, feature: str | None, level: int | None) -> str:
    """Return a level as text: `25 (4.0-IV3)`, `1`, `0 (not finalized)`, `not known`."""
    if level is None:
        return "not known"
    if level == 0:
        return "0 (not finalized)"
    name = catalogue.level_name(feature, level) if feature else str(level)
    return str(level) if name == str(level) else f"{level} ({name})"


def newer_than(catalogue: Catalogue) -> str:
    """Return the text for software that is newer than every release of the catalogue."""
    return f"newer than {catalogue.releases[-1].release}"


def levels_text(catalogue: Catalogue, levels: Iterable[tuple[str, int]]) -> str:
    """Return levels as text: `metadata.version 25 (4.0-IV3), group.version 1`."""
    order = sorted(levels, key=lambda item: metadata_first(item[0]))
    return ", ".join(f"{clean(name)} {level_text(catalogue, name, v)}" for name, v in order)


def range_text(catalogue: Catalogue, feature: str | None, ends: tuple[int, int] | None) -> str:
    """Return a range as text: `7-25 (up to 4.0-IV3)`, `1 only`; NOT_LISTED without range."""
    if ends is None:
        return NOT_LISTED
    low, high = ends
    if low == high:
        return f"{level_text(catalogue, feature, high) if high else 0} only"
    name = catalogue.level_name(feature, high) if feature else str(high)
    return f"{low}-{high}" if name == str(high) else f"{low}-{high} (up to {name})"


def releases_text(catalogue: Catalogue, names: Sequence[str]) -> str:
    """Return releases as text, with consecutive releases joined: `4.0 to 4.4`."""
    order = [release.release for release in catalogue.releases]
    groups: list[list[str]] = []
    for name in names:
        before = groups[-1][-1] if groups else ""
        if before in order and order[order.index(before) + 1 :][:1] == [name]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return ", ".join(r[0] if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in groups) or "none"


def went_back(feature: str, before: str, after: str) -> str:
    """Return a sentence that the maximum level fell because software was rolled back."""
    return f"software was rolled back: the maximum {feature} fell from {before} to {after}"


def ask_why_lower(moves: Iterable[tuple[str, str, str, datetime]]) -> str:
    """Return the question to answer before an upgrade, for features whose last change was a
    downgrade. `moves`: (feature, from, to, time)."""
    went = [f"{clean(f)} went down from {a} to {b} (seen {time_text(at)})" for f, a, b, at in moves]
    return f"Ask first why {' and '.join(went)}." if went else ""


def mend_first(messages: Sequence[str]) -> str:
    """Return the sentence `Fix the critical finding first: …`; "" without messages."""
    suffix = f" {count(len(messages) - 1, 'critical finding')} more." if messages[1:] else ""
    return f"Fix the critical finding first: {messages[0]}{suffix}" if messages else ""


def although(unfit: Sequence[str]) -> str:
    """Return `, although broker 2 does not fit it`, to follow a finalized level; "" if every node
    fits."""
    verb = "does" if len(unfit) == 1 else "do"
    return f", although {some(unfit, 3)} {verb} not fit it" if unfit else ""


def metadata_first(feature: str) -> tuple[bool, str]:
    """Return the sort key of features: metadata.version comes first, then by name."""
    return feature != METADATA_VERSION, feature


def code_text(code: str) -> str:
    """Return a finding code as words."""
    return clean(code).replace("_", " ")
