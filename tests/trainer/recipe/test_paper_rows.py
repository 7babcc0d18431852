"""The row of every recipe of a paper stands in that paper's table, once it was asked all of the released questions."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data import catalog
from medtune.data.types import Condition, Prediction, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel
from medtune.eval.evidence import Evidence
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.standing import why_unlike_published
from medtune.eval.scoring.tables import Table
from medtune.eval.studies.cells import StudyAnswers, StudyCell, study_cells
from medtune.eval.studies.published import Answers, PublishedColumn
from medtune.trainer.recipe.check import as_published, departure_from_published, primary_parser, with_readings
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.studies.study import OpenedStudy, StudyRow, open_study
from tests.eval.answers import generated

PAPERS = ("fetal_gauge", "ctlesionvqa", "u2_bench", "rexsonovqa")
RECIPES = {
    name: recipe
    for name in catalog.names(catalog.RECIPES)
    if (recipe := read_recipe(name)).data.benchmark in PAPERS and not name.startswith(("nano_", "pocket_"))
}
RELEASED = DataLabel(provenance="released", prompts="ours")


def whole(benchmark: Benchmark) -> tuple[Benchmark, Sequence[Question]]:
    """Returns a benchmark that takes its examples for all of the released questions, and these."""
    return replace(benchmark, missing=lambda questions: ""), benchmark.examples


def right(questions: Sequence[Question]) -> list[Prediction]:
    return [generated(each, each.answer) for each in questions]


def apart_because(recipe: Recipe, benchmark: Benchmark, questions: Sequence[Question]) -> str:
    recipe = with_readings(as_published(recipe, benchmark), questions)
    parser = primary_parser(recipe, benchmark)
    is_official = benchmark.official is not None and any(map(benchmark.official.needed, questions))
    label = replace(RELEASED, prompts="official, sha256 0") if is_official else RELEASED
    return why_unlike_published(label, benchmark, questions, parser=parser) or departure_from_published(
        recipe, benchmark
    )


def with_ours(tables: Sequence[Table]) -> list[Table]:
    """Returns the tables in which ours stands, as a row or a column, among published ones and has a rank there."""
    rows = [each for each in tables if any(str(row[0]).startswith("ours") for row in each.rows) and len(each.rows) > 3]
    columns = [each for each in tables if "ours" in each.columns and "rank" in each.columns and len(each.columns) > 5]
    ranked = [each for each in rows if "rank" in each.columns or any("Rank of ours" in note for note in each.notes)]
    return [*ranked, *(each for each in columns if any(row[-1] is not None for row in each.rows))]


@pytest.mark.parametrize("protocol", ["its own", "published"])
@pytest.mark.parametrize("name", RECIPES)
def test_the_row_stands_in_the_papers_table(name: str, protocol: str) -> None:
    recipe = RECIPES[name]
    benchmark, questions = whole(find_benchmark(recipe.data.benchmark))
    if protocol == "published" and benchmark.protocol is None:
        return
    if protocol == "published":
        recipe = replace(recipe, eval=replace(recipe.eval, protocol="published"))
    assert apart_because(recipe, benchmark, questions) == ""
    scores = score_phase(questions, right(questions), benchmark, parser="robust", unlike_published="")
    assert with_ours(scores.tables), [table.title for table in scores.tables]
    assert not any("this model alone" in table.title for table in scores.tables)


def test_all_recipes_of_papers_are_looked_at() -> None:
    found = [recipe.data.benchmark for recipe in RECIPES.values()]
    assert {name: found.count(name) for name in PAPERS} == {
        "fetal_gauge": 4, "ctlesionvqa": 12, "u2_bench": 2, "rexsonovqa": 2,
    }  # fmt: skip


IN_STUDIES = [
    (study, row)
    for study in (open_study(name) for name in catalog.names(catalog.STUDIES))
    for row in study.rows
    if row.published is not None
]


def evidence_of_right_answers(
    benchmark: Benchmark, parser: str | None = None, conditions: Sequence[Condition] = ("image",)
) -> Evidence:
    benchmark, questions = whole(benchmark)
    said = [replace(each, key=each.key._replace(condition=c)) for c in conditions for each in right(questions)]
    parsed = parse_all(questions, said, benchmark)
    return Evidence(questions, said, parsed, parser or next(iter(benchmark.parsers)))


@pytest.mark.parametrize(("study", "row"), IN_STUDIES, ids=lambda each: getattr(each, "name", ""))
def test_the_row_has_a_difference_and_a_rank(study: OpenedStudy, row: StudyRow) -> None:
    answers = []
    for of in study.sets:
        evidence = evidence_of_right_answers(of.benchmark, row.parser, study.conditions)
        runs: list[Answers] = [dict.fromkeys(("zero_shot", "final"), evidence)]
        answers.append(StudyAnswers(row.name, row.published, runs, benchmark=of.name))
    cells = [each for each in study_cells(study.tables, answers) if each.printed is not None and each.ours is not None]
    assert cells
    # Of the field's sets, some numbers were printed by another rule than any of ours, or of another release.
    cells = [each for each in cells if not each.why.startswith(("printed by another rule", "the questions are of"))]
    assert all(each.difference is not None for each in cells)
    ranked = [each for each in cells if each.rank is not None]
    assert ranked or all(study_column(study, each).higher_is_better is None for each in cells)


def study_column(study: OpenedStudy, cell: StudyCell) -> PublishedColumn:
    (table,) = [each for each in study.tables if each.name == cell.table]
    return table.column(cell.column)


def test_recipes_of_papers_are_rows_of_studies() -> None:
    used = {row.recipe for _, row in IN_STUDIES}
    # The recipes of released weights beside those of the paper's are no rows of the paper, and one trains in full.
    left = {name for name in RECIPES if name not in used and not name.endswith("_public")}
    assert left == {
        "llama32_11b_fetal_gauge_full", "medgemma_4b_ctlesionvqa_lora", "qwen3vl_4b_ctlesionvqa_organ_lora",
    }  # fmt: skip


def test_questions_of_version_2_stand_in_no_column_of_the_paper() -> None:
    benchmark = find_benchmark("ctlesionvqa")
    of_2 = [replace(each, printed={"layout": "{question}"}) for each in benchmark.examples]
    official = replace(RELEASED, prompts="official, sha256 0")
    assert "of version 2" in why_unlike_published(official, benchmark, of_2, parser="official")
    asked_in_ours = why_unlike_published(RELEASED, replace(benchmark, missing=lambda questions: ""), of_2)
    assert asked_in_ours == "the questions were asked in our words, not with the official prompts"


def test_likelihood_alone_and_another_length_keep_a_row_apart() -> None:
    recipe = RECIPES["m3d_phi3_ctlesionvqa"]
    benchmark, questions = whole(find_benchmark("ctlesionvqa"))
    likely = replace(recipe, eval=replace(recipe.eval, parser="likelihood"))
    assert apart_because(likely, benchmark, questions).startswith("the likelihood of the options was read")
    u2 = find_benchmark("u2_bench")
    assert departure_from_published(recipe, u2) == (
        "the temperature was 0.0, the published one is 0.7 (eval.protocol: published sets it)"
    )


@pytest.mark.parametrize("name", catalog.names(catalog.RECIPES))
def test_every_recipe_shares_the_reading_of_a_picture_between_its_questions(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.train.group_questions != 1
    if name in ("medgemma_4b_ctlesionvqa_lora", "qwen3vl_4b_ctlesionvqa_organ_lora"):
        paper = RECIPES["m3d_llama2_ctlesionvqa"].train
        assert (recipe.train.group_questions, recipe.train.batch_size) == (paper.group_questions, paper.batch_size)
