"""Changes of training images, and what they must not be applied to."""

from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.augment import (
    ALL_CHANGES,
    CHANGES,
    Change,
    augment_media,
    changes_allowed_by_all,
    group_by_allowed_changes,
)
from medtune.data.media.images import RED, draw_box
from medtune.data.types import Box, Image, MediaGroup, MediaRef, Question, Video


def _asked(text: str, *options: str, answer: str = "", kind: str = "choice") -> Question:
    return Question("q", "m", text, options, answer or options[0], kind, "p")  # type: ignore[arg-type]


def _allowed(*questions: Question) -> set[str]:
    return set(changes_allowed_by_all(questions, lambda question: ALL_CHANGES))


@pytest.mark.parametrize(
    ("question", "forbidden"),
    [
        (_asked("What is shown?", "benign", "normal"), set()),
        (_asked("Which carotid?", "left carotid", "right carotid"), {"mirror"}),
        (_asked("Which knee view?", "medial longitudinal", "lateral longitudinal"), {"mirror"}),
        (_asked("How does the fetus lie?", "hdvb", "huvf"), {"mirror"}),
        (_asked("How does the fetus lie?", "head down, back near", "head up, back near"), {"mirror"}),
        (_asked("Which side is nearer to the probe?", "back", "front"), {"mirror"}),
        (_asked("Where is the lesion?", "upper left", "center"), {"mirror", "move"}),
        (_asked("How long is it?", answer="12", kind="number"), {"move"}),
        (_asked("Describe the image.", answer="A nodule in the right lobe.", kind="text"), {"mirror"}),
        (_asked("How long is the lesion?", "1.2 cm", "14 mm"), {"move"}),
        (_asked("Which slice is it?", answer="174", kind="number"), {"move"}),
        (_asked("What is the mean HU of the pancreas?", "33", "54"), {"grey"}),
        (_asked("Is the lesion hypoattenuating?", "Yes", "No"), {"grey"}),
        (_asked("What is it like?", "isodense", "enhancing"), {"grey"}),
        (_asked("Which phase?", "arterial", "venous"), {"grey"}),
    ],
)
def test_words_forbid_what_would_make_the_answer_wrong(question: Question, forbidden: set[str]) -> None:
    assert _allowed(question) == set(CHANGES) - forbidden


def test_all_questions_about_an_image_have_to_agree() -> None:
    assert _allowed(_asked("What is shown?", "benign", "normal"), _asked("Where?", "upper left", "center")) == {"grey"}
    assert not changes_allowed_by_all([_asked("What?", "a", "b")], lambda question: frozenset())


def test_questions_of_an_image_are_parted_by_what_they_allow_so_that_no_change_tells_an_answer() -> None:
    exists, where = _asked("Is there a lesion?", "Yes", "No"), _asked("Where is it?", "upper part", "tail")
    ill, healthy = (MediaGroup("m", (MediaRef(Path("m.png")),), asked) for asked in ((exists, where), (exists,)))
    for group in (ill, healthy):
        (part,) = [
            each
            for each in group_by_allowed_changes(group, ["move"], lambda question: ALL_CHANGES)
            if exists in each.questions
        ]
        assert part.questions == (exists,)
        assert changes_allowed_by_all(part.questions, lambda question: ALL_CHANGES) == ALL_CHANGES
    assert group_by_allowed_changes(ill, ["grey"], lambda question: ALL_CHANGES) == [ill]


def _picture() -> Image:
    return Image(np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8))


def _many(changes: set[Change], picture: Image) -> list[Image]:
    found = [augment_media(picture, changes, rng=np.random.default_rng([7, place])) for place in range(40)]
    assert all(isinstance(one, Image) and one.pixels_HWC.shape == picture.pixels_HWC.shape for one in found)
    return [one for one in found if isinstance(one, Image)]


def test_mirror_is_a_mirror_half_of_the_time() -> None:
    picture = _picture()
    mirrored = [one for one in _many({"mirror"}, picture) if not np.array_equal(one.pixels_HWC, picture.pixels_HWC)]
    assert 10 <= len(mirrored) <= 30
    assert all(np.array_equal(one.pixels_HWC[:, ::-1], picture.pixels_HWC) for one in mirrored)


def test_grey_keeps_the_order_of_grey_values_and_a_red_box_red() -> None:
    picture = _picture()
    draw_box(picture.pixels_HWC, Box(5, 5, 20, 20))
    is_red_HW = (picture.pixels_HWC == RED).all(axis=2)
    values = np.argsort(picture.pixels_HWC, axis=None)
    changed_values = set()
    for one in _many({"grey"}, picture):
        assert (one.pixels_HWC[is_red_HW] == RED).all()
        assert (np.diff(one.pixels_HWC.reshape(-1)[values].astype(int)) >= 0).all()
        changed_values.add(int(one.pixels_HWC[0, 0, 0]))
    assert len(changed_values) > 5


def test_move_shifts_and_scales_within_its_limits() -> None:
    pixels_HWC = np.zeros((200, 200, 3), np.uint8)
    pixels_HWC[90:110, 90:110] = 255
    for one in _many({"move"}, Image(pixels_HWC)):
        rows, columns = np.nonzero(one.pixels_HWC[:, :, 0] > 127)
        assert abs(rows.mean() - 99.5) <= 11
        assert abs(columns.mean() - 99.5) <= 11
        assert 17 <= np.ptp(columns) + 1 <= 23


def test_frames_of_a_film_change_alike() -> None:
    frame_HWC = _picture().pixels_HWC
    video = Video(np.stack([frame_HWC, frame_HWC]), (0.0, 0.1))
    film = augment_media(video, set(CHANGES), rng=np.random.default_rng(1))
    assert isinstance(film, Video)
    assert np.array_equal(film.frames_THWC[0], film.frames_THWC[1])
    assert film.times_s == video.times_s


def test_one_change_more_does_not_alter_the_others() -> None:
    picture, both, alone = _picture(), {"grey", "mirror"}, {"mirror"}
    for place in range(20):
        rngs = [np.random.default_rng(place) for _ in range(2)]
        one, other = augment_media(picture, both, rng=rngs[0]), augment_media(picture, alone, rng=rngs[1])  # type: ignore[arg-type]
        assert isinstance(one, Image)
        assert isinstance(other, Image)
        table = {int(a): int(b) for a, b in zip(other.pixels_HWC.flat, one.pixels_HWC.flat, strict=True)}
        assert all(table[int(a)] == int(b) for a, b in zip(other.pixels_HWC.flat, one.pixels_HWC.flat, strict=True))
