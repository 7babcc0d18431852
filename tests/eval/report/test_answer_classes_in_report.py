from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from medtune.benchmarks import paper_of
from medtune.eval.report.answer_classes import AnswerClasses, answer_classes
from medtune.eval.report.run_data import RunData, read_run
from medtune.eval.report.write import write_report
from tests.eval.report.folders import change_json


def shown(run: Path) -> tuple[RunData, AnswerClasses]:
    data = read_run(run)
    found = answer_classes(data)
    assert found is not None
    return data, found


def score(value: float | None, n: int, reason: str = "") -> dict[str, object]:
    return {"value": value, "n": n, "ci95": None if value is None else [value, value], "reason": reason}


def task(name: str, classes: tuple[str, ...]) -> dict[str, object]:
    """Returns a task as results.json has it, with one right answer and one unread reply to each class."""
    each = [
        {
            "name": label,
            "support": 2,
            "offered": 2 * len(classes),
            "sensitivity": score(0.5, 2),
            "specificity": score(1.0, 2 * len(classes) - 2),
            "auc": score(None, 0, "no likelihood reading, so there are no probabilities"),
        }
        for label in classes
    ]
    matrix = [[*np.eye(len(classes), dtype=int)[place].tolist(), 1] for place in range(len(classes))]
    brier = score(None, 0, "no likelihood reading, so there are no probabilities")
    return {
        "name": name, "task": name, "n": 2 * len(classes), "classes": each, "confusion": matrix, "probabilities": "",
        "brier": brier,
    }  # fmt: skip


def test_each_task_has_its_matrices_beside_each_other(run: Path) -> None:
    data, found = shown(run)
    for name in data.phases:
        counted = sum(each.n for each in data.phases[name].classes)
        assert counted == data.phases[name].overall.n
    for one in (*found.shown, *found.folded):
        before, after = one.matrices
        assert ("zero-shot" in before.caption, "after training" in after.caption) == (True, True)
        totals = [[sum(cell.count for cell in row.cells) for row in matrix.rows] for matrix in one.matrices]
        assert totals[0] == totals[1]
        right = [
            sum(cell.count for row in matrix.rows for cell in row.cells if cell.is_right) for matrix in one.matrices
        ]
        assert right[1] > right[0]
    assert [column for column in found.table.columns if "sensitivity" in column] == [
        "sensitivity, zero-shot",
        "sensitivity, after training",
    ]
    assert len(found.brier.rows) == len(found.shown) + len(found.folded)


def test_yes_and_no_are_one_row_and_many_classes_are_numbered(run: Path) -> None:
    many = tuple(f"part {letter}" for letter in "abcdefghi")
    tasks = [task("lesion", ("No", "Yes")), task("organ", many), *(task(f"more {n}", ("x", "y")) for n in range(4))]
    for phase in ("zero_shot", "final"):
        change_json(run / "results.json", "phases", phase, "classes", value=tasks)
        change_json(
            run / "results.json", "phases", phase, "without_classes", value={"size": "too many", "HU": "too many"}
        )
    _, found = shown(run)
    assert [(row[0].text, row[1].text) for row in found.table.rows][:2] == [("lesion", "Yes"), ("organ", "part a")]
    assert (len(found.shown), len(found.folded)) == (4, 2)
    organ = found.shown[1].matrices[0]
    assert organ.columns[:2] == (("1", "part a"), ("2", "part b"))
    assert (organ.rows[1].name, found.shown[1].is_wide) == ("2 part b", True)
    assert organ.rows[1].cells[1].count == 1
    assert organ.rows[1].cells[-1].count == 1
    assert found.brier.rows == ()
    assert "No number: no likelihood reading, so there are no probabilities." in found.table.notes
    assert found.table.notes[-1] == "Not here: size, HU (too many)."
    text = write_report(run, paper_of).read_text()
    assert "Matrices of 2 more tasks" in text
    assert "| 2 part b | 0 | 1 |" in (run / "report.md").read_text()


def test_a_run_without_answer_classes_has_no_such_section(run: Path) -> None:
    for phase in ("zero_shot", "final"):
        change_json(run / "results.json", "phases", phase, "classes", value=[])
    assert answer_classes(read_run(run)) is None
    assert 'id="classes"' not in write_report(run, paper_of).read_text()
    assert "## By answer" not in (run / "report.md").read_text()


@pytest.mark.parametrize(
    ("confusion", "message"), [([[1, 0]], "a matrix of 2 rows"), ([[1, 0], [0, 1]], "a matrix of 2 rows of 3 numbers")]
)
def test_a_matrix_that_does_not_fit_its_classes_is_refused(run: Path, confusion: object, message: str) -> None:
    broken = {**task("lesion", ("No", "Yes")), "confusion": confusion}
    change_json(run / "results.json", "phases", "final", "classes", value=[broken])
    with pytest.raises(ValueError, match=rf"field phases\.final\.classes\[0\].*{message}"):
        read_run(run)


def test_numbers_can_be_read_on_every_shade(browser: Browser, run: Path) -> None:
    names = tuple("abcdef")
    shares = [[5 - place if column == place else place for column in range(7)] for place in range(6)]
    change_json(run / "results.json", "phases", "final", "classes", value=[{**task("t", names), "confusion": shares}])
    file = write_report(run, paper_of).as_uri()
    script = """(cells) => {
        const draw = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
        return cells.map((cell) => [cell.className, ...[
                getComputedStyle(cell).color, getComputedStyle(cell).backgroundColor,
                getComputedStyle(cell.closest('section')).backgroundColor].map((colour) => {
            draw.clearRect(0, 0, 1, 1); draw.fillStyle = colour; draw.fillRect(0, 0, 1, 1);
            return [...draw.getImageData(0, 0, 1, 1).data];
        })]);
    }"""
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
        page.goto(file)
        seen = set()
        for shade, text, behind, panel in page.locator("#classes .matrix tbody td").evaluate_all(script):
            seen.add(shade)
            assert contrast(text, behind if behind[3] else panel) >= 4.5, (scheme, shade)
        assert len(seen) >= 6
        page.close()


def contrast(one: list[int], other: list[int]) -> float:
    """Returns the WCAG contrast of two colours."""
    lights = []
    for colour in (one, other):
        linear = [
            each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
            for each in (value / 255 for value in colour[:3])
        ]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)
