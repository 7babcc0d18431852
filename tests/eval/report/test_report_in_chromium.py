"""Tests the report in a real browser, on data with texts that could break it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from medtune.benchmarks import paper_of
from medtune.eval.report.write import write_report, write_runs
from tests.eval.report.folders import ARABIC


class Watched:
    """An open page, with its error messages and its requests to other addresses."""

    def __init__(self, browser: Browser, file: Path, *, color_scheme: str = "light", width: int = 1280) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        scheme: Literal["dark", "light"] = "dark" if color_scheme == "dark" else "light"
        self.page: Page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.page.set_default_timeout(60_000)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.route("**/*", self._only_the_file)
        self._file = file.as_uri()
        self.open()

    def open(self) -> None:
        self.page.goto(self._file)

    def _only_the_file(self, route: Route) -> None:
        if route.request.url.split("#")[0] == self._file or route.request.url.startswith("data:"):
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()


@pytest.fixture(scope="module")
def report(hostile_run: Path) -> Path:
    return write_report(hostile_run, paper_of)


@pytest.fixture(scope="module")
def opened(browser: Browser, report: Path) -> Iterator[Watched]:
    watched = Watched(browser, report)
    yield watched
    assert watched.complaints == []
    assert watched.requests == []


@pytest.fixture
def page(opened: Watched) -> Page:
    opened.open()
    return opened.page


def column(table: Locator, number: int) -> list[str | None]:
    """Returns the values by which the cells of a column are sorted, from top to bottom."""
    found: list[str | None] = table.locator("tbody tr").evaluate_all(
        "(rows, number) => rows.map((row) => row.cells[number].dataset.sort ?? null)", number
    )
    return found


def test_nothing_runs_loads_or_complains(opened: Watched, page: Page) -> None:
    page.wait_for_load_state("networkidle")
    assert "owned" not in page.title()
    assert page.locator("script").count() == 1
    assert page.locator("[onerror]").count() == 0
    assert "<script>" in page.locator("#answers").inner_text()
    assert (opened.complaints, opened.requests) == ([], [])


def test_policy_stops_markup_that_slips_in(browser: Browser, report: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "report.html"
    evil = "<script>document.title='owned'</script><img src='http://example.invalid/x.png'>"
    spoilt.write_text(report.read_text().replace("</main>", f"{evil}</main>"))
    watched = Watched(browser, spoilt)
    assert "owned" not in watched.page.title()
    assert watched.requests == []
    watched.page.close()


def test_right_to_left_text_is_isolated(page: Page) -> None:
    question = page.locator(".question", has_text=ARABIC).first
    assert question.evaluate("(element) => getComputedStyle(element).direction") == "rtl"
    assert page.evaluate("getComputedStyle(document.querySelector('main')).direction") == "ltr"


def test_tables_sort_both_ways_and_say_so(page: Page) -> None:
    page.locator("#audit summary").click()
    table = page.locator("#audit table").first
    head = table.locator("thead th").nth(3)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    down = [float(value) for value in column(table, 3) if value is not None]
    assert down == sorted(down, reverse=True)
    assert len(set(down)) > 1
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(value) for value in column(table, 3) if value is not None] == sorted(down)
    name = table.locator("thead th").first
    name.get_by_role("button").click()
    assert (name.get_attribute("aria-sort"), head.get_attribute("aria-sort")) == ("ascending", None)
    names = [value for value in column(table, 0) if value is not None]
    assert names == sorted(names)


def test_missing_numbers_sort_last(page: Page) -> None:
    page.locator("#audit summary").click()
    table = page.locator("#audit table").first
    for _ in range(2):
        table.locator("thead th").nth(6).get_by_role("button").click()
        found = column(table, 6)
        assert found[-1] is None
        assert found[0] is not None


def test_gallery_filters_and_says_how_many(page: Page) -> None:
    items = page.locator("#gallery .item")
    total = items.count()
    page.get_by_role("combobox", name="Outcome").select_option("right")
    assert set(items.evaluate_all("(all) => all.filter((i) => !i.hidden).map((i) => i.dataset.outcome)")) == {"right"}
    num_right = items.evaluate_all("(all) => all.filter((i) => i.dataset.outcome === 'right').length")
    status = page.locator("#filter-count")
    assert status.get_attribute("aria-live") == "polite"
    assert status.inner_text() == f"{num_right} of {total} match, {min(num_right, 12)} shown"
    page.get_by_role("combobox", name="Effect of training").select_option("broken by training")
    assert status.inner_text() == f"0 of {total} match, 0 shown"
    page.get_by_role("button", name="Reset").click()
    # The page forbids eval, which page.wait_for_function needs if the condition does not hold at once.
    expect(status).to_contain_text(" match, ", timeout=60_000)
    expect(page.locator("#gallery .item:visible")).to_have_count(min(total, 12), timeout=60_000)


def test_gallery_filters_by_a_task_whose_name_is_markup(page: Page) -> None:
    choices = page.get_by_role("combobox", name="Task").locator("option").all_inner_texts()
    (hostile,) = [choice for choice in choices if "script" in choice]
    page.get_by_role("combobox", name="Task").select_option(hostile)
    shown = page.locator("#gallery .item:visible")
    assert shown.count() > 0
    assert set(shown.evaluate_all("(all) => all.map((item) => item.dataset.task)")) == {hostile}


def test_show_more_brings_the_rest_and_moves_the_focus_there(page: Page) -> None:
    total = page.locator("#gallery .item").count()
    assert total > 12
    page.get_by_role("button", name="Show more").click()
    assert page.locator("#gallery .item:visible").count() == min(total, 24)
    assert page.evaluate("[...document.querySelectorAll('#gallery .item')].indexOf(document.activeElement)") == 12


def test_page_works_from_the_keyboard(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("#audit summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#audit details").get_attribute("open") is not None
    button = page.locator("#audit table thead button").first
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("#audit table thead th").first.get_attribute("aria-sort") == "ascending"
    outline = button.evaluate("(element) => getComputedStyle(element).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize(("scheme", "pressed", "other"), [("light", "false", "true"), ("dark", "true", "false")])
def test_theme_follows_the_system_and_the_button(
    browser: Browser, report: Path, scheme: str, pressed: str, other: str
) -> None:
    watched = Watched(browser, report, color_scheme=scheme)
    page, button = watched.page, watched.page.get_by_role("button", name="Dark")
    background = "getComputedStyle(document.body).backgroundColor"
    first = page.evaluate(background)
    assert button.get_attribute("aria-pressed") == pressed
    button.click()
    assert button.get_attribute("aria-pressed") == other
    assert page.evaluate(background) != first
    assert contrast(page, ".note") >= 4.5
    button.click()
    assert page.evaluate(background) == first
    assert contrast(page, ".note") >= 4.5
    assert (watched.complaints, watched.requests) == ([], [])
    page.close()


def contrast(page: Page, selector: str) -> float:
    """Returns the WCAG contrast between a text and the panel behind it."""
    script = """(selector) => {
        const text = document.querySelector(`section ${selector}`);
        const numbers = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
        const panel = text.closest("section");
        return [numbers(getComputedStyle(text).color), numbers(getComputedStyle(panel).backgroundColor)];
    }"""
    light, dark = sorted((luminance(colour) for colour in page.evaluate(script, selector)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: list[float]) -> float:
    shares = [value / 255 for value in colour]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (1400, "dark"), (390, "light"), (360, "dark")])
def test_a_rendered_page_scrolls_only_downwards_and_complains_of_nothing(
    browser: Browser, report: Path, width: int, scheme: str
) -> None:
    watched = Watched(browser, report, color_scheme=scheme, width=width)
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The first screen of a wide page holds the gain, what convinces and the caveat.
    for part in (".figure-card .big", "#image-use-t", ".words .caveat"):
        box = page.locator(part).first.bounding_box()
        assert box is not None
        assert box["height"] > 0
        assert width < 1000 or box["y"] + box["height"] <= 900
    assert page.locator("#audit .strip:not(.axis)").count() >= 2
    assert (watched.complaints, watched.requests) == ([], [])
    page.close()


BEYOND = """() => [...document.querySelectorAll("main *")]
    .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map((each) => `${each.tagName} ${each.className} ${each.textContent.slice(0, 40)}`)"""
PAPER_PX = 690
"""A4 without its margins, at 96 pixels an inch."""


def test_paper_has_one_column_nothing_cut_and_all_answers(browser: Browser, report: Path, tmp_path: Path) -> None:
    watched = Watched(browser, report, width=PAPER_PX)
    page = watched.page
    total = page.locator("#gallery .item").count()
    page.emulate_media(media="print")
    assert page.evaluate(BEYOND) == []
    assert page.locator("#gallery .item:visible").count() == total > 12
    lefts = page.locator("#gallery .item").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().left)")
    assert len(set(lefts)) == 1
    assert page.locator("#paper").inner_text() == f"On paper: all {total} questions of this page."
    # What is folded away on the screen is printed, by style alone.
    assert page.locator("#audit table").first.is_visible()
    assert page.locator("header.top").is_hidden()
    page.emulate_media(media="screen")
    page.get_by_role("combobox", name="Outcome").select_option("right")
    num_right = page.locator('#gallery .item[data-outcome="right"]').count()
    page.emulate_media(media="print")
    assert page.locator("#gallery .item:visible").count() == num_right
    said = page.locator("#paper").inner_text()
    assert said == f"On paper: {num_right} of the {total} questions of this page (outcome right)."
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") >= num_right / 8
    page.close()


def test_details_open_for_paper_and_close_again(page: Page) -> None:
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open]):not(.zoom)").count() == 0
    assert page.locator(".zoom[open]").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_a_bar_leads_to_its_wrong_answers(page: Page) -> None:
    link = page.locator("#breakdown a[data-group]").first
    group = link.get_attribute("data-group")
    link.click()
    found = page.locator("#gallery .item:visible").evaluate_all(
        "(all) => all.map((item) => [item.dataset.outcome, item.dataset.group.split('\\n')])"
    )
    assert found
    assert all(outcome == "wrong" and group in groups for outcome, groups in found)


def test_a_bar_leads_to_a_wrong_answer_without_javascript(browser: Browser, report: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(report.as_uri())
    href = page.locator("#breakdown a[data-group]").first.get_attribute("href")
    assert page.locator(f"{href}").get_attribute("data-outcome") == "wrong"
    picture = page.locator(".zoom img").first
    small = picture.bounding_box()
    picture.click()
    large = picture.bounding_box()
    assert small is not None
    assert large is not None
    assert large["width"] > 2 * small["width"]
    page.close()


def test_an_enlarged_picture_closes_by_escape(page: Page) -> None:
    picture = page.locator(".zoom img").first
    picture.click()
    assert page.locator(".zoom[open]").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".zoom[open]").count() == 0


def test_page_of_several_runs_sorts_without_a_complaint(browser: Browser, hostile_run: Path, tmp_path: Path) -> None:
    shutil.copytree(hostile_run, tmp_path / "twin")
    watched = Watched(browser, write_runs([hostile_run, tmp_path / "twin"], tmp_path / "out"))
    head = watched.page.locator("#group-0 thead th").first
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert (watched.complaints, watched.requests) == ([], [])
    watched.page.close()
