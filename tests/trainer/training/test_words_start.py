"""Tests of a projector that begins with the words of the train split's answers."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from medtune.models.assemble import zoo_entry
from medtune.models.tuning import starting_weights
from medtune.models.tuning.apply import adapt
from medtune.models.tuning.plan import PartTuning, Tuning
from medtune.models.tuning.starting_weights import LEAST_LESSONS, Lesson, repeated_texts, say_words
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import Nano, Told

WORDS = {name: torch.eye(12)[number] for number, name in enumerate(("left", "right", "head", "limb", "spine", "no"))}
TOKENS, WIDTH, INPUTS = 3, 12, 40
WORDS_START = ("model.tuning.projector.start=words", "model.tuning.projector.mode=full")


def seen(count: int, *, seed: int) -> tuple[Tensor, list[str], list[str]]:
    """Returns inputs with a mean and a spread of their own, and two properties that can be read off them."""
    generator = torch.Generator().manual_seed(seed)
    plain_MH = torch.randn(count, INPUTS, generator=generator)
    sides = ["left" if value > 0 else "right" for value in plain_MH[:, 0]]
    parts = [("head", "limb", "spine")[int(row.argmax())] for row in plain_MH[:, 1:4]]
    return 3 + 5 * plain_MH, sides, parts


def taught(sides: list[str], parts: list[str]) -> list[Lesson]:
    return [
        lesson
        for number, (side, part) in enumerate(zip(sides, parts, strict=True))
        for lesson in (Lesson(number, "Which side?", side), Lesson(number, "Which part?", part))
    ]


def test_tokens_say_the_answers_about_items_that_nobody_has_seen() -> None:
    reduced_MH, sides, parts = seen(400, seed=0)
    mixer = nn.Linear(INPUTS, TOKENS * WIDTH)
    assert say_words(mixer, reduced_MH, taught(sides, parts), WORDS.__getitem__, num_tokens=TOKENS) == 2
    new_MH, new_sides, new_parts = seen(300, seed=1)
    said_MKE = mixer(new_MH).unflatten(1, (TOKENS, WIDTH))
    names = list(WORDS)
    for token, wanted in ((0, new_sides), (1, new_parts)):
        read = [names[int(place)] for place in said_MKE[:, token, : len(names)].argmax(1)]
        assert sum(map(str.__eq__, read, wanted)) / len(wanted) > 0.8
    assert not said_MKE[:, 2].any(), "a token without a question says nothing"


def test_more_questions_than_tokens_share_them_and_rare_or_constant_ones_are_left_out() -> None:
    reduced_MH, sides, parts = seen(200, seed=2)
    rare = [Lesson(number, "How rare?", ("no", "left")[number % 2]) for number in range(LEAST_LESSONS - 1)]
    constant = [Lesson(number, "Always?", "no") for number in range(100)]
    lessons = [*taught(sides, parts), *rare, *constant]
    assert repeated_texts(lessons) == ["Which side?", "Which part?"]
    mixer = nn.Linear(INPUTS, WIDTH)
    assert say_words(mixer, reduced_MH, lessons, WORDS.__getitem__, num_tokens=1) == 2
    new_MH, new_sides, _ = seen(300, seed=3)
    said_ME = mixer(new_MH)
    read = ["left" if left > right else "right" for left, right in said_ME[:, :2].tolist()]
    assert sum(map(str.__eq__, read, new_sides)) / len(new_sides) > 0.8


@pytest.mark.usefixtures("forked_readers")
def test_a_run_begins_with_words_behind_its_zero_shot_evaluation(
    nano: Nano, tmp_path: Path, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting_weights, "LEAST_LESSONS", 2)
    plain, run = tmp_path / "plain", tmp_path / "run"
    assert nano.here("run", plain) == 0
    said = shown(nano.here("run", run, *WORDS_START))
    assert "projector: begins with the words of the answers to" in said
    for name in ("zero_shot/predictions.jsonl", "zero_shot/scores.json"):
        assert sorted((run / name).read_text().splitlines()) == sorted((plain / name).read_text().splitlines())
    start = load_file(run / "checkpoints" / "start.safetensors")
    assert "projector.mix.weight" in start
    assert json.loads((run / "results.json").read_text())["phases"]["final"]


@pytest.mark.usefixtures("forked_readers")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.tuning.projector.mode=frozen"], "words is for a projector of the mode full"),
        (["model.tuning.language.start=words"], "model.tuning.language.start is words"),
    ],
)
def test_what_begins_with_words_is_said(settings: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe("nano_busi_lora", [*WORDS_START, *settings])


@pytest.mark.usefixtures("forked_readers")
def test_data_without_repeated_questions_are_refused_before_anything_is_asked(
    nano: Nano, tmp_path: Path, refused: Told
) -> None:
    said = refused(nano.here("run", tmp_path / "run", *WORDS_START, extra=("--limit", "12")))
    assert "asks at least 20 times with the same text" in said


def test_a_projector_that_mixes_no_whole_item_is_refused() -> None:
    model = zoo_entry("nano_pocket_ct").assemble(0).model
    with pytest.raises(ValueError, match="for projectors that mix a whole media item"):
        adapt(model, [Tuning(projector=PartTuning("full", start="words"))], seed=0)
