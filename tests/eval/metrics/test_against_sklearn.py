import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from medtune.data.types import Question
from medtune.eval.metric import ParsedReply
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.metrics.unparsable_share import metric as unparsable_share
from tests.eval.answers import generated

LABELS = ("a", "b", "c", "d")
PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from([*LABELS, None])), min_size=1, max_size=40)


def parsed(pairs: list[tuple[str, str | None]]) -> list[ParsedReply]:
    return [
        ParsedReply(
            Question(f"q{n}", "m", "Which?", LABELS, true, "choice", "p"), generated(f"q{n}", said or "Hm."), said
        )
        for n, (true, said) in enumerate(pairs)
    ]


@given(PAIRS)
def test_accuracy_and_macro_f1_equal_sklearn(pairs: list[tuple[str, str | None]]) -> None:
    true, said = [true for true, _ in pairs], [said or "(unparsable)" for _, said in pairs]
    assert accuracy().value(parsed(pairs)) == pytest.approx(accuracy_score(true, said), abs=1e-12)
    expected = f1_score(true, said, average="macro", zero_division=0)
    assert macro_f1().value(parsed(pairs)) == pytest.approx(expected, abs=1e-12)


@given(PAIRS)
def test_macro_f1_is_the_same_to_the_last_digit_in_any_order(pairs: list[tuple[str, str | None]]) -> None:
    assert macro_f1().value(parsed(pairs)) == macro_f1().value(parsed(pairs[::-1]))


def test_unparsable_share_counts_replies_only() -> None:
    rows = parsed([("a", None), ("a", "b"), ("b", None)])
    unanswered = ParsedReply(rows[0].question, None, None)
    assert unparsable_share().value([*rows, unanswered]) == pytest.approx(2 / 3)
    assert unparsable_share().value([unanswered]) == 0.0
