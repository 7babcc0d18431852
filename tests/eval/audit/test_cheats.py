"""Tests that each way to cheat is flagged by its row of the audit, and that an honest model is not flagged."""

import json
from pathlib import Path

import pytest

from medtune.eval.asking.answerer import Answerer
from medtune.eval.audit.text import audit_text
from medtune.eval.data_label import DataLabel
from medtune.eval.results.build import audit_file
from medtune.eval.results.typed_json import json_bytes
from medtune.eval.statistics.intervals import METHOD
from tests.eval.audit.world import AlwaysA, Blind, Copier, Habit, Honest, Lister, PromptReader, Rambler, World, row


def test_reading_the_answer_from_the_prompt_is_a_prompt_leak(world: World, out: Path) -> None:
    audit = world.audit(PromptReader(), out)
    leak = row(audit, "prompt_leak")
    assert leak.flag == "the answer can be read from the prompt"
    assert leak.ci95 is not None
    assert leak.ci95.low > 0.1
    assert "not shown to be used" in (row(audit, "text_only").flag or "")


def test_always_the_first_option_follows_the_place(world: World, out: Path) -> None:
    audit = world.audit(AlwaysA(), out)
    follows = row(audit, "option_permutation")
    assert (follows.value, follows.n) == (0.0, 120)
    assert "follows the place" in (follows.flag or "")
    assert row(audit, "constant_letter").flag


def test_not_naming_the_option_that_is_told_is_a_matter_of_the_answer_format(world: World, out: Path) -> None:
    told = row(world.audit(AlwaysA(), out), "stated_answer")
    assert told.value < 0.5
    assert told.gap is not None
    assert "answer format is not learnt" in (told.flag or "")
    assert "guessing gives 0.375" in told.note


def test_ignoring_the_image_changes_nothing_without_it(world: World, out: Path) -> None:
    audit = world.audit(Blind(), out)
    for name in ("text_only", "blank_image", "other_image"):
        assert "the image is not shown to be used" in (row(audit, name).flag or "")
        assert row(audit, name).gap is not None
        assert row(audit, name).value == row(audit, "model").value
    assert row(audit, "option_permutation").value == 1
    assert row(audit, "prompt_leak").flag is None


def test_copying_the_nearest_train_answer_is_seen_where_it_is_wrong(world: World, out: Path) -> None:
    copies = row(world.audit(Copier(world.train), out), "train_answer_copy")
    assert copies.value > 0.95
    assert "copies" in (copies.flag or "")
    assert copies.n > 30


def test_copying_the_usual_train_answer_is_seen_where_it_is_wrong(world: World, out: Path) -> None:
    audit = world.audit(Habit(world.train_questions), out)
    copies = row(audit, "question_prior_copy")
    assert copies.value == 1
    assert "copies" in (copies.flag or "")
    assert row(audit, "question_prior").gap is not None
    assert row(audit, "question_prior").gap.value == 0  # type: ignore[union-attr]
    assert set(audit.collapse) == {"plane_identification", "view_completeness"}
    assert all(found.flag for found in audit.collapse.values())
    assert "plane_identification, view_completeness" in (row(audit, "most_frequent_answer").flag or "")


@pytest.mark.parametrize(
    ("answerer", "name", "flag"),
    [
        (Rambler(), "reply_words", "words more than the longest option"),
        (Lister(), "names_every_option", "100% of the replies name every option"),
    ],
)
def test_what_a_reward_for_length_or_for_any_answer_leads_to_is_named(
    answerer: Answerer, name: str, flag: str, world: World, out: Path
) -> None:
    assert flag in (row(world.audit(answerer, out), name).flag or "")


def test_a_model_that_looks_is_not_accused(world: World, out: Path) -> None:
    audit = world.audit(Honest(), out)
    assert [each.name for each in audit.flagged] == []
    assert not any(found.flag for found in audit.collapse.values())
    assert [each.name for each in audit.rows] == [
        "model", "random", "majority", "question_prior", "constant_letter", "longest_option",
        "text_only", "prompt_leak", "blank_image", "other_image", "option_permutation", "permuted_accuracy",
        "stated_answer", "thumbnail_regression", "nearest_thumbnail", "train_answer_copy", "question_prior_copy",
        "most_frequent_answer", "likelihood_against_generation", "unparsable_share", "reply_words", "cut_replies",
        "names_every_option",
    ]  # fmt: skip
    own = row(audit, "model")
    for each in audit.rows:
        assert each.n > 0
        if each.gap is not None:
            assert each.gap.value == pytest.approx(own.value - each.value)
            assert each.gap.ci95.low <= each.gap.value <= each.gap.ci95.high


def test_audit_json_has_the_designed_shape(world: World, out: Path) -> None:
    audit = world.audit(AlwaysA(), out)
    written = json.loads(json_bytes(audit_file(audit, DataLabel(provenance="synthetic", prompts="ours"))))
    assert set(written) == {"provenance", "prompts", "version", "rows", "collapse", "interval_method"}
    assert written["interval_method"] == METHOD
    names = {"name", "title", "phase", "metric", "value", "n", "ci95", "gap", "flag", "note"}
    for each in written["rows"]:
        assert set(each) == names
        assert each["ci95"] is None or len(each["ci95"]) == 2
        assert each["gap"] is None or set(each["gap"]) == {"value", "ci95", "permutation_p", "permutation_p_holm"}
    text = audit_text(audit, title="Audit")
    assert METHOD in text
    assert "FLAG answers that follow the option when options are permuted: " in text
    assert all(each.title in text for each in audit.rows)
