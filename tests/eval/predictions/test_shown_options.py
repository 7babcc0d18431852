"""Tests in which order a tool's row shows the options of a question."""

import pytest

from medtune.data.types import Question
from medtune.eval.predictions.tool_files import ToolRow
from medtune.eval.predictions.tool_matching import shown


@pytest.mark.parametrize(
    ("own", "theirs", "wanted"),
    [
        (("a cyst", "a stone"), ("a stone", "A cyst."), ("a stone", "a cyst")),
        (("a cyst", "a stone"), ("a cyst", "a stone and more of the prompt"), ("a cyst", "a stone")),
        (("a cyst", "a stone"), ("a cyst", "a clip"), ()),
        (("a cyst", "a stone", "a stone"), ("a cyst", "a stone", "a stone"), ("a cyst", "a stone", "a stone")),
        (("a cyst", "a stone", "a stone"), ("a stone", "a cyst", "a stone"), ()),
    ],
)
def test_options_that_a_row_shows(own: tuple[str, ...], theirs: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    question = Question("q", "m", "What is shown?", own, own[0], "choice", "p")
    assert shown(ToolRow({}, ("A",), theirs, "row 1"), question) == wanted
