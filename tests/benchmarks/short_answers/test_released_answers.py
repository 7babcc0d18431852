"""Tests how cells of released tables become answers, and how bad cells are told."""

import pytest

from medtune.benchmarks.short_answers.released_answers import released_answer
from medtune.data.raw.row_errors import Place, RowError

PLACE = Place("test.json", 7)


@pytest.mark.parametrize(
    ("cell", "closed", "text", "options", "task"),
    [
        ("Yes", True, "yes", ("yes", "no"), "yes_no"),
        ("no \t", True, "no", ("yes", "no"), "yes_no"),
        ("yes", None, "yes", ("yes", "no"), "yes_no"),
        ("yes", False, "yes", (), "open"),
        (2, False, "2", (), "open"),
        ("不包含", True, "不包含", ("包含", "不包含"), "yes_no"),
        ("Left\tlung ", True, "Left lung", (), "closed"),
        ("MRI", None, "MRI", (), "open"),
    ],
)
def test_a_cell_becomes_an_answer(
    cell: object, closed: bool | None, text: str, options: tuple[str, ...], task: str
) -> None:
    found = released_answer(cell, is_closed=closed, place=PLACE)
    assert (found.text, found.options, found.task) == (text, options, task)
    assert found.kind == ("yes_no" if options else "text")


@pytest.mark.parametrize("cell", ["", " \t", None, ["yes"], True])
def test_a_cell_without_an_answer_is_an_error_that_names_the_row(cell: object) -> None:
    with pytest.raises(RowError, match=r"test\.json, number 7, field 'answer': wanted a text or a number"):
        released_answer(cell, is_closed=True, place=PLACE)
