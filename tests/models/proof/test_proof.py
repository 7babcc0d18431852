"""Every checkpoint's tokens, pixels, positions, likelihoods and replies are those of plain transformers.

One reference (`medtune.models.proof`) for all families: twins, their relatives, and what the generic entry reads.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.types import MediaRef, Size
from medtune.models.contract import Assembled
from medtune.models.proof.answers import Asking, leaked
from medtune.models.proof.plain_transformers import reference_of
from medtune.models.proof.proof import proof
from medtune.models.proof.questions import AskedQuestion
from medtune.models.proof.weights import weights_check
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.loading import family_of, from_checkpoint
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.loading_options import DEFAULT, Loading
from tests.data.media.videos.synthetic_videos import mp4
from tests.data.media.volumes.synthetic_volumes import nifti
from tests.families import FAMILIES
from tests.models.proof.test_faults import asked_about, checkpoint, conversations, examined, failed, opened, pictures
from tests.models.transformers_vlm.generic.checkpoints import BUILDERS, MORE
from tests.models.twins import OF_IMAGES, OF_TRANSFORMERS, OF_VIDEOS, OF_VOLUMES, picture
from tests.soak import in_suites

# The authors' own layouts are compared with transformers' models in transformers_vlm/test_originals.py.
CHECKPOINTS = tuple(name for name in FAMILIES if "layout" not in name)
GENERIC_QUICK, GENERIC_SLOW = (
    ("lfm2_vl", "llava_next", "ovis2", *MORE),
    ("deepseek_vl", "minicpm_v", "mistral3", "smolvlm"),
)
"""Short convolutions, tiles, a table of visual words; answers as text, media that are not joined, rows of patches."""
RELATIVES = ("glm46v", "glm4v_moe", "internvl35", "qwen3_5_moe", "qwen3_vl_moe")
"""They are read by the family of a twin that is quick, whose towers and ids they share; only `make soak` has them."""
PLAIN = tuple(name for name in CHECKPOINTS if name not in {*BUILDERS, *MORE, *RELATIVES} or name in GENERIC_QUICK)
SIZES = ((90, 60), (33, 200), (1, 1), (56, 56))
NO_DOTS = ("mistral3",)
"""transformers' own tower refuses an image of less than a patch."""
IMAGES_ALONE = ("llava_next", "llava_next_qwen", "llava_onevision", "mistral3", "pixtral")
"""Those that refuse several images together, as the processor writes them otherwise then."""
WITHOUT_TEXT_ALONE = ("paligemma",)
CLIPS_S = ((0.0, 0.5, 1.0, 1.5, 2.0), (0.0, 2.0, 4.0, 6.0), (0.0, 0.04), (0.0,))
"""The times of the frames of clips."""
NO_STILLS = ("glm", "qwen3")
"""How names begin of which transformers' processor refuses a single frame; see test_video.py."""
TOLERANCE = 2e-4
ONE_BY_ONE = ("mllama",)
"""Its answers move by up to 6e-3 a token with the other images of a batch, so that each question is asked alone."""
UNSEEN: Mapping[str, set[str]] = {"minicpm_v": {"pixels"}}
"""The doctor compares the pixels of several images along the first axis, and minicpm_v joins them along the last."""
PROVEN = {"template", "image tokens", "end token", "pixels", "option order", "options", "replies", "media are seen"}

QUICK = ("nano_qwen25vl", "nano_pocket")
TYPES = (torch.bfloat16, torch.float16)
VIDEO_ALONE = {"template", "end token", "positions", "option order", "options", "media are seen", "replies"}


def _asked(name: str, assembled: Assembled, folder: Path) -> list[AskedQuestion]:
    """Returns questions about images of many shapes, two images, earlier turns, nothing and clips, as it takes them."""
    refs = []
    for number, (width, height) in enumerate(SIZES):
        if (width, height) == (1, 1) and name in NO_DOTS:
            continue
        PIL.Image.fromarray(picture(number, width=width, height=height).pixels_HWC).save(folder / f"{number}.png")
        refs.append(MediaRef(folder / f"{number}.png"))
    asked = asked_about(refs, per_media=1)
    if name not in WITHOUT_TEXT_ALONE:
        asked += [each for each in conversations(refs[:2]) if len(each.files) < 2 or name not in IMAGES_ALONE]
    if "video" in assembled.transform.kinds:
        clips_s = [each for each in CLIPS_S if len(each) > 1 or not name.startswith(NO_STILLS)]
        clips = [mp4(folder / f"{number}.mp4", list(times_s)) for number, times_s in enumerate(clips_s)]
        asked += asked_about([MediaRef(path, kind="video") for path in clips], per_media=1)
    named = [(f"q{number}", " ".join(ref.path.name for ref in each.files)) for number, each in enumerate(asked)]
    return [
        replace(each, question=replace(each.question, id=name, media_id=media))
        for each, (name, media) in zip(asked, named, strict=True)
    ]


@pytest.mark.parametrize("name", in_suites(CHECKPOINTS, plain=PLAIN, slow=GENERIC_SLOW))
def test_answers_are_those_of_plain_transformers(name: str, tmp_path: Path) -> None:
    FAMILIES[name](tmp_path / "checkpoint")
    where = tmp_path / "checkpoint"
    assembled = from_checkpoint(str(where), Loading(weights=str(where)))
    assembled.model.eval()
    family = family_of(assembled.model.of_transformers.config)
    assert (family is None) == (name in {*BUILDERS, *MORE})
    reference = reference_of(
        assembled, find_family(family) if family else None, folder=where, loading=DEFAULT, precise=nullcontext
    )
    asked = _asked(name, assembled, tmp_path)
    if name in IMAGES_ALONE:
        with pytest.raises(ValueError, match="2 media items are shown together"):
            assembled.template.layout("Which?", None, shapes=[Size(33, 100), Size(56, 56)])
    asking = Asking(torch.device("cpu"), nullcontext, TOLERANCE, max_new_tokens=6)
    alike = asked_about(pictures(tmp_path), per_media=1)
    batches = [*([each] for each in asked), alike] if name in ONE_BY_ONE else [asked]
    passed: set[str] = set()
    for batch in batches:
        checks = {each.name: each for each in proof(assembled, reference, batch, asking)}
        assert failed(checks) == UNSEEN.get(name, set()), [checks[each] for each in failed(checks)]
        passed |= {each for each, check in checks.items() if check.passed}
    wanted = PROVEN if family is None else PROVEN | {"positions"}
    assert passed >= wanted - UNSEEN.get(name, set())
    assert weights_check(assembled.model, where, read_as=torch.float32).passed


def _passes(name: str, folder: Path | None, questions: list[AskedQuestion], assembled: Assembled) -> set[str]:
    """Asserts that no check fails, and returns the names of those that passed."""
    held = next(assembled.model.parameters()).dtype
    checks = {"weights": weights_check(assembled.model, folder, read_as=held)}
    checks |= examined(name, assembled, folder, questions)
    assert failed(checks) == set(), [checks[each] for each in failed(checks)]
    return {each for each, check in checks.items() if check.passed}


OTHERS = tuple(name for name in OF_IMAGES if name.removeprefix("nano_") not in FAMILIES)
"""Twins of three modules, and one whose files are its authors' own."""


@pytest.mark.parametrize("name", in_suites(OTHERS, plain=("nano_pocket", "nano_llava_video")))
def test_another_twin_passes(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    several = [each for each in conversations(pictures(tmp_path)) if len(each.files) < 2 or folder is None]
    passed = _passes(name, folder, asked_about(pictures(tmp_path)), opened(name, folder))
    assert passed >= {"options", "media are seen", "replies"}
    assert _passes(name, folder, several, opened(name, folder)) >= {"options", "replies"}


@pytest.mark.parametrize("name", in_suites([name for name in OF_VIDEOS if name.removeprefix("nano_") not in FAMILIES]))
def test_a_twin_passes_on_videos(name: str, tmp_path: Path) -> None:
    folder = checkpoint(name, tmp_path / "checkpoint")
    clips = [mp4(tmp_path / f"clip_{n}.mp4", [each / (5 + n) for each in range(30)]) for n in range(2)]
    refs = [MediaRef(path, kind="video", start_s=float(n), end_s=n + 2.0) for n, path in enumerate(clips)]
    assert _passes(name, folder, asked_about(refs), opened(name, folder)) >= VIDEO_ALONE


@pytest.mark.parametrize("name", in_suites(OF_VOLUMES, plain=("nano_m3d_phi3", "nano_pocket_ct")))
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
