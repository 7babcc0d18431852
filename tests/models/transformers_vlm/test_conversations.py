"""Tests that questions and options share the tokens in front of them, and how several images are shown or refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import PIL.Image
import pytest
import torch

from medtune.data.types import MEDIA_MARK, MediaGroup, MediaRef, Prompt, Question, Request, Turn
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.model import TransformersVlm
from tests.models.transformers_vlm.test_parity import encoded, expected, plain
from tests.models.twins import MODELS, OF_TRANSFORMERS, cpu_answerer, picture, shares_rows, size_of, twin

ANSWER = "abdomen"
IMAGES = (picture(1), picture(2, width=40, height=80))
SEVERAL = [name for name in OF_TRANSFORMERS if not find_family(MODELS[name].family or "").one_item]
TURNS = (Turn("Which of both is older?", "The first."),)


@pytest.mark.parametrize("name", sorted({*OF_TRANSFORMERS} - {*SEVERAL}))
def test_a_family_that_writes_several_images_otherwise_refuses_them(name: str) -> None:
    """The processors of these families cut an image into tiles only where it is shown alone."""
    with pytest.raises(ValueError, match="2 media items are shown together, and this family is shown one at a time"):
        twin(name).template.layout("Which?", None, shapes=list(map(size_of, IMAGES)))
    assert twin(name).template.layout("Which?", None, shapes=[size_of(IMAGES[0])], turns=TURNS).media_spans


def test_a_single_image_is_written_as_before() -> None:
    assembled = twin("nano_qwen25vl")
    image = IMAGES[0]
    layout = assembled.template.layout("Which plane?", ANSWER, shapes=[size_of(image)])
    marked = assembled.template.layout(f"{MEDIA_MARK}Which plane?", ANSWER, shapes=[size_of(image)])
    assert marked == layout
    assert expected(plain(assembled, image, "Which plane?", ANSWER), layout)
    with pytest.raises(ValueError, match=r"1 places for media .* and 2 items are shown"):
        assembled.template.layout(f"{MEDIA_MARK}Which?", None, shapes=[size_of(image)] * 2)


SHARING = [name for name in OF_TRANSFORMERS if shares_rows(name)]
ALONE = [name for name in OF_TRANSFORMERS if name not in SHARING]
"""Families of which each sequence needs a row of its own."""
OPTIONS = ("normal", "benign lesion", "benign tumour", "no")


def _request(number: int, condition: Any = "image") -> Request:
    asked = f"Is it {'very ' * number}odd?"
    question = Question(f"q{number}", "m", asked, OPTIONS, "no", "choice", "p")
    return Request(question, Prompt(asked, OPTIONS, "no"), "likelihood", condition)


REQUESTS = [_request(1), _request(2), _request(4), _request(1, "text_only"), _request(3, "text_only")]


class Asked:
    """The predictions of the answerer, and the number of tokens that the model read for them."""

    def __init__(self, name: str, *, share: bool) -> None:
        self.num_tokens = 0
        forward = TransformersVlm.forward

        def watched(model: TransformersVlm, rows: PackedRows, shown: Any) -> Any:
            self.num_tokens += rows.ids_BL.numel()
            return forward(model, rows, shown)

        answerer = cpu_answerer(twin(name), max_new_tokens=2, share_prefix=share)
        with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
            path = Path(folder) / "picture.png"
            PIL.Image.fromarray(picture().pixels_HWC).save(path)
            group = MediaGroup("m", (MediaRef(path),), tuple(r.question for r in REQUESTS))
            patch.setattr(TransformersVlm, "forward", watched)
            found = {p.key: p.option_logprobs or () for p in answerer.answer(group, REQUESTS)}
        self.logprobs: list[Sequence[float]] = [
            found[r.question.id, r.condition, r.reading, r.repeat]  # type: ignore[index]
            for r in REQUESTS
        ]

    def furthest(self, other: Asked) -> float:
        pairs = zip(self.logprobs, other.logprobs, strict=True)
        return max(abs(a - b) for mine, its in pairs for a, b in zip(mine, its, strict=True))


@pytest.mark.parametrize("name", SHARING)
def test_options_of_several_questions_are_read_from_one_tree(name: str) -> None:
    shared, plain = Asked(name, share=True), Asked(name, share=False)
    assert shared.furthest(plain) < 1e-4
    assert shared.num_tokens < plain.num_tokens / 4


@pytest.mark.parametrize("name", ALONE)
def test_a_family_that_cannot_be_told_who_sees_whom_gets_a_row_for_every_option(name: str) -> None:
    shared, plain = Asked(name, share=True), Asked(name, share=False)
    assert (shared.num_tokens, shared.logprobs) == (plain.num_tokens, plain.logprobs)
    assembled, image = twin(name), picture()
    tree = grow(
        [assembled.template.layout("Plane?", answer, shapes=[size_of(image)]) for answer in ("head", "femur")], [0, 1]
    )
    rows = pack([[Shown(tree, 0)]], pad_id=assembled.template.pad_id)
    why = re.escape(assembled.model.plain_because or "")
    with pytest.raises(ValueError, match=f"more than one sequence, but each needs its own: {why}"):
        assembled.model(rows, encoded(assembled, image))


@pytest.mark.parametrize("name", SHARING)
def test_two_trees_in_a_row_show_their_own_images_or_have_rows_of_their_own(name: str) -> None:
    assembled, images = twin(name), [picture(1), picture(2)]
    trees = [grow([assembled.template.layout("Plane?", "head", shapes=[size_of(images[n])])], [n]) for n in (0, 1)]
    shown = [Shown(trees[0], 0), Shown(trees[1], 1)]
    media = encoded(assembled, *images)
    with torch.no_grad():
        together, apart, swapped = (
            assembled.model(pack(rows, pad_id=assembled.template.pad_id), media).sums(2)
            for rows in ([shown], [[each] for each in shown], [[Shown(trees[0], 1), Shown(trees[1], 0)]])
        )
    if assembled.model.mixes_images:
        # The token in front of all images sees the other tree's image: such trees get rows of their own.
        assert float((together - apart).abs().max()) > 1e-4
    else:
        assert together.tolist() == pytest.approx(apart.tolist(), abs=2e-3)
    assert float((together - swapped).abs().max()) > 2e-2
