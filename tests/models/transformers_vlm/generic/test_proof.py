"""Tests that the doctor's proof passes checkpoints of the generic entry, and fails where one side is wrong."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from medtune.data.media.load import Shape
from medtune.data.types import Image, Video
from medtune.models.contract import Assembled
from medtune.models.proof.answers import Asking
from medtune.models.proof.checks import TOLERANCE, Check
from medtune.models.proof.plain_transformers import reference_of
from medtune.models.proof.proof import proof
from medtune.models.transformers_vlm.generic.loading import from_checkpoint, read_config, read_generic
from medtune.models.weights.loading_options import Loading
from tests.models.proof.test_faults import asked_about, failed, pictures
from tests.models.transformers_vlm.generic.checkpoints import write_checkpoint
from tests.models.transformers_vlm.test_parity import saved
from tests.models.transformers_vlm.test_video import clip
from tests.models.twins import picture, row_each, size_of, twin
from tests.soak import in_suites


def _opened(name: str, folder: Path) -> tuple[Assembled, Path]:
    write_checkpoint(name, folder)
    return from_checkpoint(str(folder), Loading(weights=str(folder))), folder


def _examined(assembled: Assembled, folder: Path) -> dict[str, Check]:
    reference = reference_of(assembled, None, folder=folder, loading=Loading(), precise=nullcontext)
    asking = Asking(torch.device("cpu"), nullcontext, TOLERANCE[torch.float32], max_new_tokens=6)
    (folder / "pictures").mkdir(exist_ok=True)
    return {each.name: each for each in proof(assembled, reference, asked_about(pictures(folder / "pictures")), asking)}


def test_a_processor_that_is_not_told_a_videos_rate_takes_none_of_its_own(tmp_path: Path) -> None:
    """Qwen2.5-Omni's takes 2 frames a second, whatever the video's data say."""
    assembled, _ = _opened("qwen25_omni", tmp_path)
    told = [assembled.transform(clip(4, per_s=per_s))["video_second_per_grid"].tolist() for per_s in (0.4, 4)]
    # Two frames are one place in time.
    assert told == [[pytest.approx(5)], [pytest.approx(0.5)]]


def test_a_model_that_reads_the_answer_before_it_says_it_fails(tmp_path: Path) -> None:
    assembled, folder = _opened("paligemma", tmp_path)
    model: Any = assembled.model
    model.marks_prefix = False
    checks = _examined(assembled, folder)
    assert "answers are hidden" in failed(checks), checks
    assert "reads the answer before it says it" in checks["answers are hidden"].detail


# M-RoPE with a merger inside the tower, and an image whose tokens see one another; the others are plain.
QUICK = ("nano_gemma3", "nano_qwen3vl")
FURTHER = ("nano_internvl", "nano_llava", "nano_llava_next_video", "nano_llava_video", "nano_qwen25vl", "nano_qwen2vl")
IN_SLOW = ("nano_internvl", "nano_qwen25vl")
"""One in a row and one with positions on three axes; `make soak` has all."""


def _generic(name: str, folder: Path) -> Assembled:
    saved(name, folder)
    where = str(folder)
    assembled = read_generic(where, read_config(where), Loading(weights=where))
    assembled.model.eval()
    return assembled


def _sums(assembled: Assembled, width: int, height: int) -> list[float]:
    image = picture(3, width=width, height=height)
    return _sums_of(assembled, image, size_of(image))


def _sums_of(assembled: Assembled, media: Image | Video, shape: Shape) -> list[float]:
    layouts = [assembled.template.layout("Which plane?", each, shapes=[shape]) for each in ("head", "abdomen")]
    with torch.no_grad():
        encoded = assembled.model.encode(assembled.transform.stack([assembled.transform(media)]))
        found: list[float] = assembled.model(row_each(assembled, layouts, [0, 0]), encoded).sums(2).tolist()
    return found


@pytest.mark.parametrize("name", [*QUICK, *in_suites(FURTHER, slow=IN_SLOW)])
def test_both_give_the_same_likelihoods(name: str, tmp_path: Path) -> None:
    generic = _generic(name, tmp_path)
    for width, height in ((90, 60), (40, 120)):
        assert _sums(generic, width, height) == pytest.approx(_sums(twin(name), width, height), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nano_mllama", "the processor's output cross_attention_mask depends on the question"),
        # GLM writes images and videos with the same token.
        ("nano_glm4v", "the processor's output mm_token_type_ids differs for tokens of the same id"),
    ],
)
def test_a_processor_whose_outputs_cannot_be_foretold_is_refused(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        _generic(name, tmp_path)
