"""Tests the conditions that change the prompt and not the image."""

from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.media.load import BLANKS
from medtune.data.types import MediaGroup, MediaRef
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.conditions import audit_conditions
from medtune.eval.asking.plan import plan_visits
from medtune.eval.scoring.score import score_phase
from tests.eval.answerers import Guessing, groups

U2 = find_benchmark("u2_bench")
GROUPS = [MediaGroup(each.media_id, (MediaRef(Path("image.png")),), (each,)) for each in U2.examples]


def test_a_condition_of_the_benchmark_is_asked_in_its_own_words_and_scored(tmp_path: Path) -> None:
    choices = [group for group in GROUPS if group.questions[0].options]
    found = ask_questions(
        Guessing(), choices, U2, answer_format="text", out_dir=tmp_path, conditions=["image", "with_anatomy"]
    )
    by_condition = {(each.key.condition, each.key.question_id): each.prompt_hash for each in found}
    id_ = choices[0].questions[0].id
    assert by_condition["image", id_] != by_condition["with_anatomy", id_]
    phase = score_phase([group.questions[0] for group in choices], found, U2)
    assert set(phase.metrics) == {"image", "with_anatomy"}
    assert any("Table 3" in table.title for table in phase.tables)


def test_an_organ_that_nobody_names_cannot_be_told(tmp_path: Path) -> None:
    for benchmark, message in (
        (find_benchmark("busi"), r"no question of BUSI breast ultrasound says which it is \(facet anatomy or organ\)"),
        (replace(U2, renders={}, wording="official, sha256 0"), "has no official prompt for the condition"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_visits(groups(1), benchmark, answer_format="text", conditions=["image", "with_anatomy"])


def test_our_wording_has_no_organ_to_leave_out() -> None:
    with pytest.raises(ValueError, match="compare that with 'image', and leave 'without_anatomy' out"):
        plan_visits(groups(1), U2, answer_format="text", conditions=["image", "with_anatomy", "without_anatomy"])


def test_any_benchmark_names_the_organ_that_its_questions_know() -> None:
    ct = find_benchmark("ctlesionvqa")
    scans = [MediaGroup(each.media_id, (MediaRef(Path("ct.nii.gz"), kind="volume"),), (each,)) for each in ct.examples]
    plan = plan_visits(scans, ct, answer_format="text", conditions=["image", "with_anatomy"])
    named = 0
    for group, (visit,) in zip(scans, plan, strict=True):
        said = {request.condition: request.prompt for request in visit.requests}
        organ = group.questions[0].facets.get("organ")
        line = f"The scan shows: {organ}.\n" if organ else ""
        assert said["with_anatomy"].text.replace(line, "", 1) == said["image"].text
        assert said["with_anatomy"].choices == said["image"].choices
        named += bool(organ)
    assert named > 0


def test_likelihood_is_primary_where_some_questions_have_options(tmp_path: Path) -> None:
    found = ask_questions(
        Guessing(), [g for g in GROUPS if g.questions[0].options], U2, answer_format="text", out_dir=tmp_path
    )
    assert score_phase([group.questions[0] for group in GROUPS], found, U2).parser == "likelihood"
    free = [g.questions[0] for g in GROUPS if not g.questions[0].options]
    assert score_phase(free, [], U2).parser == "robust"


def test_shuffled_frames_are_asked_about_videos_alone(tmp_path: Path) -> None:
    choices = [group for group in GROUPS if group.questions[0].options]
    videos = [replace(group, media=(replace(group.media[0], kind="video"),)) for group in choices]
    plan = plan_visits(videos, U2, answer_format="text", conditions=["image", "blank_image", "shuffled_frames"])
    for group, (own, blank, mixed) in zip(videos, plan, strict=True):
        assert own.shown.media[0].shuffled_by is None
        assert blank.shown.media == (BLANKS["video"],)
        assert mixed.shown.media_id == group.media_id
        assert mixed.shown.media[0].shuffled_by is not None
        assert {request.condition for request in mixed.requests} == {"shuffled_frames"}
    assert "shuffled_frames" in audit_conditions(videos)
    assert "shuffled_frames" not in audit_conditions(choices)
    with pytest.raises(ValueError, match="'shuffled_frames' is not for images"):
        plan_visits(choices, U2, answer_format="text", conditions=["shuffled_frames"])


def test_the_stated_answer_adds_the_true_option_to_the_prompt_and_leaves_open_questions_out() -> None:
    options = [question for question in U2.examples if question.options]
    assert 0 < len(options) < len(U2.examples)
    visits = plan_visits(
        GROUPS, U2, answer_format="letter", readings=["likelihood"], conditions=["image", "stated_answer"]
    )
    asked = [request for own in visits for visit in own for request in visit.requests]
    stated = {r.question.id: r.prompt for r in asked if r.condition == "stated_answer"}
    own = {r.question.id: r.prompt for r in asked if r.condition == "image"}
    assert set(stated) == {question.id for question in options}
    for question in options:
        added = stated[question.id].text.removeprefix(own[question.id].text)
        assert added == f"\nThe right answer is {question.answer}."
        assert stated[question.id].choices == own[question.id].choices
        assert stated[question.id].target == own[question.id].target
