"""Tests that each end token of a checkpoint's generation_config.json ends a reply, is cut, and that one is learnt."""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from medtune.data.media.images import Size, decode_image
from medtune.data.types import MediaGroup, MediaRef, Prediction, Prompt, Question, Request
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.sequence.end_tokens import read_generation
from medtune.models.sequence.packing import pad_left
from medtune.models.weights.loading_options import Loading
from medtune.models.zoo.nano_any_size import build_qwen25vl

END_OF_TEXT = "<|endoftext|>"


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
    told = LocalAnswerer(
        assembled, device=torch.device("cpu"), batch_tokens=4096, max_new_tokens=tokens, precise=nullcontext
    )
    (found,) = told.answer(MediaGroup("m", (MediaRef(picture),), (question,)), [request])
    return found


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("picture") / "noise.png"
    PIL.Image.fromarray(np.random.default_rng(1).integers(0, 255, (56, 56, 3), dtype=np.uint8)).save(path)
    return path


def test_any_end_token_ends_a_reply_and_is_cut(folder: Path, picture: Path) -> None:
    plain = loaded(folder, {"eos_token_id": 258})
    assert plain.family.stop_ids == (258,)
    assert reply(plain, picture, tokens=6).finish_reason == "length"
    item = decode_image(picture)
    asked = plain.family.layout("Which plane?", None, shapes=[Size(56, 56)])
    with torch.no_grad():
        encoded = plain.model.encode(plain.transform.stack([plain.transform(item)]))
    (said,) = plain.model.generate(pad_left([asked], [0], pad_id=0), encoded, max_new_tokens=6, stop_ids=(258,))
    # The third token that the model says becomes an end token, although the tokenizer does not know it as special.
    third = said[2]
    cut = reply(loaded(folder, {"eos_token_id": [258, third]}), picture, tokens=6)
    assert cut.finish_reason == "stop"
    assert cut.text == plain.family.decode(said[: said.index(third)]).strip()


def test_first_end_token_is_the_template_s_and_is_learnt(folder: Path) -> None:
    family = loaded(folder, {"eos_token_id": [7, 258]}).family
    assert family.stop_ids == (258, 7)
    labels = family.layout("Which plane?", "head", shapes=()).labels
    assert labels[-1] == 258
    assert 7 not in labels


def test_default_ids_of_the_architecture_count_only_where_they_are_control_tokens(folder: Path) -> None:
    copied = {"_from_model_config": True, "eos_token_id": [258, 2]}
    assert loaded(folder, copied).family.stop_ids == (258,)
    # LlamaConfig's default is 2, which is a letter of the twin's tokenizer.
    assert zoo_entry("nano_llava_next_video").assemble(0).family.stop_ids == (257,)


def test_damaged_generation_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"generation_config\.json: damaged"):
        read_generation(tmp_path)
    assert read_generation(tmp_path / "nowhere") is None
