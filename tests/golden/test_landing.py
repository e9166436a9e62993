"""Every line of the landing corpus: accepted, or refused for the same reason as before."""

from __future__ import annotations

from pathlib import Path

from featurelib.landing import Quarantined, read
from tests.golden.transcript import REWRITES
from tests.landing.corpus import CASES, GOOD

STORED = Path(__file__).with_name("landing.txt")


def _verdict(raw: bytes) -> str:
    line = read(raw)
    return line.reason if isinstance(line, Quarantined) else "accepted"


def test_lines_are_accepted_and_refused_as_before() -> None:
    told = [f"good {number}: {_verdict(raw.encode())}" for number, raw in enumerate(GOOD)]
    told += [f"{case.name}: {_verdict(case.raw)}" for case in CASES]
    text = "\n".join(told) + "\n"
    if REWRITES:
        STORED.write_text(text, "utf-8")
    assert text == STORED.read_text("utf-8")


def test_a_reason_is_one_short_sentence_and_what_is_left_of_the_envelope_is_clean() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for line in (read(case.raw) for case in CASES):
        assert isinstance(line, Quarantined)
        assert len(line.reason) < 300
        assert line.reason.isprintable()
        words = ("Traceback", "msgspec", "Decode", "ValidationError", "Line(", "Raw")
        assert not any(word in line.reason for word in words)
        for text in (line.kind, line.cluster):
            assert text is None or (0 < len(text) <= 255 and text.isprintable())
