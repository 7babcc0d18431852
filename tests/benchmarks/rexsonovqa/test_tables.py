from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks import published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa import benchmark
from medtune.benchmarks.rexsonovqa.official_report import report, report_tables
from medtune.benchmarks.rexsonovqa.rubric import verdict
from medtune.benchmarks.rexsonovqa.scored_items import ScoredItem, constant_letter, question_type
from medtune.benchmarks.rexsonovqa.tables import FreeOutcome, cross_free, cross_mcq
from medtune.data.types import Condition, Prediction, PredictionKey, Question
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import Table
from tests.benchmarks.rexsonovqa.score_files import read_scored

ERRORS = ["none", "wrong_conclusion", "wrong_visual_evidence", "both_fail", "unknown"]
ITEMS = st.lists(
    st.builds(
        ScoredItem,
        is_mcq=st.booleans(),
        question_type=st.sampled_from(["Type1", "Type2"]),
        duration=st.sampled_from(DURATION_BINS),
        score=st.sampled_from([0, 0.5, 1, 2]),
        error_type=st.sampled_from(ERRORS),
    )
)
OUTCOMES = st.builds(FreeOutcome, st.sampled_from([0, 1, 2]), st.sampled_from(ERRORS))


@given(ITEMS)
def test_order_of_items_does_not_matter(items: list[ScoredItem]) -> None:
    assert report(items) == report(items[::-1])


@given(ITEMS)
def test_groups_add_up(items: list[ScoredItem]) -> None:
    found = report(items)
    for whole, parts in ((found.mcq, found.mcq_by_type), (found.free, found.free_by_duration)):
        assert sum(each.n for each in parts.values()) == whole.n
        assert sum(each.total for each in parts.values()) == whole.total
    assert sum(found.errors.values()) == sum(not item.is_mcq and item.score in (0, 1) for item in items)


@given(st.lists(st.tuples(OUTCOMES, OUTCOMES)))
def test_crossings_add_up(pairs: list[tuple[FreeOutcome, FreeOutcome]]) -> None:
    found = cross_free([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert found.cells[-1][-1] == len(pairs) == found.improved + found.same + found.worse
    assert all(sum(row[:-1]) == row[-1] for row in found.cells)


def test_of_nothing() -> None:
    found = report([])
    assert (found.mcq.mean, found.free.mean, found.free_share) == (0, 0, 0)
    assert report_tables(found)[0].rows[0][1] == 0
    assert constant_letter([]) == {}
    assert cross_mcq([], []).recovery is None
    assert cross_free([], []).blind_mean == 0


def test_unjudged_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="was it judged"):
        read_scored([{"question": "[FREE]", "duration": 3.0, "eval_score": None, "eval_max_score": 2}])


def test_older_types_have_their_present_name() -> None:
    assert question_type("Type4_DisambiguationSafetyDecision") == "Type2_ArtifactResolutionOptimization"
    assert question_type("TypeX") == "TypeX"


def scored(video: dict[str, str], blind: dict[str, str] | None = None) -> dict[str, Table]:
    settings: list[tuple[Condition, dict[str, str]]] = [("image", video), ("text_only", blind or {})]
    predictions = [
        Prediction(PredictionKey(id_, condition, "generation", 0), text=text)
        for condition, texts in settings
        for id_, text in texts.items()
    ]
    return {table.title: table for table in score_phase(benchmark().examples, predictions, benchmark()).tables}


def test_tables_show_ours_beside_the_papers_models() -> None:
    one, two, free = (question.id for question in benchmark().examples)
    video = {one: "A", two: "C", free: verdict(1, "wrong_conclusion")}
    found = scored(video, {one: "A", two: "A", free: verdict(0, "both_fail")})
    beside = found["The paper's models (Tables A1 to A8) and ours"]
    assert beside.rows[-1] == ("ours", 1.0, 1.0, 0.5, 0.0, 1.0, 0.0)
    assert "accuracy 1, free mean 1" in beside.notes[0]
    assert [row[0] for row in beside.rows[:-1]] == [*published("rexsonovqa")["mcq"]]
    crossing = found["Multiple choice, blind against video"]
    assert crossing.rows == (("correct", 1, 0, 1), ("incorrect", 1, 0, 1), ("total", 2, 0, 2))
    assert found["Free response, blind against video"].rows[-1] == ("total", 0, 1, 0, 0, 1)


def test_free_responses_stay_in_the_tables_where_likelihood_is_primary() -> None:
    *mcq, free = benchmark().examples
    replies = [
        Prediction(PredictionKey(free.id, "image", "generation", 0), text=verdict(1, "wrong_conclusion")),
        Prediction(PredictionKey(free.id, "text_only", "generation", 0), text=verdict(0, "both_fail")),
    ]
    likely = [
        Prediction(
            PredictionKey(question.id, "image", "likelihood", 0),
            options_shown=question.options,
            option_logprobs=(0.0, -1.0, -1.0, -1.0),
            option_tokens=(1, 1, 1, 1),
        )
        for question in mcq
    ]
    stage = score_phase(benchmark().examples, [*likely, *replies], benchmark(), parser="likelihood")
    found = {table.title: table for table in stage.tables}
    assert found["Free response by clip duration, mean of 0 to 2"].rows[-1] == (DURATION_BINS[-1], 1, 1.0)
    assert found["Overall"].rows[0][1] == len(mcq)
    assert found["The paper's models (Tables A1 to A8) and ours"].rows[-1][2] == 1.0
    assert found["Free response, blind against video"].rows[-1] == ("total", 0, 1, 0, 0, 1)


def test_tables_without_a_blind_run_leave_its_columns_empty() -> None:
    found = scored({})
    assert found["The paper's models (Tables A1 to A8) and ours"].rows[-1][3:] == (None, None, None, None)
    assert "Multiple choice, blind against video" not in found


def test_every_published_row_is_shown_as_its_counts_give_it() -> None:
    rows = {row[0]: row for row in scored({})["The paper's models (Tables A1 to A8) and ours"].rows}
    assert rows["Gemini 3 Pro"][1:6] == pytest.approx([165 / 249, 251 / 265, 105 / 249, 82 / 265, 68 / 144])
    assert rows["LLaVA-Video-72B"][2] == pytest.approx(63 / 265)


def test_keys_follow_the_order_shown() -> None:
    question: Question = benchmark().examples[0]
    shown = question.options[::-1]
    prediction = Prediction(PredictionKey(question.id, "image", "generation", 0), options_shown=shown, text="D")
    stage = score_phase([replace(question)], [prediction], benchmark())
    tables = {table.title: table for table in stage.tables}
    assert tables["Always the same letter"].rows == (("D", 1, 1.0),)
    assert stage.overall.score.value == 1
