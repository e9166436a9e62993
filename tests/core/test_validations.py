"""What a controller validated stands in a snapshot row as text, and reads back as it was."""

from __future__ import annotations

import pytest

from featurelib.audit import oddities as oddity
from featurelib.audit.oddities import PROBED, Asked
from featurelib.audit.oddities import read_probe as read
from featurelib.audit.oddities import write_probe as write

AGREED = Asked(feature="f", from_level=1, to_level=3, code=0, message="")
REFUSED = Asked(feature='g"\n', from_level=0, to_level=1, code=95, message="no: [it] is, not")


@pytest.mark.parametrize("asked", [(), (AGREED,), (AGREED, REFUSED)])
def test_what_was_validated_reads_back(asked: tuple[Asked, ...]) -> None:
    entry = oddity.read_oddity(write(asked, at=7, line=-9))
    assert (entry.code, entry.at, entry.line) == (PROBED, 7, -9)
    assert read(entry) == asked
    assert [one.is_agreed for one in asked] == [one.code == 0 for one in asked]


@pytest.mark.parametrize(
    "detail", ['{"f": 1}', "3", '["f"]', '[["f", 1, 2, 0]]', '[[1, 1, 2, 0, ""]]', "x"]
)
def test_any_other_text_is_none(detail: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)expect"):
        read(oddity.Oddity(code=PROBED, detail=detail, at=7, line=-9))
