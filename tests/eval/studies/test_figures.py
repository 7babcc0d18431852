"""The figures of a study: where their marks lie, that published ones are hollow, and that a narrow page holds them."""

import math
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from medtune.benchmarks import find_benchmark
from medtune.data.types import Interval
from medtune.eval.report.charts.bars import BarChart
from medtune.eval.report.charts.lines import LineChart
from medtune.eval.studies.cells import StudyAnswers, StudyCell
from medtune.eval.studies.figures import Figure, figures_of
from medtune.eval.studies.page import StudyReport, write_study
from medtune.eval.studies.published import PublishedTable

SIZES = {"Qwen-2.5-VL-3B-Instruct": 3.0, "Qwen-2.5-VL-7B-Instruct": 7.0, "Qwen-2.5-VL-72B-Instruct": 72.0}


def table_of(benchmark: str, name: str) -> PublishedTable:
    return next(each for each in find_benchmark(benchmark).published_tables() if each.name == name)


def cells_of(table: PublishedTable, rows: dict[str, str | None]) -> list[StudyCell]:
    """Returns cells in which ours is 0.5, from 0.4 to 0.6."""
    return [
        StudyCell(
            table.name,
            column.name,
            row,
            published,
            0.5,
            Interval(0.4, 0.6),
            10,
            1,
            table.printed.get(published or "", {}).get(column.name),
        )
        for row, published in rows.items()
        for column in table.columns
    ]


def drawn(table: PublishedTable, rows: dict[str, str | None], billions: dict[str, float] | None = None) -> Figure:
    answers = [StudyAnswers(row, published, [{}]) for row, published in rows.items()]
    cells = {(c.row, c.column): c for c in cells_of(table, rows)}
    return next(figures_of(table, answers, cells, billions or {}))


def test_values_lie_over_the_logarithm_of_the_parameters() -> None:
    table = table_of("u2_bench", "table1")
    found = drawn(table, {row: row for row in SIZES}, SIZES)
    chart = found.charts[0]
    assert isinstance(chart, LineChart)
    assert (chart.title, [tick.text for tick in chart.x_ticks]) == ("U2_Score", ["3", "7", "72"])
    first, second, third = (tick.at for tick in chart.x_ticks)
    assert (second - first) / (third - first) == pytest.approx(math.log(7 / 3) / math.log(72 / 3), abs=1e-4)
    printed, ours = chart.series
    assert [kind for kind, _ in chart.kinds] == ["published", "ours"]
    assert [dot.y for dot in printed.dots] == [
        pytest.approx(100 * (1 - table.printed[row]["U2_Score"]), abs=0.01) for row in SIZES
    ]
    assert {(dot.low, dot.high) for dot in printed.dots} == {(None, None)}
    assert {(dot.y, dot.low, dot.high) for dot in ours.dots} == {(50.0, 60.0, 40.0)}


def test_rows_of_another_size_alone_have_no_figure_over_the_parameters() -> None:
    table = table_of("fetal_gauge", "box_size")
    lingshu: dict[str, str | None] = {"Lingshu-7B": "Lingshu-7B", "Lingshu-32B": "Lingshu-32B", "GPT-5": "GPT-5"}
    found = drawn(table, lingshu, {"Lingshu-7B": 7.0, "Lingshu-32B": 32.0})
    assert found.title.endswith("by the size of the model: Lingshu-7B, Lingshu-32B")
    assert [chart.title for chart in found.charts] == ["large", "medium", "small"]
    assert "by the size of the model" not in drawn(table, lingshu, {"Lingshu-7B": 7.0}).title


def test_each_lesion_has_the_papers_models_and_the_oracle_with_ours_beside_them() -> None:
    table = table_of("ctlesionvqa", "figure6")
    found = drawn(table, {"mine": "RadFM", "another": None})
    assert [chart.title for chart in found.charts] == [column.name for column in table.columns]
    for chart in found.charts:
        assert isinstance(chart, BarChart)
        assert chart.marks == "dots"
        rows = {row.label: row for row in chart.rows}
        assert [*rows] == [*(f"{model} / mine" if model == "RadFM" else model for model in table.printed), "another"]
        assert [bar.kind for bar in rows["nnUNet (oracle)"].bars] == ["published"]
        published, ours = rows["RadFM / mine"].bars
        assert (published.kind, ours.kind) == ("published", "ours")
        assert published.y == ours.y
        assert published.low is None
        assert ours.low is not None
        assert ours.high is not None
        assert ours.low < ours.at < ours.high


def test_youdens_index_is_that_of_the_printed_rates() -> None:
    known = {table.name: table.printed for table in find_benchmark("ctlesionvqa").published_tables()}
    for model, cells in known["figure6"].items():
        of = known["table4"][model]
        assert cells["kidney tumor existence"] == pytest.approx(
            (of["kidney_tumor_sens"] + of["kidney_tumor_spec"]) / 100 - 1, abs=1e-9
        )
    # M3D-Phi3's liver: 90.8 and 8.7 %.
    assert known["figure6"]["M3D-Phi3"]["liver lesion existence"] == -0.005
    for table, format_ in (("table12", "multiple choice"), ("table13", "free text")):
        for model, cells in known[table].items():
            rates = [cells[f"kidney cyst existence, {rate}"] for rate in ("sensitivity", "specificity")]
            index = known["youden"][model][f"{format_}: kidney cyst existence"]
            assert index == pytest.approx(sum(rates) - 1, abs=1e-9)


def test_boxes_are_in_the_order_of_their_size() -> None:
    (chart,) = drawn(table_of("fetal_gauge", "box_size"), {"GPT-5": "GPT-5"}).charts
    assert isinstance(chart, LineChart)
    assert [tick.text for tick in chart.x_ticks] == ["large", "medium", "small"]
    assert [dot.title for dot in chart.series[0].dots] == [
        "large: published 0.85",
        "medium: published 0.67",
        "small: published 0.48",
    ]
    assert chart.series[1].dots[0].title == "large: ours 0.50, 95 % interval 0.40 to 0.60"


def test_a_figure_that_fills_several_screens_is_folded() -> None:
    rows: dict[str, str | None] = {"RadFM": "RadFM", "Merlin": "Merlin"}
    assert not drawn(table_of("ctlesionvqa", "figure6"), rows).is_long
    # Two charts of nine bars, and one of more than twelve.
    assert not drawn(table_of("ctlesionvqa", "table4"), rows).is_long
    assert drawn(table_of("ctlesionvqa", "table3_free_text"), {"RadFM": "RadFM"}).is_long
    models = table_of("ctlesionvqa", "table4").printed
    assert drawn(table_of("ctlesionvqa", "table4"), {model: model for model in models}).is_long


def test_a_figure_without_printed_values_says_so() -> None:
    found = drawn(table_of("ctlesionvqa", "figure4"), {"all types": None, "without": None})
    assert found.said.endswith("no value is printed.")
    assert [row.label for chart in found.charts[:1] if isinstance(chart, BarChart) for row in chart.rows] == [
        "all types",
        "without",
    ]


def test_a_narrow_dark_page_holds_the_figures(browser: Browser, tmp_path: Path) -> None:
    tables = (table_of("fetal_gauge", "box_size"), table_of("ctlesionvqa", "figure6"))
    rows = {"GPT-5": "GPT-5", "RadFM": "RadFM"}
    report = StudyReport(
        name="mine",
        title="Mine",
        scale="full",
        benchmarks=("fetal_gauge",),
        source="here",
        banners=(),
        tables=tables,
        rows=tuple(StudyAnswers(row, published, [{}]) for row, published in rows.items()),
        cells=tuple(cell for table in tables for cell in cells_of(table, {**rows})),
        runs=(),
        left_out={},
        missing=(),
        fetch="nothing",
    )
    page_file = write_study(tmp_path, report)[0]
    page = browser.new_page(color_scheme="dark", viewport={"width": 390, "height": 900})
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    rings, dots = page.locator("#figure .plot .mark.k-published"), page.locator("#figure .plot .mark.k-ours")
    # GPT-5's three sizes, and eight models for each of three lesions; ours for both rows, where "GPT-5" is no model.
    assert (rings.count(), dots.count()) == (3 + 8 * 3, 3 + 3 + 3 + 3)
    assert rings.first.evaluate("ring => getComputedStyle(ring).fill") == "none"
    assert dots.first.evaluate("dot => getComputedStyle(dot).fill") == "rgb(98, 176, 238)"
    for box in (ring.bounding_box() for ring in rings.all()):
        assert box is not None
        assert 0 < box["x"] < box["x"] + box["width"] < 390
    page.close()
