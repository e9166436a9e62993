"""The pages in a real browser: nothing overflows, nothing is inaccessible, it works without script.

The screenshots stay in build/pages, for a person to look at.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from featurelib.audit.findings import Mute
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.view.html import part_pages, render_html, render_pages
from featurelib.view.model import Report
from tests.report.samples import made_up_nights, report_samples
from tests.report.scenes import step
from tests.report.tables import SEEN, Nodes, finding, judged, plan, report, unfit, with_nodes
from tests.report.test_html import big_report

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "pages"
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
SIZES = {
    "wide": {"width": 1200, "height": 900},
    "tablet": {"width": 768, "height": 1024},
    "phone": {"width": 390, "height": 844},
    "small": {"width": 360, "height": 740},
}
RED = "rgb(179, 38, 30)"
LONG = "a-cluster-of-the-longest-name-that-anybody-ever-gave-to-anything-" * 2

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason=f"needs a browser: install one of {', '.join(NAMES)}"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        # A container's root has no sandbox of its own to give.
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def hostile() -> tuple[Report, Fleet]:
    """Clusters of every bad name, two hundred brokers of as many ranges, and forty features."""
    names = (LONG, "x" * 300, '<b>&"it\'s"', "فريق الدفع", "🔥 支払い", "many words " * 30, "c")
    features = ["metadata.version", LONG, *(f"company.feature.of.words.{n}" for n in range(38))]
    verdicts = dict(zip(names, ("BLOCKED", "READY", "UNKNOWN") * 3, strict=False))
    steps = [step(name, 0, 30_000, request) for request, name in enumerate(features[:9])]
    known = {"finalized_level": 27, "target": 28, "ceiling": 30_000, "available": 32_767}
    said = report(
        judged(
            [plan(n, v, nodes=200, steps=steps * (v == "READY")) for n, v in verdicts.items()],
            [unfit(names[n % 4], n, features[n % 7], 1, n + 1) for n in range(200)]
            + [finding("c", "node_not_answering", "unknown", role="broker", detail=LONG * 2)],
            [
                {"cluster": n, "feature": name, "verdict": v, "ready_since": SEEN, **known}
                for n, v in verdicts.items()
                for name in features[: 40 if n == LONG else 4]
            ],
        ),
        inventory=(fleet := Fleet(cluster=tuple(_entry(name) for name in names))),
        nights=made_up_nights(20261121080000, SEEN),
        before=dict.fromkeys(names, "READY") | {"c": "UP_TO_DATE"},
        mutes=(Mute(code="ghost_broker", reason=LONG, until=SEEN.date()),),
    )
    wide = dict.fromkeys(features, (0, 32_767))
    nodes: Nodes = {("broker", n): wide | {"metadata.version": (1, n + 1)} for n in range(199)}
    return with_nodes(said, nodes | {("broker", 2**31 - 1): None}), fleet


def _entry(name: str) -> FleetEntry:
    return FleetEntry(id=name, name=name, owner=name, contact=name, labels={"tier": name})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages looked at, by name."""
    said, fleet = hostile()
    texts = {
        "hostile": render_html(
            said, parts=part_pages(said, fleet, "fleet.toml", lambda text: None)
        ),
        "samples": render_html(report_samples()),
        "fleet": big_report(2500),
    }
    # So many that each has a page of its own.
    many = [replace(said.clusters[n % 7], key=str(n)) for n in range(101)]
    [(_, texts["cluster"])] = render_pages(replace(said, clusters=tuple(many)), most=1)
    folder = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def opened(browser: Browser, file: Path, **more: Any) -> Page:
    # A test that waits asks again by `eval`, which the page itself forbids.
    given = {"viewport": SIZES["wide"], "bypass_csp": True, **more}
    page = browser.new_context(**given).new_page()
    page.goto(file.as_uri())
    return page


@pytest.mark.parametrize(("size", "colours"), [("wide", "light"), ("phone", "dark")])
@pytest.mark.parametrize("name", ["hostile", "samples", "fleet"])
def test_nothing_overflows(
    browser: Browser, files: dict[str, Path], name: str, size: str, colours: str
) -> None:
    page = opened(browser, files[name], viewport=SIZES[size], color_scheme=colours)
    shown, given = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}-{size}-{colours}.png")
    grid = page.locator("#grid")
    assert grid.locator("thead").evaluate("(e) => e.offsetHeight") < 100
    region = page.locator(".high").bounding_box()
    first = grid.locator("thead .f").first.bounding_box()
    if name != "hostile" and region and first and size == "wide":  # metadata.version is not cut
        assert first["x"] + first["width"] <= region["x"] + region["width"]
    # Of thousands of rows only those in view are laid out.
    laid = "(all) => all.filter((e) => e.checkVisibility({ contentVisibilityAuto: true })).length"
    assert grid.locator("tbody th > a").evaluate_all(laid) < 60
    page.set_viewport_size({"width": 320, "height": 640})  # the smallest, or a screen at 400 %
    narrow = page.evaluate("document.documentElement.scrollWidth")
    page.context.close()
    assert (shown <= given, narrow) == (True, 320)


@pytest.mark.parametrize("name", ["hostile", "samples", "fleet"])
def test_nothing_is_cut_on_paper(browser: Browser, files: dict[str, Path], name: str) -> None:
    given = {"viewport": {"width": 718, "height": 1047}, "color_scheme": "dark"}  # A4 in margins
    page = opened(browser, files[name], **given)
    page.emulate_media(media="print")
    ends = "[...document.querySelectorAll('body *')].map(e => e.getBoundingClientRect().right)"
    assert page.evaluate(f"Math.max(...{ends})") <= 718
    # A head is repeated on every sheet, but a button in it is painted on the first one alone.
    display = "(all) => all.map((e) => getComputedStyle(e).display)"
    assert set(page.locator("#grid thead button").evaluate_all(display)) == {"contents"}
    # Of a dark screen too: light letters are not legible there.
    ink = "(all) => all.map((e) => getComputedStyle(e).color)"
    assert set(page.locator("#grid .critical b, #grid .BLOCKED").evaluate_all(ink)) == {RED}
    # A verdict stands on one line, and what opens a cluster on the sheet where it goes on.
    lines = "(all) => all.map((e) => getComputedStyle(e).whiteSpace)"
    assert set(page.locator("article td[class], #grid td.s").evaluate_all(lines)) == {"nowrap"}
    breaks = """(all) => all.map((e) => {
        const { breakInside, breakAfter } = getComputedStyle(e);
        return `${breakInside}, ${breakAfter}`;
    })"""
    assert set(page.locator("article > header").evaluate_all(breaks)) == {"avoid, avoid"}
    assert set(page.locator(".trends table").evaluate_all(breaks)) <= {"avoid, auto"}
    tops = "(all) => all.map((e) => e.offsetTop)"
    assert len(set(page.locator(".tiles li").evaluate_all(tops))) == 2
    # One line says what can be finalized, too, and has the room of that column.
    assert page.locator("#grid th.said").evaluate("(e) => e.offsetWidth") > 718 / 5
    assert page.locator(".plots:empty").count() == 0  # behind which a sheet may end
    assert set(page.locator("article > p").evaluate_all(breaks)) == {"auto, avoid"}
    assert set(page.locator("h2 + p").evaluate_all(breaks)) == {"avoid, avoid"}
    page.context.close()


@pytest.mark.parametrize(
    ("size", "colours"), [("wide", "light"), ("wide", "dark"), ("phone", "dark")]
)
@pytest.mark.parametrize("name", ["hostile", "samples", "cluster"])
def test_axe_finds_no_fault(
    browser: Browser, files: dict[str, Path], name: str, size: str, colours: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(browser, files[name], viewport=SIZES[size], color_scheme=colours)
    faults = Axe().run(page).response["violations"]
    page.context.close()
    assert [(fault["id"], fault["nodes"][0]["html"]) for fault in faults] == []


def test_rows_that_are_not_laid_out_are_still_a_table_to_a_screen_reader(
    browser: Browser, files: dict[str, Path]
) -> None:
    # As it runs where a screen reader does.
    args = ["--no-sandbox", "--force-renderer-accessibility"]
    heard = browser.browser_type.launch(executable_path=CHROMIUM, args=args)
    page = opened(heard, files["samples"])
    reader = page.context.new_cdp_session(page)
    root = reader.send("DOM.getDocument")["root"]["nodeId"]
    roles = []
    for part in ("", " thead tr", " thead th", " tr:last-child", " tr:last-child > td"):
        asked = {"nodeId": root, "selector": f"#grid{part}"}
        found = {"nodeId": reader.send("DOM.querySelector", asked)["nodeId"]}
        tree = reader.send("Accessibility.getPartialAXTree", found | {"fetchRelatives": False})
        roles.append(tree["nodes"][0]["role"]["value"])
    heard.close()
    assert roles == ["table", "row", "columnheader", "row", "cell"]


def test_the_table_narrows_and_sorts(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["samples"])
    page.fill("#find", "ghost-broker")
    assert page.text_content("#shown") == "1 of 27 clusters"
    assert page.locator("#grid tbody tr:visible th > a").all_text_contents() == ["ghost-broker"]
    page.fill("#find", "")
    page.select_option("#verdict", "READY")
    assert page.text_content("#shown") == "4 of 27 clusters"
    page.select_option("#verdict", "")
    page.select_option("#release", "3.9")  # mixed-42-39 runs 3.9 to 4.2
    page.select_option("#phase", "mixed software")
    assert page.locator("#grid tbody tr:visible th > a").all_text_contents() == ["mixed-42-39"]
    page.select_option("#release", "")
    page.select_option("#phase", "")
    page.focus("#grid thead th:nth-child(1) button")
    page.keyboard.press("Enter")
    names = page.locator("#grid tbody th > a").all_text_contents()
    assert names == sorted(names)
    assert page.get_attribute("#grid thead th:nth-child(1)", "aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert page.locator("#grid tbody th > a").all_text_contents() == names[::-1]
    page.context.close()


def test_a_button_takes_back_a_filter_and_is_there_with_one_alone(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["samples"])
    button = page.get_by_role("button", name="show all")
    assert not button.is_visible()
    page.select_option("#verdict", "READY")
    page.fill("#find", "no such thing")
    assert page.text_content("#shown") == "0 of 27 clusters"
    button.click()
    assert page.text_content("#shown") == "27 of 27 clusters"
    assert (page.input_value("#verdict"), page.evaluate("location.hash")) == ("", "")
    assert page.evaluate("document.activeElement.id") == "find"  # a keyboard goes on from there
    assert not button.is_visible()
    page.context.close()


def test_without_script_everything_is_there(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["samples"], java_script_enabled=False)
    assert page.locator("#grid tbody tr").count() == page.locator("article").count() == 27
    assert not page.is_visible("#find")
    page.screenshot(path=SHOTS / "samples-no-script.png", full_page=True)
    page.context.close()


def test_nothing_is_asked_of_a_network_and_no_error_is_logged(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = browser.new_page()
    asked, errors = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(files["fleet"].as_uri())
    page.close()
    assert asked == [files["fleet"].as_uri()]
    assert errors == []


def test_what_was_chosen_stands_in_the_address_and_levels_are_sorted_as_numbers(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["samples"])
    head = page.locator("#grid thead th", has_text="metadata.version").locator("button")
    head.click()
    head.click()
    heads = page.locator("#grid thead th").all_text_contents()
    column = f"#grid tbody tr > :nth-child({heads.index('metadata.version') + 1})"
    cells = page.locator(column).all_text_contents()
    # The finalized level of `✕ 7` and `▲ 11→19`; `?` and nothing have none, and come last.
    levels = [int(one[0]) for cell in cells if (one := re.findall(r"\d+", cell))]
    assert len(levels) > 10
    assert levels == sorted(levels, reverse=True)
    page.select_option("#severity", "blocker")
    rows = page.locator("#grid tbody tr:visible th > a").all_text_contents()
    again = browser.new_page()
    again.goto(page.url)
    assert again.locator("#grid tbody tr:visible th > a").all_text_contents() == rows
    assert again.locator("article:visible").count() == len(rows) < 27
    page.locator(".today summary").click()
    link = page.locator(".today a", has_text="ghost-broker")
    assert link.get_attribute("href") == "#cluster-h0FOOR_sRsiOiKHch7mH4w"
    again.close()
    page.context.close()


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_the_counts_and_the_first_tasks_stand_on_the_first_screen(
    browser: Browser, files: dict[str, Path], size: tuple[int, int]
) -> None:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    page.goto(files["samples"].as_uri())
    tasks = page.locator(".today > ol > li")
    assert tasks.count() == 7
    assert page.locator(".today summary").inner_text() == "4 more groups"
    if size[0] < 640:  # a phone has its lines for what to do, and where
        assert page.locator(".today .short .soft:visible").count() == 0
        begins = """(all) => all.map((e) => e.getClientRects()[0].bottom
            <= e.closest("p").getBoundingClientRect().bottom + 1)"""
        assert set(page.locator(".today p > span").evaluate_all(begins)) == {True}
    assert page.locator(".tiles").first.locator("li").count() == 5
    box = tasks.nth(3).bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= size[1]
    page.locator(".today summary").click()
    while (more := page.locator(".today button", has_text="more")).count():
        more.first.click()  # nothing that is cut stays so
    cut = (
        "[...document.querySelectorAll('.today :is(p, p > span)')]"
        ".some(e => e.scrollHeight > e.clientHeight + 1)"
    )
    assert not page.evaluate(cut)
    page.set_viewport_size({"width": size[0], "height": 3000})
    page.reload()
    assert page.locator(".today .short").count() == 0  # what has room is not folded
    page.close()


def test_a_keyboard_unfolds_the_task_that_it_comes_to(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["samples"], viewport={"width": 1024, "height": 768})
    folded = page.locator(".today .short").count()
    page.focus("a.skip")
    while not page.locator(".today li:has(> button) p a:focus").count():  # a folded task
        page.keyboard.press("Tab")
    at = """(e) => { const { top, bottom } = e.getBoundingClientRect();
        const whole = e.closest("p").getBoundingClientRect();
        return [e.closest("p").scrollTop, top >= whole.top, bottom <= whole.bottom]; }"""
    assert page.locator(":focus").evaluate(at) == [0, True, True]
    for link in page.locator(".today .short p a:visible").all()[-1:]:
        link.click(position={"x": 1, "y": 1})
    assert page.locator(".today .short").count() == folded - 1  # what is pressed does not move
    page.context.close()


@pytest.mark.parametrize("size", ["small", "tablet"])
@pytest.mark.parametrize("name", ["hostile", "samples"])
def test_words_of_plots_are_legible_and_none_is_over_another(
    browser: Browser, files: dict[str, Path], name: str, size: str
) -> None:
    page = opened(browser, files[name], viewport=SIZES[size])
    boxes = """(all) => all.map((one) => [...one.querySelectorAll("text")].map((text) => {
        const { x, y, width, height } = text.getBBox();
        const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
        return [x, x + width, y + 3, y + height - 3, size, one.viewBox.baseVal.width];
    }))"""
    plots = page.locator("article svg").evaluate_all(boxes)
    page.context.close()
    assert len(plots) > 60
    assert max(map(len, plots)) < 100  # a plot fits a sheet, whatever the nodes support
    for words in plots:
        for at, (left, right, top, bottom, size, width) in enumerate(words):
            assert size >= 11
            assert (left > -1, right < width + 1) == (True, True)
            for other in words[at + 1 :]:
                apart = right < other[0] or other[1] < left or bottom < other[2] or other[3] < top
                assert apart


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_line_of_a_finalized_level_is_seen_on_every_bar(
    browser: Browser, files: dict[str, Path], colours: str
) -> None:
    page = opened(browser, files["samples"], color_scheme=colours)
    painted = "(all, name) => all.map((e) => getComputedStyle(e)[name])"
    [line] = {*page.locator("svg path.finalized").evaluate_all(painted, "stroke")}
    bars = {*page.locator("svg path:not(.mark)").evaluate_all(painted, "fill")}
    page.context.close()
    assert len(bars) == 2  # of nodes that fit, and that do not
    for bar in bars:
        dark, bright = sorted(map(_luminance, (line, bar)))
        assert (bright + 0.05) / (dark + 0.05) > 3  # WCAG 1.4.11


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_name_neither_moves_nor_narrows_what_stands_beside_it(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["hostile"])
    # What follows a name that is written from right to left stands to its right.
    after = """(all) => all.map((e) => {
        const next = document.createRange();
        next.setStart(e.nextSibling, 0);
        next.setEnd(e.nextSibling, 3);
        return next.getBoundingClientRect().left - e.getBoundingClientRect().right;
    })"""
    [gap] = page.locator("#parts a", has_text="فريق").evaluate_all(after)
    assert gap >= 0
    widths = "(all) => all.map((e) => e.offsetWidth)"
    assert max(page.locator(".filter label").evaluate_all(widths)) <= 256
    page.set_viewport_size(SIZES["phone"])
    assert min(page.locator(".causes td:last-child:visible").evaluate_all(widths)) > 300
    page.reload()
    heights = "(all) => all.map((e) => e.offsetHeight)"
    assert max(page.locator(".today .short > span > *").evaluate_all(heights)) < 24  # a line
    page.goto(files["samples"].as_uri())
    lines = """(all) => all.map((e) => [...e.childNodes].map((part) => {
        const words = document.createRange();
        words.selectNodeContents(part);
        return e.scrollHeight > e.clientHeight ? "cut" : words.getClientRects().length;
    }))"""
    heads = page.locator("#grid thead .f button", has_text=".version").evaluate_all(lines)
    assert len(heads) == 7
    assert {line for parts in heads for line in parts if line} == {1}  # <wbr> has none
    page.context.close()


@pytest.mark.parametrize("width", [320, 768, 1024, 1920])
def test_tables_tear_no_word_and_what_is_pressed_has_room_for_a_thumb(
    browser: Browser, files: dict[str, Path], width: int
) -> None:
    page = opened(browser, files["hostile"], viewport={"width": width, "height": 700})
    lines = """(all, asked) => all.flatMap((e) => {
        const [text] = [...e.childNodes].filter((part) => part.data?.trim());
        return [...(text?.data.trim() ?? "").matchAll(new RegExp(asked, "g"))].map((found) => {
            const words = document.createRange();
            words.setStart(text, text.data.indexOf(found[0]));
            words.setEnd(text, text.data.indexOf(found[0]) + found[0].length);
            return words.getClientRects().length;
        });
    })"""
    assert {*page.locator(".trends th").evaluate_all(lines, r"\S+")} == {1}
    for one_line in ("#grid td .soft", "article td"):
        assert {*page.locator(one_line).evaluate_all(lines, ".+")} == {1}, one_line
    heights = "(all) => all.map((e) => e.offsetHeight)"
    fields = {*page.locator(".filter").locator("input, select").evaluate_all(heights)}
    assert len(fields) == 1  # their labels stand on one line
    assert min(*fields, *page.locator(".today button:visible").evaluate_all(heights)) >= 24
    widths = "(all) => all.map((e) => e.offsetWidth / e.closest('table').offsetWidth)"
    if width > 640:
        assert min(page.locator(".causes th:last-child:visible").evaluate_all(widths)) > 0.6
    seen = """(all) => all.filter((e) => e.getBoundingClientRect().right
        <= document.querySelector(".high").getBoundingClientRect().right).length"""
    if width >= 1024:  # from the cluster to the age of its data all is read without scrolling
        assert page.locator("#grid thead th:nth-child(-n + 6)").evaluate_all(seen) == 6
    page.context.close()


def test_a_count_brings_the_table_that_it_narrows_into_view(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["samples"])
    in_view = "(e) => { const { top } = e.getBoundingClientRect(); return top > 0 && top < 900; }"
    blocked = (".tiles li", "BLOCKED", 8)
    for where, words, shown in (
        blocked,
        blocked,  # the address is there already
        (".tiles li", "need action", 17),
        (".tiles li", "can be upgraded", 6),
        (".today li", "2 more", 5),
    ):
        page.evaluate("scrollTo(0, 0)")
        assert not page.locator("#grid").evaluate(in_view)
        page.locator(where, has_text=words).locator("a", has_text=words).click()
        page.wait_for_function("scrollY > 0")
        assert page.locator("#grid").evaluate(in_view)
        assert page.text_content("#shown") == f"{shown} of 27 clusters"
        page.click("#grid thead th:first-child button")
        page.go_back()  # the address says nothing of a filter or an order, and there is none
        page.locator("#shown", has_text="27 of 27 clusters").wait_for()
        assert page.locator("#grid [aria-sort]").count() == 0
        assert page.locator("#grid tbody th > a").first.text_content() == "zk-282-ignored-broker"
    page.context.close()


def test_a_task_leads_to_its_clusters_and_to_those_of_its_owners(
    browser: Browser, tmp_path: Path
) -> None:
    codes = dict.fromkeys("abcdefgm", "unmet_dependency")
    codes |= dict.fromkeys("hijkl", "epoch_went_back")
    said = report(
        judged(
            [plan(name, "UP_TO_DATE") for name in [*codes, "z"]],
            [finding(name, code, "critical") for name, code in codes.items()],
        ),
        inventory=Fleet(
            cluster=tuple(
                FleetEntry(id=name, owner="a & b" if name in "ah" else "", contact=f"#{name}|")
                for name in codes
            )
        ),
    )
    (tmp_path / "report.html").write_text(render_html(said), encoding="utf-8")
    page = opened(browser, tmp_path / "report.html")
    for task, link, names in (
        (0, "5 more", "abcdefgm"),
        (1, "2 more", "hijkl"),
        (1, "a & b", "ah"),
        (0, "#b|", "b"),
    ):
        page.locator(".today li").nth(task).get_by_role("link", name=link, exact=True).click()
        count = f"{len(names)} of {len(codes) + 1} clusters"
        page.locator("#shown", has_text=re.compile(f"^{count}$")).wait_for()
        assert page.locator("#grid tbody tr:visible th > a").all_text_contents() == [*names]
    page.context.close()


def test_a_cause_and_a_change_of_many_clusters_name_a_few_and_lead_to_all(
    browser: Browser, tmp_path: Path
) -> None:
    plans = [*(plan(name, "BLOCKED") for name in "abcdefh"), plan("g", "READY")]
    said = report(
        judged(plans, [unfit(name, 1, "f", 1, 2) for name in "abcdefh"]),
        nights=made_up_nights(20261121080000, SEEN),
        before=dict.fromkeys("abcdegh", "READY") | {"f": "BLOCKED"},
    )
    (tmp_path / "report.html").write_text(render_html(said), encoding="utf-8")
    page = opened(browser, tmp_path / "report.html")
    for where, words, shown in (("tr", "nodes that support", 7), (".change li", "READY", 6)):
        named = page.locator(where, has_text=words).locator("a")
        assert named.all_text_contents() == ["a", "b", "c", "d", f"{shown - 4} more"]
        named.last.evaluate("(link) => link.click()")  # wherever a slow machine has laid it out
        page.locator("#shown", has_text=f"{shown} of 8 clusters").wait_for()
    # Paper says that it shows a part, and which.
    page.emulate_media(media="print")
    assert page.locator(".filter").inner_text().split("\n") == [
        "6 of 8 clusters",
        "Changed: READY → BLOCKED",
    ]
    page.emulate_media(media="screen")
    page.goto(f"{(tmp_path / 'report.html').as_uri()}#")
    page.reload()
    page.emulate_media(media="print")
    assert not page.is_visible(".filter")
    page.context.close()


def test_a_link_to_a_cluster_that_the_filter_hides_shows_it(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["samples"])
    page.locator(".today summary").click()
    link = page.locator(".today a", has_text="ghost-broker")
    place = link.get_attribute("href") or ""
    article = page.locator(place)
    address = f"{files['samples'].as_uri()}{place}"
    for go in (link.click, lambda: page.goto(address)):
        page.select_option("#verdict", "READY")
        assert not article.is_visible()
        go()
        article.wait_for()
        # What is in view gets its true height only now, so it may take a moment.
        page.wait_for_function(
            "(e) => Math.abs(e.getBoundingClientRect().top) < 450", arg=article.element_handle()
        )
        assert page.text_content("#shown") == "27 of 27 clusters"
    page.context.close()


def test_a_contact_is_found_and_so_is_what_nobody_owns(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["samples"])
    samples = report_samples().clusters
    contact = "#logistics"
    page.fill("#find", contact)
    having = sum(cluster.contact == contact for cluster in samples)
    assert having > 0
    assert page.text_content("#shown") == f"{having} of 27 clusters"
    page.fill("#find", "")
    page.select_option("#owner", label="nobody")
    nobodys = sum(not cluster.owner for cluster in samples)
    assert nobodys > 0
    assert page.text_content("#shown") == f"{nobodys} of 27 clusters"
    page.context.close()


def test_nothing_is_green_beside_what_warns(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["samples"])
    colours = "(all) => all.map((e) => getComputedStyle(e).color)"
    [green] = set(page.locator("#grid tr:not(.loud) .READY").evaluate_all(colours))
    rows = page.locator("#grid tbody tr", has=page.locator(".warning, .unknown, .critical"))
    assert rows.count() == 5
    assert green not in rows.locator("td").evaluate_all(colours)
    warns = ":is(.warning, .unknown, .critical):not(details *)"  # what is muted is folded
    parts = page.locator("article", has=page.locator(warns))
    assert parts.count() >= 5  # blocked ones may have such findings too
    shown = parts.locator("header .READY, header .UP_TO_DATE").evaluate_all(colours)
    assert set(shown) == set(rows.locator(".READY, .UP_TO_DATE").evaluate_all(colours))
    borders = "(all) => all.map((e) => getComputedStyle(e).borderLeftColor)"
    for verb in ("Approve", "Hand over"):  # one of them warns, the other has no way back
        assert page.locator(".today li", has_text=verb).evaluate_all(borders) != [green]
    page.context.close()


def test_a_button_copies_a_command_as_it_stands(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["samples"])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    plain = opened(browser, files["samples"], java_script_enabled=False)
    commands = plain.locator(".today code, .side pre, article pre").all_text_contents()
    buttons = page.locator(".copy")
    assert buttons.count() == len(commands) > 0
    for place in (0, len(commands) - 1):
        buttons.nth(place).evaluate("(button) => button.click()")
        assert page.evaluate("navigator.clipboard.readText()") == commands[place]
        assert buttons.nth(place).text_content() == "copied"
    plain.context.close()
    page.context.close()
