"""Tests pocket's pretrained parts: they do what they are known to do."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quantize
from sklearn.datasets import load_sample_images
from transformers import LlamaForCausalLM

from medtune.benchmarks import find_benchmark
from medtune.data.types import Image
from medtune.eval.asking.choice_prompt import render_choice
from medtune.models import efficientnet_lite0, smollm2
from medtune.models.sequence.chatml import ChatML
from medtune.models.weights import assets
from tests.ranks import run_ranks

pytestmark = pytest.mark.slow


def test_language_model_speaks() -> None:
    language = smollm2.load()
    text = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    ids_BL = torch.tensor([language.tokenizer.encode(text)])
    with torch.no_grad():
        generated_BL = language.model.generate(ids_BL, max_new_tokens=8, do_sample=False)  # type: ignore[operator]
    assert "Paris" in str(language.tokenizer.decode(generated_BL[0]))


def test_a_gguf_file_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    sizes = {
        **dict.fromkeys(("attn_q", "attn_output"), (288, 288)), **dict.fromkeys(("attn_k", "attn_v"), (96, 288)),
        **dict.fromkeys(("ffn_gate", "ffn_up"), (64, 288)), "ffn_down": (288, 64), "attn_norm": (288,),
        "ffn_norm": (288,),
    }  # fmt: skip
    blocks = {f"blk.{block}.{name}": size for block in range(2) for name, size in sizes.items()}
    rng, path = np.random.default_rng(0), tmp_path / "tiny.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(288)
    writer.add_feed_forward_length(64)
    writer.add_head_count(smollm2.architecture().num_attention_heads)
    writer.add_head_count_kv(smollm2.architecture().num_key_value_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(50)
    for name, size in {"token_embd": (50, 288), "output_norm": (288,), **blocks}.items():
        values = rng.normal(size=size).astype(np.float32)
        kind = GGMLQuantizationType.F32 if len(size) == 1 else GGMLQuantizationType.Q4_1
        writer.add_tensor(f"{name}.weight", quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = dict(smollm2._tensors(path))
    theirs = LlamaForCausalLM.from_pretrained(tmp_path, gguf_file=path.name, dtype=torch.float32).state_dict()
    assert ours.keys() == theirs.keys() - {"lm_head.weight"}
    for name, weight in ours.items():
        assert torch.equal(weight, theirs[name]), name


def test_tower_knows_imagenet() -> None:
    """With the file's own head, a temple is classified as a palace and a dahlia as a daisy."""
    tower, _ = efficientnet_lite0.load(grid=1)
    tower.eval()
    head = torch.load(assets.kept_from_index(efficientnet_lite0.INDEX_FILE), weights_only=True)
    transform = efficientnet_lite0.transform(256)
    palace, daisy = 698, 985
    for photo_HWC, label in zip(load_sample_images().images, (palace, daisy), strict=True):
        with torch.no_grad():
            features_D = tower(transform(Image(photo_HWC)).unsqueeze(0))[0, 0]
        scores_K = head["_fc.weight"] @ features_D + head["_fc.bias"]
        assert label in scores_K.topk(5).indices.tolist()


def test_a_letter_is_one_token_and_the_same_where_it_is_shown_and_where_it_is_answered() -> None:
    """Otherwise a model would have to translate a letter before it could copy it."""
    family = ChatML(smollm2.load().tokenizer, num_media_tokens=8)
    for question in find_benchmark("fetal_gauge").examples:
        prompt = render_choice(question, "letter")
        for letter in prompt.choices:
            layout = family.layout(prompt.text, letter)
            assert layout.num_targets == 2, "the letter and the end of the turn"
            answered = layout.ids[-2]
            pieces = family.pieces(layout.ids)
            shown = [
                id_
                for id_, piece, before, after in zip(layout.ids[1:], pieces[1:], pieces, pieces[2:], strict=False)
                if (before, piece.strip(), after) == ("\n", letter, ".")
            ]
            assert shown == [answered]


@pytest.mark.soak
def test_two_processes_may_fill_an_empty_cache_at_once(tmp_path: Path) -> None:
    """Both write the weights; the second finds the folder of the first, and both go on."""
    smollm2.load()
    cache = tmp_path / "medtune"
    cache.mkdir()
    for downloaded in assets.cache_folder().glob("llm-*"):
        (cache / downloaded.name).symlink_to(downloaded)
    read = run_ranks(2, _parameters, environment=lambda _: {"XDG_CACHE_HOME": str(tmp_path)}, timeout_s=300)
    assert read[0] == read[1] > 100_000_000
    assert (cache / "SmolLM2-135M-Instruct-Q4_1").is_dir()
    assert not list(cache.glob("tmp*"))


def _parameters(rank: int, world_size: int) -> int:
    return sum(p.numel() for p in smollm2.load().model.parameters())
