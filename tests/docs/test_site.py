"""The site builds without a warning, needs nothing of others, and says everything there is."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from featurelib.audit.findings import wordings
from featurelib.cli.app import COMMANDS
from featurelib.core.dialect import STRICT, load
from featurelib.extras.rules.book import DIALECTS, rulebook
from featurelib.tables import ALL
from scripts.docs_texts import ENDS
from scripts.write_commands import JOBS, commands, error_classes, jobs
from scripts.write_schemas import SCHEMAS
from tests.report.test_pages import CHROMIUM, SIZES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it; a link that leads nowhere ends the build."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def words(site: Path) -> str:
    """All that the pages say, without their markup."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(site.rglob("*.html"))]
    return html.unescape(re.sub(r"<[^>]+>", "", "\n".join(pages)))


def test_every_page_is_built(site: Path) -> None:
    missing = [
        page.name
        for page in DOCS.rglob("*.md")
        if not (site / page.relative_to(DOCS).with_suffix(".html")).exists()
    ]
    assert missing == []


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=[\"']?(?:https?:)?//[^\s>]*"
        r"|<link[^>]+href=[\"']?(?:https?:)?//[^\s>]*"
        r"|@import|url\([\"']?(?:https?:)?//"
    )
    found = [
        (path.relative_to(site).as_posix(), match)
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css")
        for match in loads.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: install chromium")
def test_a_page_opened_from_a_folder_can_be_searched_and_fits_a_phone(site: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        wide, phone = (browser.new_page(viewport=SIZES[size]) for size in ("wide", "phone"))
        wide.goto((site / "how-to" / "stale.html").as_uri())
        wide.fill(".md-search__input", "unregister")
        found = wide.wait_for_selector(".md-search-result__item", timeout=30_000)
        assert found is not None
        assert "unregister" in found.inner_text().lower()
        phone.goto((site / "explanation" / "five-rules.html").as_uri())
        shown, given = phone.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        browser.close()
    assert shown <= given


def test_no_list_is_swallowed_by_the_paragraph_above_it(site: Path) -> None:
    """Python-Markdown wants an empty line before a list; GitHub does not, so it is missed there."""
    swallowed = re.compile(r"<p>[^<]*(?:<(?!/p>)[^<]*)*?\n(?:- |\d+\. )[^\n]{0,60}")
    found = [
        (path.relative_to(site).as_posix(), match[-60:])
        for path in sorted(site.rglob("*.html"))
        for match in swallowed.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_place(site: Path, name: str) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert f'<h2 id="{name}">' in page


def test_every_option_of_every_command_and_job_is_said(words: str) -> None:
    everything = [*commands(), *jobs()]
    options = {option for _, made, _ in everything for each in made.params for option in each.opts}
    assert [option for option in sorted(options) if option not in words] == []
    assert len(JOBS) == 4


def test_every_rule_dialect_finding_table_and_exit_code_is_said(words: str) -> None:
    codes = {str(number) for number in ENDS} | {str(cls.exit_code) for cls in error_classes()}
    known = [
        *rulebook(),
        *DIALECTS,
        *wordings(load(STRICT)),
        *(table.full_name for table in ALL),
        *(f"{table.full_name.split('.')[1]}" for table in ALL),
        *(path.name for path in SCHEMAS),
        *(cls.__name__ for cls in error_classes()),
    ]
    assert [name for name in known if name not in words] == []
    assert codes == {str(number) for number in ENDS}


def test_every_exit_code_is_a_row_of_its_page(site: Path) -> None:
    page = (site / "reference" / "exit-codes.html").read_text(encoding="utf-8")
    assert [number for number in ENDS if f"<td>{number}</td>" not in page] == []


def test_each_command_says_its_exit_codes() -> None:
    silent = [name for name, made, _ in commands() if "xit code" not in (made.help or "")]
    # Commands of a group: the group says it for all of them.
    assert [name for name in silent if name.split()[0] != "plan"] == []
