from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from medtune.data.media.images import load_image
from medtune.data.media.load import BLANK
from medtune.data.types import Box, MediaGroup, MediaRef, Prediction, Request
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.plan import permute_options, plan_visits
from medtune.eval.audit import probes
from medtune.eval.audit.audited_phase import subject_of
from tests.eval.answerers import reply
from tests.eval.audit.world import JUDGE, PLANES, Honest, World, guess, row, said


class Garbled:
    """Is right by likelihood, but its generated replies contain no answer."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        for request in requests:
            is_choice = request.reading == "likelihood"
            yield said(request, request.question.answer) if is_choice else reply(request, "")


def test_readings_that_disagree_and_replies_without_an_answer_are_flagged(world: World, out: Path) -> None:
    audit = world.audit(Garbled(), out)
    assert row(audit, "likelihood_against_generation").value == 0
    assert "differ by +1.000" in (row(audit, "likelihood_against_generation").flag or "")
    assert "100%" in (row(audit, "unparsable_share").flag or "")


def test_a_permuted_option_never_stands_where_it_stood(world: World) -> None:
    for group in world.test:
        for question in group.questions:
            moved = permute_options(question, seed=3)
            assert sorted(moved.options) == sorted(question.options)
            assert all(one != two for one, two in zip(question.options, moved.options, strict=True))
            assert moved == permute_options(question, seed=3)


def test_blank_is_black_without_boxes_and_permuted_shows_the_own_image(world: World) -> None:
    visits = plan_visits(
        world.test[:2], JUDGE, answer_format="text", readings=["likelihood"],
        conditions=["blank_image", "permuted_options"],
    )  # fmt: skip
    for group, (own, blank) in zip(world.test[:2], visits, strict=True):
        assert own.shown == group
        assert {request.condition for request in own.requests} == {"permuted_options"}
        assert blank.shown.media == (BLANK,)
        assert {request.condition for request in blank.requests} == {"blank_image"}
    assert load_image(BLANK).pixels_HWC.max() == 0


def test_conditions_of_an_audit_can_be_asked_alone_and_are_kept(world: World, out: Path) -> None:
    def ask() -> list[Prediction]:
        return ask_questions(
            Honest(), world.test, JUDGE, answer_format="letter", out_dir=out, readings=["likelihood"],
            conditions=["permuted_options"],
        )  # fmt: skip

    found = ask()
    assert {prediction.key.condition for prediction in found} == {"permuted_options"}
    assert ask() == found


def test_regression_is_sklearns_own_whatever_the_number_of_features(world: World) -> None:
    questions = [question for question in world.train_questions if question.text == "Which plane?"]
    rng = np.random.default_rng(0)
    for width in (20, 500):
        features = {question.media_id: rng.normal(size=width).astype(np.float32) for question in questions}
        matrix = np.stack([features[question.media_id] for question in questions])
        scaled = StandardScaler().fit_transform(matrix) * width**-0.5
        model = LogisticRegression(C=probes.INVERSE_PENALTY, max_iter=500)
        expected = model.fit(scaled, [question.answer for question in questions]).predict(scaled)
        found = probes.regression_answers(questions, features, questions, features)
        assert np.mean(np.array(found) == expected) > 0.98


def test_probes_find_what_is_there_and_pick_among_the_options_shown(world: World) -> None:
    features = {
        group.media_id: np.eye(4, dtype=np.float32)[PLANES.index(group.questions[0].answer)]
        for group in (*world.train, *world.test)
    }
    questions = [group.questions[0] for group in world.test]
    learnt = [group.questions[0] for group in world.train]
    for answers in (probes.regression_answers, probes.nearest_answers):
        found = answers(learnt, features, questions, features)
        right = np.mean([said == question.answer for said, question in zip(found, questions, strict=True)])
        assert right > 0.95


def test_probes_without_train_say_nothing(world: World) -> None:
    questions = [group.questions[0] for group in world.test]
    assert set(probes.regression_answers([], {}, questions, {})) == {None}


def test_thumbnails_show_the_box() -> None:
    plain = MediaGroup("a", (BLANK,), ())
    boxed = MediaGroup("b", (MediaRef(BLANK.path, (Box(60, 60, 160, 160),)),), ())
    found = probes.thumbnails([plain, boxed])
    assert found["a"].shape == (256,)
    assert found["a"].max() == 0 < found["b"].max()


def test_drawn_takes_some_in_order(world: World) -> None:
    some = probes.drawn(world.train, at_most=7, seed=0)
    assert len(some) == 7
    assert [world.train.index(group) for group in some] == sorted(world.train.index(group) for group in some)
    assert probes.drawn(world.train, at_most=10**6, seed=0) == world.train


def test_without_an_image_reading_there_is_nothing_to_audit(world: World) -> None:
    asked = [question for group in world.test for question in group.questions]
    with pytest.raises(ValueError, match="goes by the parser 'likelihood'"):
        subject_of("final", asked, [], JUDGE, parser="likelihood", train=())


def test_guess_does_not_depend_on_the_order(world: World) -> None:
    question = world.test[0].questions[0]
    prompts = [JUDGE.render(each, "text") for each in (question, permute_options(question, seed=0))]
    first, second = (
        Request(q, p, "likelihood") for q, p in zip((question, permute_options(question, seed=0)), prompts, strict=True)
    )
    assert guess(first) == guess(second)
