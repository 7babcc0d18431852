"""Tests that the generic entry and the rows of known families read the same checkpoint alike."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from medtune.data.media.load import Shape
from medtune.data.types import Image, MediaRef, Video
from medtune.models.contract import Assembled
from medtune.models.doctor.answers import Asking
from medtune.models.doctor.check import TOLERANCE
from medtune.models.doctor.find_reference import reference_of
from medtune.models.doctor.proof import proof
from medtune.models.transformers_vlm.generic.loading import read_config, read_generic
from medtune.models.weights.loading_options import Loading
from tests.models.doctor.patients import asked_about, failed
from tests.models.transformers_vlm.asking import saved
from tests.models.transformers_vlm.test_video import clip, frames_of
from tests.models.twins import picture, row_each, size_of, twin
from tests.trainer.experiment.test_videos_and_scans import write_video

# M-RoPE with a merger inside the tower, and an image whose tokens see one another; the others are plain.
QUICK = ("nano_gemma3", "nano_qwen3vl")
VIDEO = ("nano_internvl", "nano_llava_next_video", "nano_qwen25vl", "nano_qwen3vl")
SLOW = ("nano_internvl", "nano_llava", "nano_llava_next_video", "nano_llava_video", "nano_qwen25vl", "nano_qwen2vl")


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
    layouts = [assembled.family.layout("Which plane?", each, shapes=[shape]) for each in ("head", "abdomen")]
    with torch.no_grad():
        encoded = assembled.model.encode(assembled.transform.stack([assembled.transform(media)]))
        found: list[float] = assembled.model(row_each(assembled, layouts, [0, 0]), encoded).sums(2).tolist()
    return found


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_both_give_the_same_likelihoods(name: str, tmp_path: Path) -> None:
    generic = _generic(name, tmp_path)
    for width, height in ((90, 60), (40, 120)):
        assert _sums(generic, width, height) == pytest.approx(_sums(twin(name), width, height), abs=1e-3)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in VIDEO])
def test_both_give_the_same_likelihoods_of_videos(name: str, tmp_path: Path) -> None:
    generic = _generic(name, tmp_path)
    assert generic.transform.kinds == ("image", "video")
    for video in (clip(5), clip(4, per_s=0.5, height=100)):
        mine, its = (_sums_of(each, video, frames_of(video)) for each in (generic, twin(name)))
        assert mine == pytest.approx(its, abs=1e-3)


@pytest.mark.slow
def test_the_proof_covers_videos(tmp_path: Path) -> None:
    generic = _generic("nano_qwen25vl", tmp_path)
    refs = []
    for seed in range(2):
        write_video(tmp_path / f"{seed}.mp4", 2.0, seed)
        refs.append(MediaRef(tmp_path / f"{seed}.mp4", kind="video"))
    reference = reference_of(generic, None, folder=tmp_path, loading=Loading(), precise=nullcontext)
    asking = Asking(torch.device("cpu"), nullcontext, TOLERANCE[torch.float32], max_new_tokens=4)
    checks = {each.name: each for each in proof(generic, reference, asked_about(refs, per_media=1), asking)}
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]
    assert {"template", "image tokens", "pixels", "options", "replies", "media are seen"} <= {
        name for name, check in checks.items() if check.passed
    }


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
