"""Tests CTs that models of images and videos are shown as slices or as a video, or refuse."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.media.volumes.geometry import affine_of
from medtune.data.media.volumes.slices import SLICES, VIDEO
from medtune.data.types import MediaGroup, MediaRef, Prompt, Question, Request, Volume
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.media_reader import read_item
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from tests.models.twins import cpu_answerer, picture, row_each, twin

QUESTION, ANSWER = "Is there a cyst?", "no"


def _assembled(name: str, **settings: Any) -> Assembled:
    assembled = zoo_entry(name).assemble(0, Loading(**settings))
    assembled.model.eval()
    return assembled


def _scan(count: int = 90) -> Volume:
    noise = np.random.default_rng(0).integers(-1000, 1000, (20, 16, count))
    return Volume(noise.astype(np.int16), (1.0, 1.0, 2.0), "RAS")


@pytest.fixture
def ref(tmp_path: Path) -> MediaRef:
    volume, path = _scan(), tmp_path / "ct.nii.gz"
    write_nifti(path, volume.hu_IJK, affine_of(volume))
    return MediaRef(path, kind="volume")


def _read(assembled: Assembled, ref: MediaRef) -> list[float]:
    transform = assembled.transform
    layout = assembled.family.layout(QUESTION, ANSWER, shapes=[transform.shape(ref)])
    with torch.no_grad():
        encoded = assembled.model.encode(transform.stack([read_item(ref, transform)]))
        found: list[float] = assembled.model(row_each(assembled, [layout], [0]), encoded).logprobs_T.tolist()
    return found


@pytest.mark.parametrize(
    ("name", "way", "most", "spans"),
    [
        ("nano_gemma3", "slices", None, 85),
        ("nano_gemma3", "slices", 6, 6),
        ("nano_llava", "video", 5, 5),
        ("nano_qwen25vl", "video", 8, 1),
        ("nano_llava_video", "video", 4, 1),
    ],
)
def test_a_scan_is_shown_as_the_frames_that_it_becomes(
    name: str, way: Any, most: int | None, spans: int, ref: MediaRef
) -> None:
    assembled = _assembled(name, volumes_as=way, video_frames=most)
    assert assembled.transform.kinds == ("image", "video", "volume")
    layout = assembled.family.layout(QUESTION, ANSWER, shapes=[assembled.transform.shape(ref)])
    assert len(layout.media_spans) == spans
    # The same pictures are passed as a video.
    pictures: Any = assembled.transform.volumes  # type: ignore[attr-defined]
    shown = assembled.transform.stack([assembled.transform(pictures(_scan()))])
    with torch.no_grad():
        told = assembled.model(row_each(assembled, [layout], [0]), assembled.model.encode(shown)).logprobs_T.tolist()
    assert _read(assembled, ref) == pytest.approx(told, abs=1e-5)


def test_the_two_ways_differ_in_what_is_seen(ref: MediaRef) -> None:
    slices, video = (
        _read(_assembled("nano_llava_video", volumes_as=w, video_frames=4), ref) for w in ("slices", "video")
    )
    assert max(abs(a - b) for a, b in zip(slices, video, strict=True)) > 1e-2
    assert (SLICES.at_most, VIDEO.at_most) == (85, 150)


def test_without_a_way_volumes_are_refused(ref: MediaRef) -> None:
    assembled = twin("nano_gemma3")
    assert "volume" not in assembled.transform.kinds
    with pytest.raises(ValueError, match="the model reads images, not volumes"):
        read_item(ref, assembled.transform)


def test_more_slices_than_the_context_holds_are_refused_with_what_to_lower(ref: MediaRef) -> None:
    assembled = _assembled("nano_llava", volumes_as="video", video_frames=90)
    with pytest.raises(ValueError, match=r"image's and \d+ the answer's. Lower model.video_frames"):
        assembled.family.layout(QUESTION * 300, ANSWER, shapes=[assembled.transform.shape(ref)])


def test_a_family_without_videos_says_so() -> None:
    with pytest.raises(ValueError, match=r"model\.volumes_as is set, but mllama takes no videos"):
        zoo_entry("nano_mllama").assemble(0, Loading(volumes_as="slices"))


def test_models_that_read_volumes_themselves_take_no_way() -> None:
    with pytest.raises(ValueError, match=r"does not take model\.volumes_as"):
        assemble_model("nano_m3d_llama2", 0, Loading(volumes_as="slices"))


def test_images_and_videos_are_read_as_ever() -> None:

    plain, with_volumes = twin("nano_gemma3"), _assembled("nano_gemma3", volumes_as="slices")
    shown = [each.transform(picture())["pixel_values"] for each in (plain, with_volumes)]
    assert torch.equal(*shown)
    assert plain.transform.sampling == with_volumes.transform.sampling


@pytest.mark.parametrize(("name", "way"), [("nano_gemma3", "slices"), ("nano_llava_video", "video")])
def test_a_real_ct_is_asked_about(name: str, way: Any, shared_real: Path) -> None:
    question = Question("q", "ct", QUESTION, ("yes", "no"), "no", "choice", "p")
    ref = MediaRef(shared_real / "ct_trunk" / "ct.nii.gz", kind="volume")
    asked: list[Request] = [
        Request(question, Prompt(QUESTION, ("yes", "no"), "no"), reading) for reading in ("likelihood", "generation")
    ]
    answerer = cpu_answerer(_assembled(name, volumes_as=way, video_frames=24), batch_tokens=8192, max_new_tokens=3)
    read, said = answerer.answer(MediaGroup("ct", (ref,), (question,)), asked)
    by_reading = {each.key.reading: each for each in (read, said)}
    assert len(by_reading["likelihood"].option_logprobs or ()) == 2
    assert by_reading["generation"].text is not None
