"""Generated pages are what the code says now. FEATURELIB_REWRITE=1 writes them anew."""

from __future__ import annotations

import json
import os
import re
from enum import Enum
from pathlib import Path

import pytest
from deltalake import DeltaTable

from featurelib.audit.findings import wordings
from featurelib.catalogue import load as catalogue
from featurelib.core.dialect import STRICT, load
from featurelib.extras.conformance import exchanges as recording_form
from featurelib.extras.conformance.exchanges import read
from featurelib.extras.conformance.replay import EXCUSES, KINDS, replay
from featurelib.extras.rules.book import DIALECTS, questions, rulebook
from featurelib.lake import VERSION_PROPERTY, Lake
from featurelib.landing import Landing
from featurelib.landing import read as read_line
from featurelib.landing.kinds import KindLine
from featurelib.landing.line import decode
from featurelib.source import NIGHTS_BEFORE
from featurelib.tables import ALL, LANDING_LINE
from jobs.nightly import unpack
from scripts.make_nights import landed, nights
from scripts.write_docs import DOCS, PAGES
from scripts.write_vocabulary import ENUMS, MEMBERS
from tests.docs.examples import is_as_printed

ROOT = Path(__file__).parents[2]
NAMING = (".py", ".toml", ".sh", ".j2")  # files whose texts may name a page
GUIDES = [
    page
    for folder in ("", "how-to", "explanation", "contributing")
    for page in sorted((DOCS / folder).glob("*.md"))
    if page.name not in PAGES and page.name not in ("landing.md", "conformance.md")
]
MOST_WORDS = 1200  # of a page that is no reference
FORMS = [form for form in vars(recording_form).values() if hasattr(form, "__struct_fields__")]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_not_stale(name: str) -> None:
    path, written = DOCS / name, PAGES[name]()
    if os.environ.get("FEATURELIB_REWRITE") == "1":
        path.write_text(written, encoding="utf-8")
    stale = f"docs/{name} is stale: FEATURELIB_REWRITE=1 {Path('.venv/bin/pytest')} tests/docs"
    assert path.read_text(encoding="utf-8") == written, stale


def test_every_rule_dialect_and_finding_has_its_place() -> None:
    rules, dialects, words = (
        PAGES[name]() for name in ("rules.md", "dialects.md", "vocabulary.md")
    )
    assert [name for name in rulebook() if f"\n## {name}\n" not in rules] == []
    assert [name for name in DIALECTS if f"\n## {name}\n" not in dialects] == []
    codes = [*wordings(load(STRICT)), *rulebook()]
    assert [name for name in codes if name not in words] == []


def test_every_row_of_every_dialect_is_on_the_page() -> None:
    page = PAGES["dialects.md"]()
    for name in DIALECTS:
        part = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        found = re.findall(r"^\| (?:door )?\d+(?: †)? \| \[(\w+)\]", part, re.MULTILINE)
        assert found == [question.row.code for question in questions(name)]


def test_every_key_of_a_json_file_has_its_meaning_in_its_cell() -> None:
    text = (DOCS / "reference" / "schemas.md").read_text(encoding="utf-8")
    assert [row for row in text.splitlines() if row.endswith("|  |")] == []
    assert re.findall(r"^(?![|]).*`\w+`: ", text, re.M) == []


def test_no_word_of_an_enum_is_explained_twice_or_left_out() -> None:
    members = [f"{owner.__name__}.{each.name}" for owner in ENUMS for each in owner]
    assert [name for name in MEMBERS if name not in members] == []
    assert all(issubclass(owner, Enum) for owner in ENUMS)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "data/samples/README.md"])
def test_links_outside_the_site_lead_somewhere(name: str) -> None:
    """Those within it are checked when it is built."""
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        file, _, heading = target.partition("#")
        place = path.parent / (file or path.name)
        assert place.exists(), f"{name}: {target}"
        assert not heading or heading in _places(place), f"{name}: {target}"


def _places(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in found}


@pytest.mark.parametrize("root", ["featurelib", "conf", "jobs", "spark-submit.sh", "scripts"])
def test_pages_that_texts_name_are_there(root: str) -> None:
    """Help, errors and comments name pages of docs/: they are not moved without fixing these."""
    start = ROOT / root
    files = [start] if start.is_file() else [p for p in start.rglob("*") if p.suffix in NAMING]
    for path in files:
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8")):
            assert (ROOT / page).exists(), f"{path.relative_to(ROOT)} names {page}"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_guide_is_short_and_says_first_what_the_reader_can_do_after_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```[\s\S]*?^```$|^\[[^]\n]+\]: \S+$", "", text, flags=re.MULTILINE)
    assert len(prose.split()) <= MOST_WORDS
    first = prose.split("\n\n")[1]
    assert re.match(r"(After|This page) ", first), first


def test_the_readme_leads_to_the_site() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    wanted = ("docs/index.md", "docs/tutorial.md", "docs/reference/commands.md")
    assert [page for page in wanted if page not in readme] == []


def test_the_readme_shows_the_report_of_the_samples() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    report = (ROOT / "tests" / "golden" / "report" / "first.txt").read_text(encoding="utf-8")
    assert is_as_printed(f"…\n{shown}…\n", report)


def test_the_example_of_the_form_is_one() -> None:
    text = (DOCS / "conformance.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    report = replay(read([json.dumps(json.loads(example)).encode()], "example"), catalogue().tables)
    assert (report.exchanges, report.differences, dict(report.undecided)) == (1, [], {})


def test_the_form_lists_every_key_that_is_read() -> None:
    text = (DOCS / "conformance.md").read_text(encoding="utf-8")
    for form in FORMS:
        for key in form.__struct_fields__:
            assert f"`{key}`" in text, f"{form.__name__}.{key}"


def test_every_kind_of_difference_and_every_excuse_is_explained() -> None:
    text = (DOCS / "conformance.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"| `{kind}` |" not in text] == []
    assert [reason for reason in EXCUSES if f"| {reason} |" not in text] == []


def test_the_tables_of_the_nights_before_hold_the_recordings(tmp_path: Path) -> None:
    unpack(NIGHTS_BEFORE, str(tmp_path))
    lake = Lake(str(tmp_path / "tables"))
    stale = "data/nights is stale: .venv/bin/python -m scripts.make_nights"
    assert {row["catalogue"] for row in lake.runs.to_pylist()} == {catalogue().label}, stale
    for table in ALL:
        about = DeltaTable(str(tmp_path / "tables" / table.path)).metadata().configuration
        assert about[VERSION_PROPERTY] == str(table.version), stale
    rows = lake.read(LANDING_LINE, [], ["run", "raw"]).to_pylist()
    kept = {(str(row["run"])[:8], row["raw"]) for row in rows}
    made = {
        (f"{night:%Y%m%d}", line)
        for night in nights()
        for _, lines in landed(night)
        for line in lines
    }
    assert [len(kept - made), len(made - kept)] == [0, 0], stale


def test_the_page_of_landing_lines_has_a_line_of_every_kind_and_spells_out_every_field() -> None:
    page = (DOCS / "landing.md").read_text(encoding="utf-8")
    parts = {part.partition("`")[0]: part for part in page.split("\n## `")[1:]}
    assert sorted(parts) == sorted(line.__struct_config__.tag for line in KindLine.__args__)
    for line in KindLine.__args__:
        part = parts[str(line.__struct_config__.tag)]
        (block,) = re.findall(r"(?s)```json\n(.*?)```", part)
        for example in map(str.encode, block.splitlines()):
            assert isinstance(land := read_line(example), Landing), f"{land}: {example!r}"
            assert type(decode(example)) is line
        table = "".join(re.findall(r"^\|.*$", part, re.MULTILINE))
        own = [*{*line.__struct_encode_fields__} - {"cluster_id", "observed_at"}]
        assert [name for name in own if f"`{name}`" not in table] == []
