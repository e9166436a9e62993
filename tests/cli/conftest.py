"""Commands write as wide as the terminal: in the tests of their text it has one width."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
