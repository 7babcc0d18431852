"""The nouns of medtune: questions, media, requests, predictions and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

AnswerKind = Literal["choice", "yes_no", "number", "text", "rubric"]
Split = Literal["train", "val", "test"]
Provenance = Literal["released", "reconstruction", "synthetic"]
Reading = Literal["likelihood", "generation"]
Condition = Literal["image", "text_only", "other_image", "with_anatomy", "blank_image", "permuted_options"]
AnswerFormat = Literal["text", "letter"]

SPLITS: tuple[Split, ...] = ("train", "val", "test")


class Box(NamedTuple):
    """A rectangle in pixels of the image as stored: x to the right, y down, `x1` and `y1` outside."""

    x0: int
    y0: int
    x1: int
    y1: int


@dataclass(frozen=True, slots=True)
class MediaRef:
    """An image on disk and what is drawn on it before anyone looks.

    Attributes:
        path: PNG, JPEG, TIFF or single-frame DICOM.
        boxes: Red rectangles to draw, in pixels of the stored image.
    """

    path: Path
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """A decoded image.

    Attributes:
        pixels_HWC: RGB, uint8, (height, width, 3).
    """

    pixels_HWC: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one media item, without any prompt.

    Attributes:
        id: Unique in the benchmark.
        media_id: Names the media item, drawn boxes included; questions that share it are one group.
        text: The question itself.
        options: What may be answered, in the shuffled order that is shown; empty for free text.
        answer: The truth; one of `options` where there are options.
        unit: Unit of a number, e.g. "mm"; None elsewhere.
        facets: What scores are broken down by, e.g. {"task": "diagnosis"}.
        patient_id: Unit of splitting and of resampling; a keyed hash once prepared.
        split: None until splits are assigned.
    """

    id: str
    media_id: str
    text: str
    options: tuple[str, ...]
    answer: str
    answer_kind: AnswerKind
    patient_id: str
    facets: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class MediaGroup:
    """One media item and all its questions: the unit of work everywhere."""

    media_id: str
    media: MediaRef
    questions: tuple[Question, ...]

    @property
    def patient_id(self) -> str:
        """The patient whom all questions of the group are about."""
        return self.questions[0].patient_id


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question as a benchmark words it for a model.

    Attributes:
        text: What the user turn says.
        choices: What the model would say for each of the question's options, in their order.
        target: What the model should say.
    """

    text: str
    choices: tuple[str, ...]
    target: str


@dataclass(frozen=True, slots=True)
class Request:
    """One question to be answered in one way.

    Attributes:
        question: Under "permuted_options" its options stand in another order.
        condition: What the model sees; "other_image" shows another patient's image, "blank_image" a black one,
            "with_anatomy" says in words which organ the image shows.
        repeat: 0, 1, ... where one request is made several times.
    """

    question: Question
    prompt: Prompt
    reading: Reading
    condition: Condition = "image"
    repeat: int = 0


class PredictionKey(NamedTuple):
    """What makes a prediction unique in a file."""

    question_id: str
    condition: Condition
    reading: Reading
    repeat: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """What came out of a model for one request, unparsed.

    Attributes:
        prompt_hash: Hash of the prompt's text, so that two files can be known to have asked the same.
        options_shown: The question's options in the order that the prompt showed.
        text: The reply of a generation; None for a likelihood reading.
        option_logprobs: Natural log-probability of each shown option's words and end of turn.
        option_tokens: How many tokens each of those sums has.
        finish_reason: "stop" (end of turn), "length" (token limit) or None where not known.
    """

    key: PredictionKey
    prompt_hash: str | None = None
    options_shown: tuple[str, ...] = ()
    text: str | None = None
    option_logprobs: tuple[float, ...] | None = None
    option_tokens: tuple[int, ...] | None = None
    finish_reason: str | None = None


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Score:
    """A metric's value with what is needed to judge it.

    Attributes:
        n: Questions behind it; unanswered ones count.
        ci95: 95 % interval from resampled patients; None where there is none (no questions).
        unparsable: Replies from which no answer could be read; they count as wrong.
    """

    value: float
    n: int
    ci95: Interval | None
    unparsable: int = 0
