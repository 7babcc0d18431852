"""Tests that every twin passes all checks: over images, videos and volumes, from files in three number formats."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.types import MediaRef
from medtune.models.contract import Assembled
from medtune.models.proof.answers import leaked
from medtune.models.proof.questions import AskedQuestion
from medtune.models.proof.weights import weights_check
from medtune.models.transformers_vlm.families import find_family
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.loading_options import DEFAULT, Loading
from tests.data.media.videos.synthetic_videos import mp4
from tests.data.media.volumes.synthetic_volumes import nifti
from tests.models.proof.test_faults import asked_about, checkpoint, conversations, examined, failed, opened, pictures
from tests.models.twins import MODELS, OF_IMAGES, OF_TRANSFORMERS, OF_VIDEOS, OF_VOLUMES
from tests.soak import in_suites

QUICK = ("nano_qwen25vl", "nano_pocket")
FURTHER = ("nano_gemma3", "nano_mllama")
"""An image whose tokens see one another, and an image beside the row."""
TYPES = (torch.bfloat16, torch.float16)
SEVERAL = tuple(
    name for name in OF_IMAGES if MODELS[name].family is None or not find_family(MODELS[name].family or "").one_item
)
VIDEO_ALONE = {"template", "end token", "positions", "option order", "options", "media are seen", "replies"}


def _passes(name: str, folder: Path | None, questions: list[AskedQuestion], assembled: Assembled) -> set[str]:
    """Asserts that no check fails, and returns the names of those that passed."""
    held = next(assembled.model.parameters()).dtype
    checks = {"weights": weights_check(assembled.model, folder, read_as=held)}
    checks |= examined(name, assembled, folder, questions)
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]
    return {each for each, check in checks.items() if check.passed}


@pytest.mark.parametrize("name", in_suites(OF_IMAGES, plain=QUICK, slow=FURTHER))
def test_a_twin_passes(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    passed = _passes(name, folder, asked_about(pictures(tmp_path)), opened(name, folder))
    assert passed >= {"options", "replies"}
    if folder is not None:
        assert passed >= {"weights", "template", "image tokens", "pixels", "positions"}


@pytest.mark.parametrize("name", in_suites(SEVERAL, slow=QUICK))
def test_a_twin_passes_on_several_images_and_turns(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    passed = _passes(name, folder, conversations(pictures(tmp_path)), opened(name, folder))
    assert passed >= {"options", "media are seen", "replies"}
    if folder is not None:
        assert passed >= {"template", "image tokens", "pixels", "positions"}


@pytest.mark.parametrize("name", in_suites(OF_VIDEOS, slow=QUICK[:1]))
def test_a_twin_passes_on_videos(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    clips = [mp4(tmp_path / f"clip_{n}.mp4", [each / (5 + n) for each in range(30)]) for n in range(2)]
    refs = [MediaRef(path, kind="video", start_s=float(n), end_s=n + 2.0) for n, path in enumerate(clips)]
    assert _passes(name, folder, asked_about(refs), opened(name, folder)) >= VIDEO_ALONE


@pytest.mark.parametrize("name", in_suites(OF_VOLUMES, slow=("nano_m3d_phi3", "nano_pocket_ct")))
def test_a_twin_passes_on_volumes(name: str, tmp_path: Path) -> None:
    assembled = opened(name, None)
    if isinstance(assembled.transform, VolumeInput):
        cached = replace(assembled.transform, cache=VolumeCache(tmp_path / "cache"))
        assembled = replace(assembled, transform=cached)
    refs = []
    for number in range(2):
        values = np.random.default_rng(number).integers(-1000, 1000, (40, 36, 24)).astype(np.int16)
        refs.append(MediaRef(nifti(tmp_path / f"scan_{number}.nii.gz", values), kind="volume"))
    assert _passes(name, None, asked_about(refs, per_media=1), assembled) >= {"options", "replies"}


@pytest.mark.parametrize(
    ("name", "dtype"), in_suites(product(OF_TRANSFORMERS, TYPES), slow=(("nano_mllama", torch.float16),))
)
def test_a_twin_passes_from_files_of_16_bits(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint", dtype=dtype)
    assert "weights" in _passes(name, folder, asked_about(pictures(tmp_path)), opened(name, folder))


@pytest.mark.parametrize("name", in_suites(OF_IMAGES, slow=QUICK[:1]))
def test_a_twin_passes_in_mixed_precision(name: str, tmp_path: Path) -> None:
    """The tolerance is that of bfloat16, which still sees another picture."""
    folder = checkpoint(name, tmp_path / "checkpoint", dtype=torch.bfloat16)
    assembled = opened(name, folder, DEFAULT if folder is None else Loading(dtype="bfloat16"))
    questions = asked_about(pictures(tmp_path))
    checks = examined(name, assembled, folder, questions, precision="bf16-mixed")
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]


@pytest.mark.parametrize(
    ("reply", "holds"),
    [
        ("B. head<|im_end|>", "'<|im_end|>'"),
        ("head\nassistant\nhead", "'assistant'"),
        ("head USER: and now?", "'USER:'"),
        ("Which plane does this picture show? head", "the beginning of the question"),
        ("<image> head", "'<image>'"),
        ("head </s>", "'</s>'"),
    ],
)
def test_a_piece_of_the_template_in_a_reply_is_found(reply: str, holds: str) -> None:
    assert holds in (leaked(reply, "Which plane does this picture show?") or "")


@pytest.mark.parametrize("reply", ["", "head", "The model of the heart", "the user interface", "5 < 7", "human"])
def test_an_answer_is_no_leak(reply: str) -> None:
    assert leaked(reply, "Which plane does this picture show?") is None
