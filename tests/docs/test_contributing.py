"""CONTRIBUTING.md names what is there: a rename must not leave a recipe behind."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"_?[A-Z][A-Z_]{3,}|_[a-z_]+|[A-Z][a-z]+[A-Z]\w+|[a-z]+_[a-z_]+")
PLACES = ("featurelib", "tests", "scripts", "tests/golden", "docs", "")


def test_every_name_and_path_of_contributing_is_there() -> None:
    spans = CODE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    sources = [of for top in ("featurelib", "tests", "scripts") for of in (ROOT / top).rglob("*")]
    text = "\n".join(of.read_text("utf-8") for of in sources if of.suffix in (".py", ".toml"))
    words = {*re.findall(r"\w+", text), *(of.stem for of in [*sources, *ROOT.iterdir()])}
    named = {word for span in spans for word in NAME.findall(span.rpartition("/")[2])}
    assert len(named) > 40
    assert sorted(named - words) == []
    paths = {span for span in spans if re.fullmatch(r"[\w.-]+/[\w./-]+\.(py|toml|md|txt)", span)}
    assert len(paths) > 20
    assert [p for p in sorted(paths) if not any((ROOT / at / p).exists() for at in PLACES)] == []
