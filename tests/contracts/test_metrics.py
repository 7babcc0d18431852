"""What every file in eval/metrics has to keep."""

from __future__ import annotations

import doctest
from importlib import import_module
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.data import catalog
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply

PACKAGE = "medtune.eval.metrics"
OPTIONS = ("a", "b", "c")
ROWS = st.lists(
    st.tuples(st.sampled_from(OPTIONS), st.sampled_from([*OPTIONS, None]), st.booleans()), min_size=1, max_size=20
)


def load(name: str) -> Metric:
    return cast("Metric", catalog.load(PACKAGE, name, "metric"))


def row(number: int, true: str, said: str | None, is_answered: bool) -> ParsedReply:
    asked = Question(f"q{number}", "m", "Which?", OPTIONS, true, "choice", "p")
    prediction = Prediction(PredictionKey(asked.id, "image", "generation", 0), text=said or "")
    return ParsedReply(asked, prediction if is_answered else None, said if is_answered else None)


@pytest.mark.parametrize("name", catalog.names(PACKAGE))
def test_docstring_has_source_and_a_doctest_that_passes(name: str) -> None:
    module = import_module(f"{PACKAGE}.{name}")
    assert "Source:" in (load(name).__doc__ or "")
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("name", catalog.names(PACKAGE))
@settings(deadline=None)
@given(rows=ROWS)
def test_value_stays_between_0_and_1(name: str, rows: list[tuple[str, str | None, bool]]) -> None:
    assert 0 <= load(name)([row(number, *each) for number, each in enumerate(rows)]) <= 1


@pytest.mark.parametrize("name", catalog.names(PACKAGE))
def test_no_questions_are_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="at least one question"):
        load(name)([])
