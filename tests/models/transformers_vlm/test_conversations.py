"""Compares conversations with several images and turns with transformers' own processor, template and forward.

The processor writes the whole conversation; two images swapped, and an earlier answer changed, must be seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import PIL.Image
import pytest
import torch

from medtune.data.types import MEDIA_MARK, Image, MediaGroup, MediaRef, Prompt, Question, Request, Turn
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.model import TransformersVlm
from tests.models.transformers_vlm.test_parity import encoded, expected, pillow, plain, processor, prompts, whole
from tests.models.twins import (
    MODELS,
    OF_TRANSFORMERS,
    all_seen,
    cpu_answerer,
    leaking,
    moved,
    picture,
    shares_rows,
    size_of,
    twin,
)
from tests.soak import in_suites

ANSWER = "abdomen"
IMAGES = (picture(1), picture(2, width=40, height=80))
SEVERAL = [name for name in OF_TRANSFORMERS if not find_family(MODELS[name].family or "").one_item]
QUICK, SLOW = ("nano_qwen25vl", "nano_mllama"), ("nano_gemma3", "nano_internvl")
"""Positions on three axes, images beside the row; an image whose tokens see one another, and one of several tiles."""
each_family = pytest.mark.parametrize("name", in_suites(SEVERAL, plain=QUICK, slow=SLOW))
Part = str | int
"""A text, or the number of an image."""
FRONT: list[list[Part]] = [[0, 1, "Which of both is older?"], ["And which plane?"]]
AMONG: list[list[Part]] = [["Compare", 0, "with", 1, "please."], ["And which plane?"]]
LATER: list[list[Part]] = [[0, "Which is it?"], [1, "And this one?"]]
TURNS = (Turn("Which of both is older?", "The first."),)


def _texts(turns: list[list[Part]]) -> list[str]:
    """Returns the texts of the turns as medtune's questions hold them."""
    return ["".join(MEDIA_MARK if isinstance(part, int) else part for part in turn) for turn in turns]


def _written(name: str, turns: list[list[Part]], told: str, *, images: tuple[Image, ...]) -> Any:
    """Returns the conversation up to the last answer as transformers' processor writes it."""
    content = [
        [{"type": "text", "text": each} if isinstance(each, str) else {"type": "image"} for each in turn]
        for turn in turns
    ]
    said = [{"role": "assistant", "content": [{"type": "text", "text": told}]}]
    asked = [{"role": "user", "content": each} for each in content]
    text = processor(twin(name)).apply_chat_template(
        [asked[0], *said, *asked[1:]], tokenize=False, add_generation_prompt=True
    )
    shown = [images[part] for turn in turns for part in turn if isinstance(part, int)]
    (stop,) = twin(name).template.pieces(twin(name).template.stop_ids[:1])
    text = f"{text}{' ' if text.endswith('ASSISTANT:') else ''}{ANSWER}{stop}"
    return processor(twin(name))(text=[text], images=[list(map(pillow, shown))], return_tensors="pt")


def _ours(name: str, prompt: str, turns: tuple[Turn, ...], *, order: tuple[int, ...] = (0, 1)) -> list[float]:
    assembled = twin(name)
    layout = assembled.template.layout(prompt, ANSWER, shapes=list(map(size_of, IMAGES)), turns=turns)
    rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.template.pad_id)
    rows = rows._replace(media_S=torch.tensor(order)[rows.media_S])
    with torch.no_grad():
        read: list[float] = assembled.model(rows, encoded(assembled, *IMAGES)).logprobs_T.tolist()
    return read


@each_family
@pytest.mark.parametrize("form", ["front", "among", "later"])
def test_two_images_and_two_turns_equal_transformers_own_conversation(name: str, form: str) -> None:
    parts = {"front": FRONT, "among": AMONG, "later": LATER}[form]
    first, prompt = _texts(parts)
    turns = (Turn(first.replace(MEDIA_MARK, "") if form == "front" else first, "The first."),)
    layout = twin(name).template.layout(prompt, ANSWER, shapes=list(map(size_of, IMAGES)), turns=turns)
    inputs = _written(name, parts, "The first.", images=IMAGES)
    ids = inputs["input_ids"][0].tolist()
    assert tuple(ids[: len(layout.ids)]) == layout.ids
    with torch.no_grad():
        logits_LV = whole(twin(name))(**inputs).logits[0].float().log_softmax(-1)
    wanted = [float(logits_LV[place - 1, label]) for place, label in enumerate(layout.labels) if label >= 0]
    assert _ours(name, prompt, turns) == pytest.approx(wanted, abs=2e-4)


@each_family
def test_swapped_images_and_another_earlier_answer_are_seen(name: str) -> None:
    asked = _ours(name, "And which plane?", TURNS)
    other = (Turn(TURNS[0].asked, "The second."),)
    alike = [picture(1), picture(2)]
    assembled = twin(name)
    layout = assembled.template.layout("And which plane?", ANSWER, shapes=list(map(size_of, alike)), turns=TURNS)
    rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.template.pad_id)
    with torch.no_grad():
        right, swapped = (
            assembled.model(rows, encoded(assembled, *shown)).logprobs_T for shown in (alike, alike[::-1])
        )
    assert float((right - swapped).abs().max()) > 1e-3
    assert max(abs(a - b) for a, b in zip(asked, _ours(name, "And which plane?", other), strict=True)) > 1e-3


@pytest.mark.parametrize("name", in_suites(OF_TRANSFORMERS, slow=QUICK))
def test_turns_without_an_image_equal_transformers_own_conversation(name: str) -> None:
    assembled = twin(name)
    layout = assembled.template.layout("And which plane?", ANSWER, shapes=(), turns=TURNS)
    asked = [
        {"role": "user", "content": [{"type": "text", "text": TURNS[0].asked}]},
        {"role": "assistant", "content": [{"type": "text", "text": TURNS[0].answer}]},
        {"role": "user", "content": [{"type": "text", "text": "And which plane?"}]},
    ]
    text = processor(assembled).apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    ids = processor(assembled)(text=[text], return_tensors="pt")["input_ids"][0].tolist()
    assert layout.ids[: len(ids)] == tuple(ids)
    with torch.no_grad():
        logits_LV = whole(assembled)(input_ids=torch.tensor([layout.ids])).logits[0].float().log_softmax(-1)
    wanted = [float(logits_LV[place - 1, label]) for place, label in enumerate(layout.labels) if label >= 0]
    rows = pack([[Shown(grow([layout], [0]), None)]], pad_id=assembled.template.pad_id)
    assert assembled.model(rows, None).logprobs_T.tolist() == pytest.approx(wanted, abs=2e-4)


@each_family
def test_replies_to_several_images_equal_transformers_generate(name: str) -> None:
    assembled = twin(name)
    layout = assembled.template.layout("And which plane?", None, shapes=list(map(size_of, IMAGES)), turns=TURNS)
    single = assembled.template.layout("Which plane?", None, shapes=[size_of(IMAGES[1])])
    stop = assembled.template.stop_ids
    both = prompts(assembled, [layout, single], [0, 1])
    said = assembled.model.generate(both, encoded(assembled, *IMAGES), max_new_tokens=5, stop_ids=stop)
    inputs = _written(name, FRONT, TURNS[0].answer, images=IMAGES)
    cut = {
        key: value[:, : len(layout.ids)] if value.shape[:2] == inputs["input_ids"].shape else value
        for key, value in inputs.items()
    }
    told = whole(assembled).generate(**cut, max_new_tokens=5, do_sample=False, eos_token_id=list(stop))
    assert said[0] == told[0, len(layout.ids) :].tolist()
    alone = prompts(assembled, [single], [0])
    assert assembled.model.generate(alone, encoded(assembled, IMAGES[1]), max_new_tokens=5, stop_ids=stop)[0] == said[1]


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
Tamper = Callable[[PackedRows], PackedRows]


def _request(number: int, condition: Any = "image") -> Request:
    asked = f"Is it {'very ' * number}odd?"
    question = Question(f"q{number}", "m", asked, OPTIONS, "no", "choice", "p")
    return Request(question, Prompt(asked, OPTIONS, "no"), "likelihood", condition)


REQUESTS = [_request(1), _request(2), _request(4), _request(1, "text_only"), _request(3, "text_only")]


class Asked:
    """The predictions of the answerer, and the number of tokens that the model read for them."""

    def __init__(self, name: str, *, share: bool, tamper: Tamper | None = None, seed: int = 0) -> None:
        self.num_tokens = 0
        forward = TransformersVlm.forward

        def watched(model: TransformersVlm, rows: PackedRows, shown: Any) -> Any:
            self.num_tokens += rows.ids_BL.numel()
            return forward(model, tamper(rows) if tamper else rows, shown)

        answerer = cpu_answerer(twin(name), max_new_tokens=2, share_prefix=share)
        with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
            path = Path(folder) / "picture.png"
            PIL.Image.fromarray(picture(seed).pixels_HWC).save(path)
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


@pytest.mark.parametrize("name", SHARING)
@pytest.mark.parametrize("broken", ["mask", "positions", "leak", "image"])
def test_negative_controls_move_the_answer(name: str, broken: str) -> None:
    def tamper(rows: PackedRows) -> PackedRows:
        if broken == "mask":
            return all_seen(rows)
        if broken == "positions":
            return moved(rows)
        # A token of the first question.
        return leaking(rows, int(rows.target_place_T.min()) - 2)

    right = Asked(name, share=True)
    wrong = Asked(name, share=True, seed=9) if broken == "image" else Asked(name, share=True, tamper=tamper)
    assert wrong.furthest(right) > 1e-2


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
