"""Tests the judge in this process with a tiny text model of transformers that has learnt one verdict by heart."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from medtune.data.types import JudgeRequest, PredictionKey
from medtune.models.weights.causal_language import LocalJudge

VERDICT = '{"score": 2, "error_type": "none"}'
_TEMPLATE = (
    "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<judge>{% endif %}"
)


def write_tiny_judge(folder: Path, shown: Sequence[tuple[str, str]], *, steps: int = 150) -> Path:
    """Writes a Llama of two layers over bytes that writes the verdict after these pairs of instructions and answer."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*alphabet, "<stop>"])}
    bytes_of_text = Tokenizer(models.BPE(vocabulary, []))
    bytes_of_text.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_of_text.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_of_text, eos_token="<stop>", chat_template=_TEMPLATE)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=512,
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    worst = 0.0
    for step in range(steps):
        system, user = shown[step % len(shown)]
        prompt = f"<system>{system}\n<user>{user}\n<judge>"
        ids_BL = torch.tensor([[*tokenizer.encode(prompt + VERDICT), tokenizer.eos_token_id]])
        labels_BL = ids_BL.clone()
        labels_BL[:, : len(tokenizer.encode(prompt))] = -100
        loss = model(input_ids=ids_BL, labels=labels_BL).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        worst = max(loss.item(), worst) if step >= steps - len(shown) else 0.0
    assert worst < 0.01
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def request(number: int, text: str = "an answer") -> JudgeRequest:
    return JudgeRequest(PredictionKey(f"q{number}", "image", "generation", 0), "Judge.", text, {})


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a model that writes the verdict after every prompt with the same ending."""
    return write_tiny_judge(tmp_path_factory.mktemp("judge") / "tiny-judge", [("Judge.", "an answer")])


@pytest.fixture
def judge(weights: Path) -> LocalJudge:
    return LocalJudge(str(weights), dtype="float32", max_new_tokens=60, device=torch.device("cpu"))


def test_verdict_comes_without_prompt_and_stop_token(judge: LocalJudge) -> None:
    found = dict(judge.replies([request(0), request(1)], is_usable=lambda text: text == VERDICT))
    assert {key.question_id: text for key, text in found.items()} == {"q0": VERDICT, "q1": VERDICT}


def test_what_is_no_verdict_is_none(judge: LocalJudge) -> None:
    ((key, text),) = judge.replies([request(0)], is_usable=lambda text: False)
    assert (key.question_id, text) == ("q0", None)


def test_name_shows_no_folder(judge: LocalJudge) -> None:
    assert judge.name == "tiny-judge"


def test_model_without_chat_template_is_refused(weights: Path, tmp_path: Path) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(weights)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no chat template"):
        LocalJudge(str(tmp_path), dtype="float32", max_new_tokens=9, device=torch.device("cpu"))


def test_end_token_of_the_generation_config_ends_a_verdict(weights: Path, tmp_path: Path) -> None:
    """Where a template ends a turn with another token than the tokenizer's own, only generation_config.json says so."""
    folder = shutil.copytree(weights, tmp_path / "tiny-judge")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    brace, stop = tokenizer.convert_tokens_to_ids(["}", "<stop>"])
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [brace, stop]}), encoding="utf-8")
    judge = LocalJudge(str(folder), dtype="float32", max_new_tokens=60, device=torch.device("cpu"))
    ((_, text),) = judge.replies([request(0)], is_usable=lambda text: True)
    assert text == VERDICT.removesuffix("}")
