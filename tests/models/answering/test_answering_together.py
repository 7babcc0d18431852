"""Compares groups and readings that are answered in one forward pass with each of them alone, for every family."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.data.media.masks import TARGETS
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.types import MediaGroup, MediaKind, MediaRef, Prediction, PredictionKey, Prompt, Question, Request
from medtune.eval.asking.conditions import READINGS
from medtune.models.answering import ShownRequests
from medtune.models.contract import Assembled
from medtune.models.media_reader import MediaReader
from tests.data.media.videos.synthetic_videos import mp4
from tests.models.twins import EVERY_TWIN, OF_IMAGES, OF_VOLUMES, cpu_answerer, fresh

SLOW = ("nano_radfm", "nano_nn_radfm")
"""A whole scan and one that is cropped around organs."""
SOAK = set(OF_VOLUMES) - {"nano_m3d_phi3", "nano_pocket_ct", *SLOW}
"""The other models that look at large volumes, which are not soon prepared."""


def _marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in SOAK:
        return (pytest.mark.soak,)
    return (pytest.mark.slow,) if name in SLOW else ()


EVERY = [pytest.param(name, marks=_marks(name)) for name in EVERY_TWIN]
OPTIONS = ("normal", "benign lesion", "malignant lesion")
NEW_TOKENS = 3
NUM_GROUPS = 4


def _media(folder: Path, number: int, kind: MediaKind) -> MediaRef:
    rng = np.random.default_rng(number)
    if kind == "volume":
        path, affine = folder / f"{number}.nii.gz", np.diag([8.0, 8.0, 8.0, 1.0])
        write_nifti(path, rng.integers(-200, 300, (24, 24, 16)).astype(np.int16), affine)
        organs_IJK = np.zeros((24, 24, 16), np.uint8)
        organs_IJK[4:9, 6:20, 3:12] = 1
        write_nifti(folder / "organs.nii.gz", organs_IJK, affine)
        return MediaRef(path, kind=kind, masks=tuple((organ, folder / "organs.nii.gz") for organ in TARGETS))
    if kind == "video":
        return MediaRef(mp4(folder / f"{number}.mp4", [n / (10 + number) for n in range(6)]), kind=kind)
    path = folder / f"{number}.png"
    noise_HWC = rng.integers(0, 255, (40 + 30 * number, 50 + 7 * number, 3), dtype=np.uint8)
    PIL.Image.fromarray(noise_HWC).save(path)
    return MediaRef(path)


def four_visits(folder: Path, *, kind: MediaKind = "image") -> list[ShownRequests]:
    found: list[ShownRequests] = []
    for number in range(NUM_GROUPS):
        asked = f"Is it {'very ' * number}odd?"
        question = Question(f"q{number}", str(number), asked, OPTIONS, "normal", "choice", str(number))
        prompt = Prompt(asked, OPTIONS, "normal")
        requests = tuple(
            Request(question, prompt, reading, condition)
            for condition in ("image", "text_only")
            for reading in READINGS
        )
        found.append((MediaGroup(str(number), (_media(folder, number, kind),), (question,)), requests))
    return found


def answers(
    assembled: Assembled,
    visits: Sequence[ShownRequests],
    *,
    batch_size: int = 1,
    batch_tokens: int = 100_000,
    workers: int = 0,
) -> dict[PredictionKey, Prediction]:
    with MediaReader(assembled.transform, workers=workers) as reader:
        answerer = cpu_answerer(
            assembled, batch_tokens=batch_tokens, batch_size=batch_size, max_new_tokens=NEW_TOKENS, reader=reader
        )
        answerer.expect(visits)
        return {told.key: told for group, requests in visits for told in answerer.answer(group, requests)}


@pytest.mark.parametrize("name", EVERY)
def test_groups_and_readings_answered_together_are_answered_as_if_alone(name: str, tmp_path: Path) -> None:
    assembled = fresh(name)
    assembled.model.eval()
    kind: MediaKind = "volume" if name in OF_VOLUMES else "image" if name in OF_IMAGES else "video"
    visits = four_visits(tmp_path, kind=kind)
    alone: dict[PredictionKey, Prediction] = {}
    for reading in READINGS:
        alone |= answers(
            assembled, [(group, [one for one in every if one.reading == reading]) for group, every in visits]
        )
    together = answers(assembled, visits, batch_size=NUM_GROUPS)
    assert alone.keys() == together.keys()
    assert len(alone) == 4 * NUM_GROUPS
    for key, one in alone.items():
        assert one.text == together[key].text
        if one.option_logprobs:
            assert one.option_logprobs == pytest.approx(together[key].option_logprobs, abs=1e-4)


def _passes(
    assembled: Assembled, visits: Sequence[ShownRequests], monkeypatch: pytest.MonkeyPatch, **how: int
) -> list[int]:
    """Returns the number of media items in each call of the tower."""
    encode, taken = type(assembled.model).encode, []

    def counted(self, media):  # type: ignore[no-untyped-def]
        taken.append(len(media))
        return encode(self, media)

    with monkeypatch.context() as patch:
        patch.setattr(type(assembled.model), "encode", counted)
        answers(assembled, visits, **how)
    return taken


def test_as_many_groups_go_together_as_both_limits_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assembled = fresh("nano_pocket")
    assembled.model.eval()
    visits = four_visits(tmp_path)
    assert _passes(assembled, visits, monkeypatch, batch_size=1) == [1, 1, 1, 1]
    assert _passes(assembled, visits, monkeypatch, batch_size=3) == [3, 1]
    assert _passes(assembled, visits, monkeypatch, batch_size=8, batch_tokens=1) == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["nano_qwen25vl", "nano_pocket_video", "nano_pocket_ct"])
def test_media_that_are_read_ahead_are_answered_alike_in_the_same_order(name: str, tmp_path: Path) -> None:
    assembled = fresh(name)
    assembled.model.eval()
    kind: MediaKind = "volume" if name in OF_VOLUMES else "image" if name in OF_IMAGES else "video"
    visits = four_visits(tmp_path, kind=kind)
    # Media that no request shows are never read, and the passes end in the middle of what was announced.
    group, requests = visits[1]
    visits[1] = (group, [request for request in requests if request.condition == "text_only"])
    for limits in ({"batch_size": 2}, {"batch_size": 4, "batch_tokens": 1}):
        alone, ahead = (answers(assembled, visits, **limits, workers=workers) for workers in (0, 2))
        assert list(alone.items()) == list(ahead.items())


def test_a_group_that_was_not_announced_is_answered_alone(tmp_path: Path) -> None:
    assembled = fresh("nano_pocket")
    assembled.model.eval()
    first, second, *_ = four_visits(tmp_path)
    answerer = cpu_answerer(assembled, batch_size=8, max_new_tokens=NEW_TOKENS)
    answerer.expect([second])
    assert [told.key.question_id for told in answerer.answer(*first)] == ["q0"] * 4
    assert [told.key.question_id for told in answerer.answer(*second)] == ["q1"] * 4
