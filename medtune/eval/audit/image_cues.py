"""Answers questions from single cues of an image: the place and size of its red box, or its grey values alone.

A benchmark whose questions can be answered so asks for less than it seems to: where a box stands says which organ it
probably marks, and how bright an image is says which scanner made it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.grouping import grouped
from medtune.data.media.images import image_size
from medtune.data.media.load import preview
from medtune.data.types import Box, MediaGroup, MediaRef, Question
from medtune.eval.audit.audited_phase import is_choice
from medtune.eval.audit.probes import Features, Probe, drawn, regression_answers, thumbnail, thumbnails

NUM_GREY_BINS = 32
_BIN_OF_GREY = np.minimum(np.arange(256) * NUM_GREY_BINS // 255, NUM_GREY_BINS - 1)
MAX_IMAGES = 5000
"""The largest number of images that are read for a probe. This many take some seconds on one core."""
MAX_FILMS_AND_VOLUMES = 300
"""The same for videos and volumes, which take many times longer to read."""


def most_read(groups: Sequence[MediaGroup], *, images: int) -> int:
    """Returns how many groups a probe reads at most: `images`, and fewer where some show films or volumes."""
    is_image = all(ref.kind == "image" for group in groups for ref in group.media)
    return images if is_image else min(images, MAX_FILMS_AND_VOLUMES)


def split_probes(train: Sequence[MediaGroup], groups: Sequence[MediaGroup]) -> list[Probe]:
    """Returns the probes of a split, which learn from the train split; of very many media items some are drawn.

    The probes answer the questions of `groups` that have options, in their order.
    """
    known, asked = (
        [question for group in part for question in group.questions if is_choice(question)] for part in (train, groups)
    )
    most = most_read([*train, *groups], images=MAX_IMAGES)
    read = [
        drawn([group for group in part if any(map(is_choice, group.questions))], at_most=most, seed=0)
        for part in (train, groups)
    ]
    return cue_probes(known, read[0], asked, read[1])


def cue_probes(
    train: Sequence[Question],
    train_groups: Sequence[MediaGroup],
    questions: Sequence[Question],
    groups: Sequence[MediaGroup],
    greys: tuple[Features, Features] | None = None,
) -> list[Probe]:
    """Returns the probes "red_box" and "grey_histogram"; one without questions to learn from or answer is left out.

    Args:
        greys: The histograms of both groups; None reads them.
    """
    known, asked = greys or (grey_histograms(train_groups), grey_histograms(groups))
    boxes = _probe(
        "red_box",
        "logistic regression on the red box's place and size",
        "centre, width and height of the box as shares of the image, with their squares and products",
        (train, box_places(train_groups), questions, box_places(groups)),
    )
    histograms = _probe(
        "grey_histogram",
        "logistic regression on the histogram of grey values",
        f"{NUM_GREY_BINS} shares of grey values, their mean and deviation, without any place",
        (train, known, questions, asked),
    )
    return [probe for probe in (boxes, histograms) if probe]


def box_places(groups: Sequence[MediaGroup]) -> dict[str, NDArray[np.float32]]:
    """Returns for each image with red boxes where the largest one lies, and how many there are.

    Where several images are shown together, the first that has boxes counts. The numbers are the centre, the width and
    the height as shares of the image, their squares and products, and the number of boxes. Only the head of each file
    is read.
    """
    from sklearn.preprocessing import PolynomialFeatures

    first = ((group, next((ref for ref in group.media if ref.kind == "image" and ref.boxes), None)) for group in groups)
    boxed = [(group.media_id, ref) for group, ref in first if ref is not None]
    if not boxed:
        return {}
    places = PolynomialFeatures(2, include_bias=False).fit_transform([_place(ref) for _, ref in boxed])
    counts = [[len(ref.boxes)] for _, ref in boxed]
    found = np.hstack([places, counts]).astype(np.float32)
    return {media_id: row for (media_id, _), row in zip(boxed, found, strict=True)}


def grey_histograms(groups: Sequence[MediaGroup]) -> dict[str, NDArray[np.float32]]:
    """Returns for each media id the histogram of its grey values without boxes, and their mean and deviation, 0 to 1.

    Of a video four frames count, and of a volume three slices. Questions without media have no histogram.
    """
    bare = {g.media_id: tuple(replace(ref, boxes=()) for ref in g.media) for g in groups if g.media}
    seen = {media: _histogram(preview(media).pixels_HWC) for media in dict.fromkeys(bare.values())}
    return {media_id: seen[media] for media_id, media in bare.items()}


def thumbnails_and_greys(groups: Sequence[MediaGroup]) -> tuple[Features, Features]:
    """Returns the thumbnails and the histograms of all groups; media without red boxes are read once for both."""
    boxed = [group for group in groups if any(ref.boxes for ref in group.media)]
    small, greys = thumbnails(boxed), grey_histograms(boxed)
    seen: dict[tuple[MediaRef, ...], tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
    for group in groups:
        media = tuple(group.media)
        if not media or any(ref.boxes for ref in media):
            continue
        if media not in seen:
            pixels_HWC = preview(media).pixels_HWC
            seen[media] = thumbnail(pixels_HWC), _histogram(pixels_HWC)
        small[group.media_id], greys[group.media_id] = seen[media]
    return small, greys


def _histogram(pixels_HWC: NDArray[np.uint8]) -> NDArray[np.float32]:
    picture = PIL.Image.fromarray(pixels_HWC).convert("L")
    grey = np.asarray(picture, dtype=np.float64) / 255
    counts = np.bincount(_BIN_OF_GREY, weights=picture.histogram(), minlength=NUM_GREY_BINS)
    return np.array([*(counts / grey.size), grey.mean(), grey.std()], dtype=np.float32)


def _place(media: MediaRef) -> list[float]:
    width, height = image_size(media.path)
    box = max(media.boxes, key=_area)
    return [
        (box.x0 + box.x1) / (2 * width),
        (box.y0 + box.y1) / (2 * height),
        (box.x1 - box.x0) / width,
        (box.y1 - box.y0) / height,
    ]


def _area(box: Box) -> int:
    return (box.x1 - box.x0) * (box.y1 - box.y0)


def _probe(
    name: str, title: str, what: str, given: tuple[Sequence[Question], Features, Sequence[Question], Features]
) -> Probe | None:
    train, train_features, questions, features = given
    numbers = tuple(number for number, question in enumerate(questions) if question.media_id in features)
    asked = [questions[number] for number in numbers]
    if not asked or not any(question.media_id in train_features for question in train):
        return None
    answers = regression_answers(train, train_features, asked, features)
    note = f"{what}; one per question set, learnt from {len(train_features)} train images; {_by_task(asked, answers)}"
    if len(asked) < len(questions):
        note += f"; {len(asked)} of {len(questions)} questions"
    return Probe(name, title, answers, note, numbers)


def _by_task(questions: Sequence[Question], answers: Sequence[str | None]) -> str:
    said = []
    tasks = grouped(zip(questions, answers, strict=True), lambda pair: pair[0].facets.get("task", "all"))
    for task, pairs in tasks.items():
        right = np.mean([answer == question.answer for question, answer in pairs])
        chance = np.mean([1 / len(question.options) for question, _ in pairs])
        said.append(f"{task} {right:.2f} (guessing {chance:.2f})")
    return ", ".join(said)
