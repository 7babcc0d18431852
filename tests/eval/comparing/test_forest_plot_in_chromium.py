"""Tests the forest plot in a real browser: texts lie inside the picture and overlap neither texts nor marks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page

from medtune.eval.comparing.compare_text import ForestRow, forest_svg, shortened

LONG = "a_very_long_run_name_of_somebody_2026-11-22 (zero-shot)"
ROWS = [
    ForestRow("all questions", 800, 0.53, 0.49, 0.57, is_clear=True),
    ForestRow("MMMMMMMMMM WWWWWWWWW MMMMMMMMM WWWWWWWWW", 160, 0.31, 0.2, 0.42, is_clear=True),
    ForestRow("lesion localisation of the smallest lesion anywhere at all", 160, 0.0, 0.0, 0.0, is_clear=True),
    ForestRow("病变定位", 16, 0.9, 0.8, 0.99, is_clear=True),
    ForestRow("هذا سؤال", 16, 0.9, 0.8, 0.99, is_clear=True),
]
MIRRORED = [ForestRow(row.label, row.n, -row.value, -row.high, -row.low, is_clear=row.is_clear) for row in ROWS]
SIDES = ("width", "height")
BOXES = """() => [...document.querySelectorAll("text, rect:not(.back), g line")].map(each => {
    const box = each.getBoundingClientRect()
    return [each.tagName === "text" ? each.textContent : "", box.left, box.top, box.right, box.bottom]
})"""


class Box(NamedTuple):
    text: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.top < other.bottom and other.top < self.bottom


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 2000, "height": 900})
    yield opened
    opened.close()


@pytest.mark.parametrize("rows", [ROWS, MIRRORED, [*ROWS, *MIRRORED], ROWS[:1], MIRRORED[:1]])
@pytest.mark.parametrize(("left", "right"), [("a", "b"), (LONG, LONG), ("a", LONG), (LONG, "b")])
def test_no_text_is_cut_or_covered(page: Page, tmp_path: Path, rows: list[ForestRow], left: str, right: str) -> None:
    left, right = (f"{shortened(name)} higher" for name in (left, right))
    file = tmp_path / "plot.svg"
    file.write_text(forest_svg(rows, title=f"{left} minus {right}: accuracy", left=left, right=right), "utf-8")
    page.goto(file.as_uri())
    boxes = [Box(*found) for found in page.evaluate(BOXES)]
    width, height = (float(page.evaluate(f"document.documentElement.getAttribute('{side}')")) for side in SIDES)
    texts = [box for box in boxes if box.text]
    assert {f"← {left}", f"{right} →"} <= {box.text for box in texts}
    for box in texts:
        assert box.left >= 0, box
        assert box.right <= width, box
        assert box.bottom <= height, box
    covered = [(one, other) for one, other in combinations(boxes, 2) if (one.text or other.text) and one.meets(other)]
    # Text boxes have empty space above and below their letters. Boxes may overlap there, but letters may not.
    assert [pair for pair in covered if min(pair[0].bottom, pair[1].bottom) - max(pair[0].top, pair[1].top) > 2] == []
