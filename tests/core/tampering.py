"""Ways to tamper with a small JSON file: bytes, lines, letters that look alike, numbers, values."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

ALIKE = {"a": "а", "c": "с", "e": "е", "o": "о", "p": "р", "x": "х", "1": "１", "0": "０", "-": "‐"}
NUMBERS = ("{}.0", "0{}", "{}e0", "+{}", "-{}", '"{}"', "{}_0", " {}", "[{}]", "{}0", "0x{}")
VALUES: tuple[Any, ...] = (None, True, 0, 1, -1, 2**63, 1.5, "", "x", [], {}, ["x"])


def flip_a_bit(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    return text[:at] + bytes([text[at] ^ 1 << dice.randrange(8)]) + text[at + 1 :]


def set_a_byte(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    return text[:at] + bytes([dice.randrange(256)]) + text[at + 1 :]


def insert_bytes(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text) + 1)
    return (
        text[:at] + dice.choice((b" ", b"\n", b"0", b'"', b",", b"\0", b"\xef\xbb\xbf")) + text[at:]
    )


def delete_bytes(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    return text[:at] + text[at + dice.randint(1, 8) :]


def swap_bytes(text: bytes, dice: random.Random) -> bytes:
    found = bytearray(text)
    one = dice.randrange(len(text))
    other = min(one + 1, len(text) - 1) if dice.random() < 0.5 else dice.randrange(len(text))
    found[one], found[other] = found[other], found[one]
    return bytes(found)


def swap_lines(text: bytes, dice: random.Random) -> bytes:
    lines = text.split(b"\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def repeat_a_line(text: bytes, dice: random.Random) -> bytes:
    lines = text.split(b"\n")
    lines.insert(dice.randrange(len(lines)), dice.choice(lines))
    return b"\n".join(lines)


def look_alike(text: bytes, dice: random.Random) -> bytes:
    letters = text.decode()
    at = dice.choice([i for i, letter in enumerate(letters) if letter in ALIKE])
    other = dice.choice((ALIKE[letters[at]], f"\\u{ord(letters[at]):04x}", letters[at] + "\u200b"))
    return (letters[:at] + other + letters[at + 1 :]).encode()


def other_number(text: bytes, dice: random.Random) -> bytes:
    letters = text.decode()
    at = dice.choice([i for i, letter in enumerate(letters) if letter.isdigit()])
    return (letters[:at] + dice.choice(NUMBERS).format(letters[at]) + letters[at + 1 :]).encode()


def leaves(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    below = [
        leaf for key in keys if isinstance(value[key], dict | list) for leaf in leaves(value[key])
    ]
    return [(value, key) for key in keys] + below


def _written(document: Any) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def other_value(text: bytes, dice: random.Random) -> bytes:
    document = json.loads(text)
    container, key = dice.choice(leaves(document))
    container[key] = dice.choice(VALUES)
    return _written(document)


def swap_values(text: bytes, dice: random.Random) -> bytes:
    document = json.loads(text)
    (here, one), (there, other) = dice.sample(leaves(document), 2)
    moved = copy.deepcopy(here[one]), copy.deepcopy(there[other])
    there[other], here[one] = moved
    return _written(document)


def other_key(text: bytes, dice: random.Random) -> bytes:
    document = json.loads(text)
    container, key = dice.choice([leaf for leaf in leaves(document) if isinstance(leaf[0], dict)])
    value = container.pop(key)
    if dice.random() < 0.7:
        container[dice.choice((key.upper(), key + " ", "x", key[::-1]))] = value
    return _written(document)


def key_twice(text: bytes, dice: random.Random) -> bytes:
    """The key of one member again, beside it, with another value or the same."""
    lines = text.decode().split("\n")
    at = dice.choice([i for i, line in enumerate(lines) if '": ' in line])
    key = lines[at].partition(":")[0]
    value = dice.choice(('"x"', "1", "null", lines[at].partition(": ")[2].rstrip(",")))
    lines.insert(at, f"{key}: {value},")
    return "\n".join(lines).encode()


def other_form(text: bytes, dice: random.Random) -> bytes:
    """The same values, written in another way."""
    document = json.loads(text)
    return dice.choice(
        (
            json.dumps(document).encode(),
            json.dumps(document, indent=4).encode(),
            json.dumps(document, indent=2).encode(),
            json.dumps(document, indent=2, sort_keys=True).encode() + b" \n",
            text.replace(b"\n", b"\r\n"),
            b"\xef\xbb\xbf" + text,
            text.decode().encode("utf-16"),
            text + text,
        )
    )


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_a_bit,
    set_a_byte,
    insert_bytes,
    delete_bytes,
    swap_bytes,
    swap_lines,
    repeat_a_line,
    look_alike,
    other_number,
    other_value,
    swap_values,
    other_key,
    key_twice,
    other_form,
)
