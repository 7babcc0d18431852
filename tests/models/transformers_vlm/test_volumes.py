"""Tests CTs that models of images and videos are shown as slices, whole or cropped to organs, or refuse."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from medtune.data.media.masks import OF_CONSTRUCTION
from medtune.data.media.volumes.axial_pictures import SLICES, VIDEO, axial_pictures
from medtune.data.media.volumes.formats.nifti import read_nifti_mask, write_nifti
from medtune.data.media.volumes.geometry import affine_of
from medtune.data.media.volumes.read import load_volume, read_volume
from medtune.data.prepared.read import asked_organs, open_prepared
from medtune.data.types import MediaGroup, MediaRef, Prompt, Question, Request, Volume
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.media_reader import read_item
from medtune.models.weights.export import assemble_model
from medtune.models.weights.loading_options import Loading
from medtune.trainer.experiment.for_model import as_seen
from medtune.trainer.recipe.schema import ModelBlock
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
    layout = assembled.template.layout(QUESTION, ANSWER, shapes=[transform.shape(ref)])
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
    layout = assembled.template.layout(QUESTION, ANSWER, shapes=[assembled.transform.shape(ref)])
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
        assembled.template.layout(QUESTION * 300, ANSWER, shapes=[assembled.transform.shape(ref)])


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


MASKS = ("colon", "gall_bladder", "kidney_left", "kidney_right", "liver", "pancreas", "spleen")
KIDNEYS = ("kidney_left", "kidney_right")


@pytest.mark.parametrize(
    ("text", "options", "kind", "facet", "found"),
    [
        ("How many liver lesions are there?", (), "number", "liver", ("liver",)),
        ("Is there hepatic steatosis?", ("yes", "no"), "yes_no", "liver", ("liver",)),
        ("Which kidney is larger?", ("left", "right"), "choice", "left kidney", KIDNEYS),
        ("What is the volume of the left kidney?", (), "number", "kidney", ("kidney_left",)),
        ("Is it right that a kidney holds a lesion?", ("yes", "no"), "yes_no", "kidney", KIDNEYS),
        ("Is the left or the right kidney larger?", ("left", "right"), "choice", "left kidney", KIDNEYS),
        ("How many cysts has the kidney on the right?", (), "number", "kidney", ("kidney_right",)),
        ("Compare the splenic with the pancreatic HU.", (), "number", "spleen", ("pancreas", "spleen")),
        ("Is the gallbladder stretched?", ("yes", "no"), "yes_no", "", ("gall_bladder",)),
        ("Which organ holds most lesions?", ("Liver", "Kidney"), "choice", "kidney", ()),
        ("Which organ holds most lesions?", (), "text", "kidney", ()),
        ("How large is the largest lesion?", (), "number", "kidney", KIDNEYS),
        ("Has he been delivered?", ("yes", "no"), "yes_no", "", ()),
    ],
)
def test_a_question_is_about_the_organs_that_it_names(
    text: str, options: tuple[str, ...], kind: Any, facet: str, found: tuple[str, ...]
) -> None:
    for answer in options or ("kidney", "liver"):
        question = Question("q", "m", text, options, answer, kind, "p", {"organ": facet})
        assert asked_organs(question, MASKS) == found


def test_a_crop_holds_the_organ_whatever_the_lesions_are_and_its_size_is_known_before(prepared_ct: Path) -> None:
    cropped = replace(open_prepared(prepared_ct), by_organ=True, crop_mm=20.0)
    shown = axial_pictures("video", at_most=6)
    for group in cropped.groups("test"):
        (ref,) = group.media
        known, pictures = shown.frames(ref), shown(load_volume(ref))
        assert (len(known.times_s), known.size.height, known.size.width) == pictures.frames_THWC.shape[:3]
        organs = tuple(each for each in ref.masks if not each[0].startswith(OF_CONSTRUCTION))
        assert len(organs) < len(ref.masks)
        alone = shown(load_volume(replace(ref, masks=organs)))
        assert (alone.frames_THWC == pictures.frames_THWC).all()
        whole, volume = read_volume(ref.path), load_volume(ref)
        mask = np.logical_or.reduce([read_nifti_mask(path, whole) for name, path in organs if name in ref.target])
        assert volume.hu_IJK.size < whole.hu_IJK.size
        outside = [np.ptp(found) * mm for found, mm in zip(np.nonzero(mask), whole.spacing_mm, strict=True)]
        lengths = [length * mm for length, mm in zip(volume.hu_IJK.shape, volume.spacing_mm, strict=True)]
        assert all(inner < length <= inner + 48 for inner, length in zip(outside, lengths, strict=True))


def test_scans_without_masks_are_refused_with_what_to_do(prepared_ct: Path) -> None:
    prepared = open_prepared(prepared_ct)
    media = {key: tuple(replace(ref, masks=()) for ref in refs) for key, refs in list(prepared._media.items())[:1]}
    fewer = replace(prepared, _media={**prepared._media, **media})
    model = ModelBlock("nano_qwen3vl", volumes_as="video", crop_organs=("asked",))
    with pytest.raises(ValueError, match=r"1 scans of .* have no mask of colon or .*Prepare the folder again"):
        as_seen(fewer, model)
