"""Tests that every twin passes all checks: over images, videos and volumes, from files in three number formats."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

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
from medtune.models.tuning.plan import PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import quantize_language
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.loading_options import DEFAULT, Loading
from tests.data.media.videos.synthetic_videos import mp4
from tests.data.media.volumes.synthetic_volumes import nifti
from tests.models.proof.test_faults import (
    TUNING,
    asked_about,
    checkpoint,
    conversations,
    examined,
    failed,
    opened,
    pictures,
    trained,
)
from tests.models.twins import MODELS, OF_IMAGES, OF_TRANSFORMERS, OF_VIDEOS, OF_VOLUMES, TWINS, expanded
from tests.soak import in_suites

QUICK = ("nano_qwen25vl", "nano_pocket")
FURTHER = ("nano_gemma3", "nano_mllama")
"""An image whose tokens see one another, and an image beside the row."""
TYPES = (torch.bfloat16, torch.float16)
SEVERAL = tuple(
    name for name in OF_IMAGES if MODELS[name].family is None or not find_family(MODELS[name].family or "").one_item
)
VIDEO_ALONE = {"template", "end token", "positions", "option order", "options", "media are seen", "replies"}


def _passes(name: str, assembled: Assembled, folder: Path | None, refs: list[MediaRef], tmp_path: Path) -> set[str]:
    """Asserts that no check fails, and returns the names of those that passed."""
    questions = asked_about(refs, per_media=1 if refs[0].kind == "volume" else 2)
    return _pass(name, assembled, folder, questions, tmp_path)


def _pass(
    name: str, assembled: Assembled, folder: Path | None, questions: list[AskedQuestion], tmp_path: Path
) -> set[str]:
    held = next(assembled.model.parameters()).dtype
    checks = {"weights": weights_check(assembled.model, folder, read_as=held)}
    checks |= examined(name, assembled, folder, questions)
    # Some towers hold nothing that LoRA could adapt.
    how = TUNING if expanded(TWINS[name].vision) else replace(TUNING, vision=PartTuning("full", lr=TUNING.vision.lr))
    checks |= trained(name, assembled, folder, questions, tmp_path, tuning=how)
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]
    return {each for each, check in checks.items() if check.passed}


@pytest.mark.parametrize("name", in_suites(OF_IMAGES, plain=QUICK, slow=FURTHER))
def test_a_twin_passes(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    passed = _passes(name, opened(name, folder), folder, pictures(tmp_path), tmp_path)
    assert passed >= {"options", "replies", "gradients", "one step", "save and load", "merge", "export"}
    if folder is not None:
        assert passed >= {"weights", "template", "image tokens", "pixels", "positions"}


@pytest.mark.parametrize("name", in_suites(SEVERAL, slow=QUICK))
def test_a_twin_passes_on_several_images_and_turns(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    passed = _pass(name, opened(name, folder), folder, conversations(pictures(tmp_path)), tmp_path)
    assert passed >= {"options", "media are seen", "replies", "gradients", "one step"}
    if folder is not None:
        assert passed >= {"template", "image tokens", "pixels", "positions"}


@pytest.mark.parametrize("name", in_suites(OF_VIDEOS, slow=QUICK[:1]))
def test_a_twin_passes_on_videos(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    clips = [mp4(tmp_path / f"clip_{n}.mp4", [each / (5 + n) for each in range(30)]) for n in range(2)]
    refs = [MediaRef(path, kind="video", start_s=float(n), end_s=n + 2.0) for n, path in enumerate(clips)]
    assert _passes(name, opened(name, folder), folder, refs, tmp_path) >= VIDEO_ALONE


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
    assert _passes(name, assembled, None, refs, tmp_path) >= {"options", "replies", "gradients", "merge", "export"}


@pytest.mark.parametrize(
    ("name", "dtype"), in_suites(product(OF_TRANSFORMERS, TYPES), slow=(("nano_mllama", torch.float16),))
)
def test_a_twin_passes_from_files_of_16_bits(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint", dtype=dtype)
    assert "weights" in _passes(name, opened(name, folder), folder, pictures(tmp_path), tmp_path)


@pytest.mark.parametrize("name", in_suites(OF_IMAGES, slow=QUICK[:1]))
def test_a_twin_passes_in_mixed_precision(name: str, tmp_path: Path) -> None:
    """The tolerance is that of bfloat16, which still sees another picture."""
    folder = checkpoint(name, tmp_path / "checkpoint", dtype=torch.bfloat16)
    assembled = opened(name, folder, DEFAULT if folder is None else Loading(dtype="bfloat16"))
    questions = asked_about(pictures(tmp_path))
    checks = examined(name, assembled, folder, questions, precision="bf16-mixed")
    checks |= trained(name, assembled, folder, questions, tmp_path, precision="bf16-mixed")
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]
    assert "bfloat16 is frozen" in checks["number format"].detail


def _lora(**how: Any) -> PartTuning:
    return replace(TUNING.language, lora=replace(TUNING.language.lora, **how))


FULL, PART = PartTuning("full", lr=1e-4), PartTuning("part", lr=1e-4, parameters=".*embed_tokens.weight")
NO_ADAPTERS, PACKED = {"adapter scale"}, {"export"}
MODES = {
    "lora": (TUNING, set()),
    "dora": (replace(TUNING, vision=_lora(dora=True), language=_lora(dora=True)), set()),
    "dora in one part": (replace(TUNING, language=_lora(dora=True)), set()),
    "rslora, lora+": (replace(TUNING, language=_lora(rslora=True, lr_ratio=4.0)), set()),
    "full": (Tuning(FULL, FULL, FULL), NO_ADAPTERS),
    "part": (Tuning(PartTuning("frozen"), FULL, PART), NO_ADAPTERS),
    "qlora": (TUNING, PACKED),
    "qdora": (replace(TUNING, language=_lora(dora=True)), PACKED),
    "qlora and a part": (replace(TUNING, language=replace(_lora(), parameters=PART.parameters)), PACKED),
}
"""The ways in which a model learns, and the checks that do not apply to each; a q stands for weights in 4 bits."""


PRECISIONS: tuple[Precision, ...] = ("32-true", "bf16-mixed")
PLAIN = (("full", "32-true"), ("qdora", "bf16-mixed"))
IN_TURN = tuple((mode, PRECISIONS[number % 2]) for number, mode in enumerate(MODES))
"""Each way once, in one of both precisions."""


@pytest.mark.parametrize(("mode", "precision"), in_suites(product(MODES, PRECISIONS), plain=PLAIN, slow=IN_TURN))
def test_every_way_of_learning_passes(mode: str, precision: Precision, tmp_path: Path) -> None:
    tuning, no_matter = MODES[mode]
    assembled = opened("nano_qwen25vl", None)
    if mode.startswith("q"):
        quantize_language(assembled.model, precision=precision, device=torch.device("cpu"))
    asked = asked_about(pictures(tmp_path))
    checks = trained("nano_qwen25vl", assembled, None, asked, tmp_path, tuning=tuning, precision=precision)
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]
    assert {name for name, check in checks.items() if check.passed is None} == {*no_matter, "memory"}


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
