"""What every file in eval/metrics has to keep."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.data import catalog
from medtune.data.types import AnswerKind, Prediction, PredictionKey, Question
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply

PACKAGE = "medtune.eval.metrics"
ANSWERS: dict[AnswerKind, tuple[str, ...]] = {
    "choice": ("a", "b", "c"),
    "yes_no": ("Yes", "No"),
    "number": ("1", "2.5", "40"),
    "text": ("a normal liver", "a cyst of the left lobe of the liver"),
}
ROWS = st.lists(
    st.sampled_from([*ANSWERS]).flatmap(
        lambda kind: st.tuples(
            st.just(kind), st.sampled_from(ANSWERS[kind]), st.sampled_from([*ANSWERS[kind], None]), st.booleans()
        )
    ),
    min_size=1,
    max_size=20,
)


def making(name: str) -> Callable[[], object]:
    found = catalog.load(PACKAGE, name, "metric")
    assert callable(found)
    return found


def load(name: str) -> Metric:
    metric = making(name)()
    assert isinstance(metric, Metric)
    return metric


def row(number: int, kind: AnswerKind, true: str, said: str | None, is_answered: bool) -> ParsedReply:
    options = ANSWERS[kind] if kind in ("choice", "yes_no") else ()
    asked = Question(f"q{number}", "m", "Which?", options, true, kind, "p")
    prediction = Prediction(PredictionKey(asked.id, "image", "generation", 0), text=said or "")
    return ParsedReply(asked, prediction if is_answered else None, said if is_answered else None)


@pytest.mark.parametrize("name", catalog.names(PACKAGE))
def test_docstring_has_source_and_a_doctest_that_passes(name: str) -> None:
    module = import_module(f"{PACKAGE}.{name}")
    assert "Source:" in (making(name).__doc__ or "")
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("name", catalog.names(PACKAGE))
@settings(deadline=None)
@given(rows=ROWS)
def test_value_stays_within_its_bounds_and_is_the_same_in_any_order(
    name: str, rows: list[tuple[AnswerKind, str, str | None, bool]]
) -> None:
    metric = load(name)
    chosen = metric.covered(row(number, *each) for number, each in enumerate(rows))
    if chosen:
        assert metric.bounds.low <= metric.value(chosen) <= metric.bounds.high
        assert metric.value(chosen) == metric.value(chosen[::-1])


@pytest.mark.parametrize("name", catalog.names(PACKAGE))
def test_it_is_about_some_kind_of_answer_and_silence_has_its_own_value(name: str) -> None:
    metric = load(name)
    rows = metric.covered(row(n, kind, answers[0], None, True) for n, (kind, answers) in enumerate(ANSWERS.items()))
    assert rows
    silent = metric.worst if metric.silent is None else metric.silent
    assert metric.value(rows) == pytest.approx(silent, abs=1e-6)


@pytest.mark.parametrize("name", catalog.names(PACKAGE))
def test_no_questions_are_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="at least one question"):
        load(name).value([])
