"""Tests the layouts of chats: learnt tokens, the place of the media, and control tokens that are spelt out in data."""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.media.images import decode_image
from medtune.data.types import MediaGroup, MediaRef, Prediction, Prompt, Question, Request, Size
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.nano.pocket import chatml_tokenizer
from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.sequence.builder import IGNORED
from medtune.models.sequence.chat_template import ChatTemplate
from medtune.models.sequence.chatml import CLOSE, OPEN, ChatML
from medtune.models.sequence.end_tokens import read_generation
from medtune.models.sequence.packing import pad_left
from medtune.models.weights.loading_options import Loading
from medtune.models.zoo.nano_any_size import build_qwen25vl
from tests.models.twins import cpu_answerer, fresh
from tests.models.weights.test_own_code import TEMPLATE, tokenizer

FAMILY = ChatTemplate(tokenizer(), num_media_tokens=3)
CHATML = ChatML(chatml_tokenizer(), num_media_tokens=3)
each_template = pytest.mark.parametrize("template", [FAMILY, CHATML], ids=["template", "chatml"])


def test_without_media_it_is_what_the_template_says() -> None:
    turns = [{"role": "user", "content": "How large?"}, {"role": "assistant", "content": "12 cm"}]
    said = str(tokenizer().apply_chat_template(turns, tokenize=False))
    sequence = FAMILY.layout("How large?", "12 cm", shapes=())
    assert "".join(FAMILY.pieces(sequence.ids)) == said.removesuffix("\n")
    learnt = [label for label in sequence.labels if label != IGNORED]
    assert "".join(FAMILY.pieces(learnt)) == "12 cm<stop>"


@each_template
def test_image_stands_before_the_question_and_questions_share_what_comes_before(
    template: ChatTemplate | ChatML,
) -> None:
    one, two = template.layout("first", "a"), template.layout("second", None)
    (span,) = one.media_spans
    assert span.stop - span.start == 3
    assert one.ids[: span.stop] == two.ids[: span.stop]
    assert set(one.labels[: span.stop]) == {IGNORED}
    asked = template.layout("first", None)
    assert asked.ids == one.ids[: len(asked.ids)]
    assert asked.num_targets == 0


def test_image_stands_behind_the_opening_of_the_turn() -> None:
    sequence = FAMILY.layout("first", "a")
    (span,) = sequence.media_spans
    assert "".join(FAMILY.pieces(sequence.ids[: span.start])) == "<begin><user>user: "
    assert "".join(FAMILY.pieces(sequence.ids[span.stop :])).startswith("\nfirst<stop>")


def test_a_model_without_a_template_continues_the_question() -> None:
    plain = ChatTemplate(tokenizer(None), num_media_tokens=1)
    sequence = plain.layout("How large?", "12 cm", shapes=())
    assert "".join(plain.pieces(sequence.ids)).removeprefix("<begin>") == "How large?\n12 cm<stop>"


@each_template
@given(prompt=st.text(max_size=40), answer=st.text(max_size=20))
def test_text_never_becomes_a_control_token(template: ChatTemplate | ChatML, prompt: str, answer: str) -> None:
    stop = template.stop_ids[0]
    spelled = template.layout(f"{prompt}<stop><user>{OPEN}{CLOSE}", f"<stop>{CLOSE}{answer}", shapes=())
    assert spelled.ids.count(stop) == template.layout("", "", shapes=()).ids.count(stop)
    assert spelled.labels.count(stop) == 1


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Hello.", "drops or repeats the question"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "drops or repeats"),
        ("{{ raise_exception('no users here') }}", "refuses a question: no users here"),
    ],
)
def test_template_that_loses_something_is_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChatTemplate(tokenizer(template), num_media_tokens=1)


def test_a_tokenizer_that_cannot_end_an_answer_is_refused() -> None:
    endless = tokenizer(None)
    endless.eos_token = None
    with pytest.raises(ValueError, match="neither a chat template nor an end-of-sequence token"):
        ChatTemplate(endless, num_media_tokens=1)


def test_a_dated_template_says_the_same_every_day() -> None:
    dated = ChatTemplate(tokenizer("Today: {{ date_string }} " + TEMPLATE), num_media_tokens=1)
    assert "26 Jul 2024" in "".join(dated.pieces(dated.layout("Q", None).ids))


def test_learnt_is_the_answer_and_the_end_of_its_turn() -> None:
    sequence = CHATML.layout("What is it?", "benign")
    learnt = [i for i, label in zip(sequence.ids, sequence.labels, strict=True) if label != IGNORED]
    assert "".join(CHATML.pieces(learnt)) == f"benign{CLOSE}"
    assert sequence.num_targets == len("benign") + 1
    assert sequence.labels[-sequence.num_targets - 1] == IGNORED


def test_words_are_in_the_order_of_the_template() -> None:
    text = "".join(CHATML.pieces(CHATML.layout("Q", "A", shapes=()).ids))
    assert text == f"{OPEN}user\nQ{CLOSE}\n{OPEN}assistant\nA{CLOSE}"


def test_prompts_are_padded_at_the_left_and_padding_is_masked() -> None:
    short, long = CHATML.layout("Q", None), CHATML.layout("a longer question", None)
    rows = pad_left([short, long], [1, 0], pad_id=CHATML.pad_id)
    assert rows.attention_BL.sum(dim=1).tolist() == [len(short.ids), len(long.ids)]
    assert bool(rows.attention_BL[:, -1].all())
    assert tuple(rows.ids_BL[0, rows.attention_BL[0]].tolist()) == short.ids
    assert rows.media_BL.sum(dim=1).tolist() == [3, 3]
    assert rows.media_S.tolist() == [1, 0]


def test_a_prompt_with_room_for_an_image_needs_one() -> None:
    with pytest.raises(ValueError, match="room for an image"):
        pad_left([CHATML.layout("Q", None)], [None], pad_id=CHATML.pad_id)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("qwen")
    write_nano(build_qwen25vl(), where, seed=0)
    return where


def loaded(folder: Path, said: object) -> Assembled:
    (folder / "generation_config.json").write_text(json.dumps(said), encoding="utf-8")
    assembled = zoo_entry("nano_qwen25vl").assemble(0, Loading(weights=str(folder)))
    assembled.model.eval()
    return assembled


def reply(assembled: Assembled, picture: Path, *, tokens: int) -> Prediction:
    question = Question("q", "m", "Which plane?", (), "head", "text", "p")
    request = Request(question, Prompt(question.text, (), "head"), "generation", "image")
    told = cpu_answerer(assembled, max_new_tokens=tokens)
    (found,) = told.answer(MediaGroup("m", (MediaRef(picture),), (question,)), [request])
    return found


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("picture") / "noise.png"
    PIL.Image.fromarray(np.random.default_rng(1).integers(0, 255, (56, 56, 3), dtype=np.uint8)).save(path)
    return path


def test_any_end_token_ends_a_reply_and_is_cut(folder: Path, picture: Path) -> None:
    plain = loaded(folder, {"eos_token_id": 258})
    assert plain.template.stop_ids == (258,)
    assert reply(plain, picture, tokens=6).finish_reason == "length"
    item = decode_image(picture)
    asked = plain.template.layout("Which plane?", None, shapes=[Size(56, 56)])
    with torch.no_grad():
        encoded = plain.model.encode(plain.transform.stack([plain.transform(item)]))
    (said,) = plain.model.generate(pad_left([asked], [0], pad_id=0), encoded, max_new_tokens=6, stop_ids=(258,))
    # The third token that the model says becomes an end token, although the tokenizer does not know it as special.
    third = said[2]
    cut = reply(loaded(folder, {"eos_token_id": [258, third]}), picture, tokens=6)
    assert cut.finish_reason == "stop"
    assert cut.text == plain.template.decode(said[: said.index(third)]).strip()


def test_first_end_token_is_the_template_s_and_is_learnt(folder: Path) -> None:
    template = loaded(folder, {"eos_token_id": [7, 258]}).template
    assert template.stop_ids == (258, 7)
    labels = template.layout("Which plane?", "head", shapes=()).labels
    assert labels[-1] == 258
    assert 7 not in labels


def test_default_ids_of_the_architecture_count_only_where_they_are_control_tokens(folder: Path) -> None:
    copied = {"_from_model_config": True, "eos_token_id": [258, 2]}
    assert loaded(folder, copied).template.stop_ids == (258,)
    # LlamaConfig's default is 2, which is a letter of the twin's tokenizer.
    assert fresh("nano_llava_next_video").template.stop_ids == (257,)


def test_damaged_generation_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"generation_config\.json: damaged"):
        read_generation(tmp_path)
    assert read_generation(tmp_path / "nowhere") is None
