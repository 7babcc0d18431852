"""Conditions that change the prompt rather than the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from medtune.data.types import MediaGroup, MediaRef
from medtune.eval.benchmark import benchmark
from medtune.eval.evaluate import evaluate
from medtune.eval.scores import score_stage
from tests.eval.asking import Guessing, groups

U2 = benchmark("u2_bench")
GROUPS = [MediaGroup(each.media_id, MediaRef(Path("image.png")), (each,)) for each in U2.examples]


def test_a_condition_of_the_benchmark_is_asked_in_its_own_words_and_scored(tmp_path: Path) -> None:
    choices = [group for group in GROUPS if group.questions[0].options]
    found = evaluate(
        Guessing(), choices, U2, answer_format="text", out_dir=tmp_path, conditions=["image", "with_anatomy"]
    )
    by_condition = {(each.key.condition, each.key.question_id): each.prompt_hash for each in found}
    id_ = choices[0].questions[0].id
    assert by_condition["image", id_] != by_condition["with_anatomy", id_]
    stage = score_stage([group.questions[0] for group in choices], found, U2)
    assert set(stage.metrics) == {"image", "with_anatomy"}
    assert any("Table 3" in table.title for table in stage.tables)


def test_a_condition_without_a_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no prompt for the condition 'with_anatomy'; it has image, text_only"):
        evaluate(
            Guessing(),
            groups(1),
            benchmark("busi"),
            answer_format="text",
            out_dir=tmp_path,
            conditions=["with_anatomy"],
        )


def test_likelihood_is_not_primary_where_some_questions_have_no_options(tmp_path: Path) -> None:
    found = evaluate(
        Guessing(), [g for g in GROUPS if g.questions[0].options], U2, answer_format="text", out_dir=tmp_path
    )
    assert score_stage([group.questions[0] for group in GROUPS], found, U2).parser == "robust"
    assert score_stage([g.questions[0] for g in GROUPS if g.questions[0].options], found, U2).parser == "likelihood"
