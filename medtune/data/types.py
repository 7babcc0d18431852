"""The nouns of medtune: questions, media, requests, predictions and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

AnswerKind = Literal["choice", "yes_no", "number", "text", "rubric"]
Split = Literal["train", "val", "test"]
Provenance = Literal["released", "reconstruction", "synthetic"]
Reading = Literal["likelihood", "generation"]
Condition = Literal[
    "image",
    "text_only",
    "other_image",
    "with_anatomy",
    "without_anatomy",
    "blank_image",
    "permuted_options",
    "shuffled_frames",
    "stated_answer",
]
AnswerFormat = Literal["text", "letter", "text_letter"]
MediaKind = Literal["image", "video", "volume"]
VolumesAs = Literal["slices", "video"]

UnofficialSplit = Literal["patient"]

SPLITS: tuple[Split, ...] = ("train", "val", "test")


class Box(NamedTuple):
    """A rectangle in pixels of the image as stored: x to the right, y down, `x1` and `y1` outside."""

    x0: int
    y0: int
    x1: int
    y1: int


@dataclass(frozen=True, slots=True)
class MediaRef:
    """A media item on disk, which part of it is seen, and what is drawn on it before anyone looks.

    Attributes:
        path: An image: PNG, JPEG, TIFF or single-frame DICOM. A video: a file that ffmpeg reads, or a cine DICOM. A
            volume: NIfTI, or a folder with one DICOM series.
        boxes: Red rectangles to draw, in pixels of the stored image.
        start_s: Where the part of a video begins; None for its beginning.
        end_s: Where it ends; None for its end.
        region: Part of every frame of a video, in pixels as stored; None for all of it.
        masks: Organ -> mask file on a volume's grid, sorted by organ.
        target: Those of `masks` that make up the organ which the questions are about, for models that look at it alone;
            none for models that see the whole.
        shuffled_by: Draws another order for the frames of a video, whose times stay; None leaves them in theirs.
        encoding: What CT-CHAT's tower made of the whole volume, saved as its release does; None where there is none.
    """

    path: Path
    boxes: tuple[Box, ...] = ()
    kind: MediaKind = "image"
    start_s: float | None = None
    end_s: float | None = None
    region: Box | None = None
    masks: tuple[tuple[str, Path], ...] = ()
    target: tuple[str, ...] = ()
    shuffled_by: int | None = None
    encoding: Path | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A decoded image.

    Attributes:
        pixels_HWC: RGB, uint8, (height, width, 3).
    """

    pixels_HWC: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Video:
    """Decoded frames of (a part of) a video.

    Attributes:
        frames_THWC: RGB, uint8.
        times_s: When each is shown, counted from the start of the file.
    """

    frames_THWC: NDArray[np.uint8]
    times_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Volume:
    """A CT volume on its own grid.

    Attributes:
        hu_IJK: Hounsfield units; int16 where the file holds whole numbers of that range, else float32.
        spacing_mm: Distance of neighbouring voxels along i, j and k.
        orientation: Where i, j and k point, one letter each: "LPS" grows to the patient's left, to the back and to the
            head. R and L, A and P, S and I are opposite; a tilted axis has the letter of the nearest direction.
        masks_IJK: Organ -> mask on the same grid, for organs that were asked for.
        target: Names of masks to look at; none leaves that to who looks.
    """

    hu_IJK: NDArray[np.int16] | NDArray[np.float32]
    spacing_mm: tuple[float, float, float]
    orientation: str
    masks_IJK: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    target: tuple[str, ...] = ()


Media = Image | Video | Volume
"""A decoded media item."""

_Kind = TypeVar("_Kind", Image, Video, Volume)


def wanted(media: Media, kind: type[_Kind]) -> _Kind:
    """Returns the media item, which must be of that kind.

    Raises:
        ValueError: The model reads another kind of media.

    Example:
        >>> wanted(Volume(np.zeros((1, 1, 1), np.int16), (1.0, 1.0, 1.0), "LPS"), Image)
        Traceback (most recent call last):
        ValueError: the model reads images, not volumes; choose another model.name
    """
    if not isinstance(media, kind):
        reads, got = kind.__name__.lower(), type(media).__name__.lower()
        raise ValueError(f"the model reads {reads}s, not {got}s; choose another model.name")
    return media


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
        printed: What official prompts print of the released row, untouched, by the names of their gaps.
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
    printed: Mapping[str, str] = field(default_factory=dict)


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
        system: The beginning of `text` that belongs into a system turn, where the model is given one; "" for none.
    """

    text: str
    choices: tuple[str, ...]
    target: str
    system: str = ""

    @property
    def user(self) -> str:
        """What is left of `text` for the user turn behind a system turn."""
        return self.text.removeprefix(self.system).lstrip() if self.system else self.text


@dataclass(frozen=True, slots=True)
class Request:
    """One question to be answered in one way.

    Attributes:
        question: Under "permuted_options" its options stand in another order.
        condition: What the model sees; "other_image" shows another patient's image, "blank_image" a black one,
            "with_anatomy" says in words which organ the image shows, "without_anatomy" leaves it out of official
            prompts that do, "shuffled_frames" shows a video's frames in another order, "stated_answer" says the right
            answer in words.
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
        verdict: What a judge said about the reply, unparsed, where verdicts stand beside the scores; no file of
            predictions holds it.
    """

    key: PredictionKey
    prompt_hash: str | None = None
    options_shown: tuple[str, ...] = ()
    text: str | None = None
    option_logprobs: tuple[float, ...] | None = None
    option_tokens: tuple[int, ...] | None = None
    finish_reason: str | None = None
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A free answer to be judged by a language model.

    Attributes:
        key: Of the prediction that is judged.
        system: How to judge.
        user: What is judged: question, reference and reply.
        schema: JSON schema of the verdict.
    """

    key: PredictionKey
    system: str
    user: str
    schema: Mapping[str, object]


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Score:
    """A metric's value with what is needed to judge it.

    Attributes:
        value: NaN where the metric has none on these questions, as where no answer was judged yet.
        n: Questions behind it; unanswered ones count, unscored ones do not.
        ci95: 95 % interval from resampled patients; None where there is none (no questions).
        unparsable: Replies from which no answer could be read; they count as wrong.
        unscored: Free answers that wait for a judge's verdict: neither right nor wrong, and in nothing of the above.
    """

    value: float
    n: int
    ci95: Interval | None
    unparsable: int = 0
    unscored: int = 0
