from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark, published
from medtune.benchmarks.fetal_gauge import TASKS
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.scoring.score import PhaseScores, score_phase
from tests.benchmarks.fetal_gauge.task_shares import OPTION_COUNTS, agree, macro_mean, task_share_bounds, weighted_mean
from tests.eval.golden import close, recorded

FETAL = find_benchmark("fetal_gauge")


def test_golden_fetalgauge_overall_is_a_mean_over_questions() -> None:
    golden = recorded("fetalgauge_consistency.json")
    columns, expected = golden["rows"]["columns"], golden["expected"]
    assert columns[1:-1] == list(TASKS)
    for model, *accuracies, overall in golden["rows"]["table"]:
        assert close(macro_mean(accuracies), expected["macro_mean_of_5_tasks"][model])
        assert agree(macro_mean(accuracies), overall) == expected["overall_equals_macro_mean"][model]
    table = [row[1:-1] for row in golden["rows"]["table"]]
    bounds = task_share_bounds(table, [row[-1] for row in golden["rows"]["table"]])
    for task, found in zip(columns[1:-1], bounds, strict=True):
        wanted = expected["task_share_bounds_from_micro_average"][task]
        assert [round(end, 4) + 0.0 for end in found] == pytest.approx(wanted, abs=1e-9), task


def test_golden_fetalgauge_visual_grounding_by_box_size() -> None:
    golden = recorded("fetalgauge_consistency.json")
    sizes, expected = golden["rows"]["box_size"], golden["expected"]
    printed = {row[0]: row[golden["rows"]["columns"].index("VG")] for row in golden["rows"]["table"]}
    for model, *accuracies in sizes["table"]:
        wanted = expected["visual_grounding_from_box_sizes"][model]
        mean = weighted_mean(accuracies, sizes["questions"])
        assert round(mean, 4) == wanted["question_weighted"]
        assert round(macro_mean(accuracies), 4) == wanted["unweighted"]
        assert printed[model] == wanted["printed_VG"]
        assert agree(mean, printed[model]) == wanted["question_weighted_matches"]
    assert sum(sizes["questions"]) == expected["visual_grounding_questions"]


def test_golden_fetalgauge_option_counts() -> None:
    expected = recorded("fetalgauge_consistency.json")["expected"]
    assert dict(OPTION_COUNTS) == expected["inferred_option_counts"]
    for task, value in expected["random_guess_from_option_counts"].items():
        assert close(1 / OPTION_COUNTS[task], value)


def test_golden_fetalgauge_published_rows_are_the_recorded_ones() -> None:
    rows = recorded("fetalgauge_consistency.json")["rows"]
    assert published("fetal_gauge")["main"]["rows"] == rows["table"]
    assert published("fetal_gauge")["box_size"]["rows"] == rows["box_size"]["table"]
    assert published("fetal_gauge")["box_size"]["questions"] == rows["box_size"]["questions"]


def test_shares_that_nothing_explains_are_refused() -> None:
    with pytest.raises(ValueError, match="no shares"):
        task_share_bounds([[0.1, 0.2]], [0.9])


def scored(right: list[str]) -> PhaseScores:
    questions = [replace(FETAL.examples[n % 5], id=f"q{n}") for n in range(10)]
    said = [
        Prediction(
            PredictionKey(question.id, "image", "generation", 0),
            text=question.answer if question.facets["task"] in right else wrong(question),
        )
        for question in questions
    ]
    return score_phase(questions, said, FETAL)


def wrong(question: Question) -> str:
    return next(option for option in question.options if option != question.answer)


def test_tables_have_the_papers_shape_and_our_row_with_its_rank() -> None:
    stage = scored(["plane_identification", "visual_grounding", "fetal_orientation"])
    main, sizes, phantom, tuned = stage.tables
    assert main.columns == ("model", "PI", "VC", "FO", "CD", "VG", "Overall", "rank")
    assert [row[0] for row in main.rows[:3]] == ["Random Guess", "GPT-5", "Lingshu-32B"]
    assert main.rows[-2] == ("ours, read by robust", 1.0, 0.0, 1.0, 0.0, 1.0, 0.6, 1)
    assert [row[-1] for row in main.rows[:7]] == [None, 1, 2, 3, 4, 5, 6]
    assert sizes.rows[-2] == ("ours, read by robust", None, None, 1.0)
    assert phantom.rows[0] == ("robust", 2 / 3, 0.5)
    assert tuned.rows[0] == ("Llama-3.2-11B-Vision", 0.33, 0.85, 0.52)
    assert stage.overall.score.value == 0.6
