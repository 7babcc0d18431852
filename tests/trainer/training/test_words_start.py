"""Tests of a projector that begins with the words of the train split's answers."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from medtune.models.projectors.vocabulary import VocabularyProjector
from medtune.models.tuning import starting_weights
from medtune.models.tuning.starting_weights import LEAST_LESSONS, Lesson, repeated_texts, say_words
from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Nano, Told

WORDS = {name: torch.eye(12)[number] for number, name in enumerate(("left", "right", "head", "limb", "spine", "no"))}
TOKENS, WIDTH, INPUTS = 3, 12, 40
WORDS_START = ("model.projector=vocabulary", "model.tuning.projector.mode=full")


def speaker(tokens: int = TOKENS, codes: int = 5) -> VocabularyProjector:
    """Returns a projector over a grid of 5 cells of 8 features."""
    return VocabularyProjector(8, num_cells=5, num_tokens=tokens, num_codes=codes, embedding_width=WIDTH)


def seen(count: int, *, seed: int) -> tuple[Tensor, list[str], list[str]]:
    """Returns features with means and spreads of their own, and two properties that can be read off them."""
    generator = torch.Generator().manual_seed(seed)
    plain_MX = torch.randn(count, INPUTS, generator=generator)
    sides = ["left" if value > 0 else "right" for value in plain_MX[:, 0]]
    parts = [("head", "limb", "spine")[int(row.argmax())] for row in plain_MX[:, 1:4]]
    return plain_MX * torch.linspace(0.5, 2, INPUTS) + torch.linspace(-1, 1, INPUTS), sides, parts


def taught(sides: list[str], parts: list[str]) -> list[Lesson]:
    return [
        lesson
        for number, (side, part) in enumerate(zip(sides, parts, strict=True))
        for lesson in (Lesson(number, "Which side?", side), Lesson(number, "Which part?", part))
    ]


def heard(projector: VocabularyProjector, features_MX: Tensor, token: int) -> list[str]:
    """Returns the word that a token says most of about each item, or '' where it says next to nothing."""
    said_MW = projector.eval()(features_MX)[:, token, : len(WORDS)]
    return [list(WORDS)[int(row.argmax())] if row.max() > 0.5 else "" for row in said_MW]


def share(read: list[str], wanted: list[str]) -> float:
    return sum(map(str.__eq__, read, wanted)) / len(wanted)


def test_tokens_say_the_answers_about_items_that_nobody_has_seen() -> None:
    features_MX, sides, parts = seen(400, seed=0)
    projector = speaker()
    assert say_words(projector, features_MX, taught(sides, parts), WORDS.__getitem__) == 2
    new_MX, new_sides, new_parts = seen(300, seed=1)
    for token, wanted in ((0, new_sides), (1, new_parts)):
        assert share(heard(projector, new_MX, token), wanted) > 0.8
    assert not projector(new_MX)[:, 2].any(), "a token without a question says nothing"


@pytest.mark.parametrize("spread", [0.0, 1e-6])
def test_a_tower_that_sees_no_difference_leaves_words_that_do_not_differ(spread: float) -> None:
    features_MX, sides, parts = seen(400, seed=0)
    projector = speaker()
    assert say_words(projector, 1 + spread * features_MX, taught(sides, parts), WORDS.__getitem__) == 2
    assert all(weight.isfinite().all() for weight in projector.parameters())


def test_a_token_is_silent_about_items_that_its_question_is_not_asked_about() -> None:
    features_MX, sides, parts = seen(600, seed=0)
    asked = [lesson for lesson in taught(sides, parts) if lesson.text == "Which part?" or parts[lesson.item] == "head"]
    projector = speaker()
    say_words(projector, features_MX, asked, WORDS.__getitem__)
    new_MX, new_sides, new_parts = seen(300, seed=1)
    wanted = [side if part == "head" else "" for side, part in zip(new_sides, new_parts, strict=True)]
    assert share(heard(projector, new_MX, 1), wanted) > 0.75


def test_tokens_choose_more_surely_in_evaluation_and_the_same() -> None:
    features_MX, sides, parts = seen(400, seed=0)
    projector = speaker()
    say_words(projector, features_MX, taught(sides, parts), WORDS.__getitem__)
    new_MX, *_ = seen(300, seed=1)
    soft_MW, sharp_MW = (projector.train(mode)(new_MX)[:, 1, : len(WORDS)] for mode in (True, False))
    assert (sharp_MW.argmax(1) == soft_MW.argmax(1)).all()
    assert (sharp_MW.amax(1) > 0.99).sum() > 1.5 * (soft_MW.amax(1) > 0.99).sum()


def test_texts_that_share_a_token_are_asked_about_different_items_and_rare_or_constant_ones_are_left_out() -> None:
    features_MX, sides, parts = seen(400, seed=2)
    both = taught(sides, parts)
    apart = [
        Lesson(lesson.item, f"{lesson.text} Of {parts[lesson.item]}", lesson.answer)
        for lesson in both
        if lesson.text == "Which side?"
    ]
    rare = [Lesson(number, "How rare?", ("no", "left")[number % 2]) for number in range(LEAST_LESSONS - 1)]
    constant = [Lesson(number, "Always?", "no") for number in range(100)]
    lessons = [*(each for each in both if each.text == "Which part?"), *apart, *rare, *constant]
    assert len(repeated_texts(lessons)) == 4
    projector = speaker(tokens=2)
    assert say_words(projector, features_MX, lessons, WORDS.__getitem__) == 4
    new_MX, new_sides, new_parts = seen(300, seed=3)
    assert share(heard(projector, new_MX, 0), new_parts) > 0.8
    assert share(heard(projector, new_MX, 1), new_sides) > 0.8, "its three texts are never asked about one item"


def test_answers_beyond_the_codes_of_a_token_are_the_rarest() -> None:
    features_MX, _, parts = seen(400, seed=4)
    parts = ["limb" if part == "spine" and number % 3 else part for number, part in enumerate(parts)]
    projector = speaker(codes=3)
    say_words(projector, features_MX, taught(parts, parts), WORDS.__getitem__)
    words_MW = projector.eval()(seen(100, seed=5)[0])[:, 0, : len(WORDS)]
    assert words_MW[:, list(WORDS).index("limb")].max() > 0.5
    assert not words_MW[:, list(WORDS).index("spine")].any()


@pytest.mark.usefixtures("forked_readers")
def test_a_run_begins_with_words_behind_its_zero_shot_evaluation(
    nano: Nano, tmp_path: Path, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting_weights, "LEAST_LESSONS", 2)
    run = tmp_path / "run"
    command, name, _, _, *settings = nano.arguments("validate", run, *WORDS_START)
    assert "the projector begins with the words of the train split's answers" in shown(main([command, name, *settings]))
    said = shown(nano.here("run", run, *WORDS_START))
    assert 0 < said.index("zero-shot: ") < said.index("projector: begins with the words of the answers to")
    start = load_file(run / "checkpoints" / "start.safetensors")
    assert {"projector.score.weight", "projector.codes_KVE"} <= set(start)
    assert json.loads((run / "results.json").read_text())["phases"]["final"]


@pytest.mark.usefixtures("forked_readers")
@pytest.mark.parametrize(
    ("settings", "extra", "message"),
    [
        (["model.tuning.projector.mode=frozen"], (), "which only a trained projector keeps"),
        ([], ("--limit", "12"), "asks at least 20 times with the same text"),
        (["model.projector=coca"], (), "has its own and vocabulary, not 'coca'"),
    ],
)
def test_what_cannot_begin_with_words_is_said_before_anything_is_asked(
    nano: Nano, tmp_path: Path, refused: Told, settings: list[str], extra: tuple[str, ...], message: str
) -> None:
    said = refused(nano.here("run", tmp_path / "run", *WORDS_START, *settings, extra=extra))
    assert message in said
    assert "zero-shot:" not in said
