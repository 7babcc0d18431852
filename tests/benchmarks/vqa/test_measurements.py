"""Tests measured numbers: tolerances of tables, errors, agreement with the truth, and their figure."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.raw.source import TableOptions
from medtune.data.types import Question
from medtune.eval.metric import ParsedReply
from medtune.eval.report.charts.single_answers import agreement_charts
from medtune.eval.report.run_data import RunData
from medtune.eval.scoring.number_errors import TOLERANCE, number_tables, within_tolerance
from tests.benchmarks.vqa.own_data import read_text

VQA = find_benchmark("vqa")
TABLE = (
    "image,question,answer,unit,tolerance\nus_0.png,Wide?,10,mm,{}\nus_1.png,Wide?,20,mm,\nus_2.png,Seen?,a stone,,\n"
)


@pytest.mark.parametrize(
    ("cell", "said", "kept"),
    [
        ("2", "", ["2", None, None]),
        ("0.2 cm", "10%", ["2", "10%", None]),
        ("10 %", "", ["10%", None, None]),
        ("", "0,1 cm", ["1", "1", None]),
        ("2,5 %", "3 mm", ["2.5%", "3", None]),
    ],
)
def test_a_tolerance_is_kept_in_the_unit_of_the_answer(
    tmp_path: Path, cell: str, said: str, kept: list[str | None]
) -> None:
    cell = f'"{cell}"' if "," in cell else cell
    table = read_text(tmp_path, TABLE.format(cell), TableOptions(tolerance=said))
    assert not table.rejects
    assert [question.printed.get(TOLERANCE) for question in table.questions] == kept


@pytest.mark.parametrize("cell", ["Meier", "2 kg", "-1"])
def test_a_tolerance_that_is_none_is_refused_without_its_text(tmp_path: Path, cell: str) -> None:
    (reject,) = read_text(tmp_path, TABLE.format(cell)).rejects
    assert (reject.row, reject.field) == (2, "tolerance")
    assert "in % of the true number" in reject.reason
    assert cell not in reject.reason
    with pytest.raises(ValueError, match=r"--tolerance 2 kg: it fits no number of the table"):
        read_text(tmp_path, TABLE.format(""), TableOptions(tolerance="2 kg"))


def _rows(off: list[float | None], tolerance: str = "2") -> list[ParsedReply]:
    asked = [
        Question(
            f"{n}", f"{n}", "Wide?", (), f"{10 + n}", "number", f"{n // 2}", unit="mm", printed={TOLERANCE: tolerance}
        )
        for n in range(len(off))
    ]
    return [
        ParsedReply(each, None, None if error is None else f"{float(each.answer) + error:.12g}")
        for each, error in zip(asked, off, strict=True)
    ]


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_errors_and_agreement_are_those_of_numpy(shift: float) -> None:
    off = [*(np.random.default_rng(0).normal(1, 2, 30) + shift).round(3).tolist(), None]
    read = np.array(off[:-1], dtype=float)
    errors, agreement = number_tables(_rows(off))
    (row,), (limits,) = errors.rows, agreement.rows
    assert row[:4] == ("Wide?", "mm", 31, 1)
    assert row[4] == pytest.approx(np.abs(read).mean())
    assert row[7] == pytest.approx(np.median(np.abs(read)))
    assert row[10] == pytest.approx(sum(abs(each) <= 2 for each in read) / 31)
    sd = read.std(ddof=1)
    assert limits[3::3] == pytest.approx((read.mean(), read.mean() - 1.96 * sd, read.mean() + 1.96 * sd), rel=1e-4)
    for value, low, high in (row[4:7], row[7:10], limits[3:6], limits[6:9], limits[9:12]):
        assert float(low or 0) < float(value or 0) < float(high or 0)
    assert len(agreement.agreements[0].pairs) == 30
    run = SimpleNamespace(last=SimpleNamespace(tables=(errors, agreement)))
    (chart,) = agreement_charts(cast("RunData", run))
    assert len(chart.dots) == 30
    assert all(0 <= place <= 100 for x, y, _ in chart.dots for place in (x, y))
    upper, lower = chart.lines[2].at, chart.lines[1].at
    assert upper <= chart.lines[0].at <= lower


def test_a_relative_tolerance_and_replies_that_are_no_numbers() -> None:
    rows = _rows([1.0, 1.2, None, -1.2], "10%")
    assert within_tolerance().value(rows) == 0.5
    raw = [ParsedReply(rows[0].question, None, said) for said in ("about 10", "nan", "1e999", "10,5")]
    assert within_tolerance().value(raw) == 0.25
    assert [table.rows[0][2:4] for table in number_tables(raw)[:1]] == [(4, 3)]


def test_each_question_that_is_asked_often_has_a_row_of_its_own() -> None:
    rows = _rows([1.0, 2.0, 3.0, 4.0])
    other = [
        ParsedReply(Question(f"o{n}", f"{n}", "Long?", (), "5", "number", f"{n}", unit="mm"), None, "6") for n in (0, 1)
    ]
    assert [row[:3] for row in number_tables([*rows, *other])[0].rows] == [
        ("all", "mm", 6),
        ("Wide?", "mm", 4),
        ("Long?", "mm", 2),
    ]
