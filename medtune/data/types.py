"""Defines the types that all rooms share: questions, media, requests, predictions and scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

AnswerKind = Literal["choice", "yes_no", "number", "text", "rubric", "set"]
Split = Literal["train", "val", "test"]
Provenance = Literal["released", "own", "reconstruction", "synthetic"]
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
OF_OPTIONS: tuple[Condition, ...] = ("permuted_options", "stated_answer")
"""The conditions under which only questions with options can be asked."""
AnswerFormat = Literal["text", "letter", "text_letter"]
MediaKind = Literal["image", "video", "volume"]
VolumesAs = Literal["slices", "video", "slice"]

UnofficialSplit = Literal["patient"]

SPLITS: tuple[Split, ...] = ("train", "val", "test")
FOLD = "cross_validation_fold"
"""The facet of the questions of a whole cross-validation that says in which fold each was asked."""

MEDIA_MARK = "\ufffc"
"""The mark in a question's text in whose place the next media item is shown (U+FFFC, the object replacement character).

Without marks, all items are shown in front of the first turn. `medtune.data.readable` words such a text for a reader.
"""


REJECTED = "rejected"
"""The name in `Question.printed` of a worse reply than the true answer, which a table brought."""


class Box(NamedTuple):
    """A rectangle in pixels of the stored image: x grows to the right, y down, and `x1` and `y1` lie outside of it."""

    x0: int
    y0: int
    x1: int
    y1: int


@dataclass(frozen=True, slots=True)
class MediaRef:
    """A media item on disk, the part of it that is shown, and the boxes that are drawn on it.

    Attributes:
        path: For an image a PNG, JPEG, TIFF or single-frame DICOM file; for a video a file that ffmpeg reads or a cine
            DICOM; for a volume a NIfTI file or a folder with one DICOM series.
        boxes: Red rectangles to draw, in pixels of the stored image.
        kind: Whether it is an image, a video or a volume.
        start_s: The second at which the shown part of a video begins; None for the video's beginning.
        end_s: The second at which the shown part of a video ends; None for the video's end.
        region: The part of every frame of a video that is shown, in stored pixels; None for the whole frame.
        masks: Pairs of an organ and its mask file on the volume's grid, sorted by organ.
        target: Those of `masks` that make up the organs which the questions are about, for models that look at these
            alone; empty for models that see the whole volume.
        crop_mm: The margin around `target` to which the volume is cropped as it is read; None reads all of it.
        shuffled_by: The seed of another order for the frames of a video, whose times stay the same; None leaves the
            frames in their own order.
        frames_per_s: The frames a second of a cine DICOM that does not say its own; None where it does.
        encoding: A file with what CT-CHAT's tower computed from the whole volume, saved as in its release; None where
            there is no such file.
    """

    path: Path
    boxes: tuple[Box, ...] = ()
    kind: MediaKind = "image"
    start_s: float | None = None
    end_s: float | None = None
    region: Box | None = None
    masks: tuple[tuple[str, Path], ...] = ()
    target: tuple[str, ...] = ()
    crop_mm: float | None = None
    shuffled_by: int | None = None
    frames_per_s: float | None = None
    encoding: Path | None = None


class Size(NamedTuple):
    """Width and height of an image in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Sampling:
    """A rule that chooses frames of a video clip."""

    # The highest number of frames. If more would be chosen, this number is spread evenly in time, first and last frame
    # included; a clip with fewer frames gives all of them.
    at_most: int
    # The number of frames a second, beginning with the first frame; None spreads `at_most` frames over the clip however
    # long it is.
    per_s: float | None = None

    def __post_init__(self) -> None:
        if self.at_most < 1 or (self.per_s is not None and self.per_s <= 0):
            raise ValueError(
                f"frames are sampled {self.at_most} at most and {self.per_s} a second; both must be above 0"
            )


class Frames(NamedTuple):
    """The size of a video's frames in pixels, and the second at which each frame is shown."""

    size: Size
    times_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """A decoded image.

    Attributes:
        pixels_HWC: RGB, uint8, (height, width, 3).
    """

    pixels_HWC: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Video:
    """The decoded frames of a video or of a part of it.

    Attributes:
        frames_THWC: The frames, RGB, uint8, (frames, height, width, 3).
        times_s: The second at which each frame is shown, counted from the start of the file.
    """

    frames_THWC: NDArray[np.uint8]
    times_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Volume:
    """A CT volume on its own grid.

    Attributes:
        hu_IJK: Hounsfield units; int16 where the file holds whole numbers of that range, else float32.
        spacing_mm: The distance of neighbouring voxels along i, j and k.
        orientation: The directions in which i, j and k grow, one letter each: "LPS" means to the patient's left, to the
            back and to the head. R and L, A and P, S and I are opposite; a tilted axis has the letter of the nearest
            direction.
        masks_IJK: A mask on the same grid for each organ that was asked for.
        target: The names of the masks that a model should look at; empty leaves the choice to the model.
    """

    hu_IJK: NDArray[np.int16] | NDArray[np.float32]
    spacing_mm: tuple[float, float, float]
    orientation: str
    masks_IJK: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    target: tuple[str, ...] = ()


Media = Image | Video | Volume
"""A decoded media item."""

_Kind = TypeVar("_Kind", Image, Video, Volume)


def require_kind(media: Media, kind: type[_Kind]) -> _Kind:
    """Returns the media item after checking that it is of the kind that the model reads.

    >>> require_kind(Volume(np.zeros((1, 1, 1), np.int16), (1.0, 1.0, 1.0), "LPS"), Image)
    Traceback (most recent call last):
    ValueError: the model reads images, not volumes; choose another model.name
    """
    if not isinstance(media, kind):
        reads, got = kind.__name__.lower(), type(media).__name__.lower()
        raise ValueError(f"the model reads {reads}s, not {got}s; choose another model.name")
    return media


class Turn(NamedTuple):
    """An earlier turn of a conversation: what was asked and the true answer."""

    asked: str
    answer: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question about the media items that are shown together, or about none, without any prompt.

    Attributes:
        id: The question's id, unique in the benchmark.
        media_id: The id of the media items that are shown, with their drawn boxes; questions that share it form one
            group.
        text: The question itself. Where it or an earlier turn holds `MEDIA_MARK`, each mark is the place of one item.
        options: The answers to choose from, in the order that is shown, which most sources shuffle; empty for free
            text.
        answer: The true answer; one of `options` where there are options.
        answer_kind: The form of the answer.
        patient_id: The patient, which is the unit of splitting and of intervals; a keyed hash in prepared folders.
        facets: The properties by which scores are broken down, e.g. {"task": "diagnosis"}.
        unit: The unit of a number, e.g. "mm"; None for other kinds of answers.
        split: The split; None until splits are assigned.
        printed: Further texts of the row by name: those that official prompts print verbatim, a number's "tolerance",
            the worse reply of a pair ("rejected"), and what belongs to labels.
        turns: The turns of the conversation before this question, in their order; empty for a question by itself.
        language: The language of what a prompt adds to the question, by the codes of `medtune.data.languages`.
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
    turns: tuple[Turn, ...] = ()
    language: str = "en"

    def __reduce__(self) -> tuple[type["Question"], tuple[object, ...]]:
        """Returns what pickle keeps; by itself it would take three times as long."""
        return Question, _fields(self)


_fields = attrgetter(*Question.__match_args__)


@dataclass(frozen=True, slots=True)
class MediaGroup:
    """The media items that are shown together and all questions about them: the unit of work everywhere.

    Attributes:
        media_id: The id of the items together.
        media: The items in the order in which they are shown; empty for questions without media.
        questions: The questions.
    """

    media_id: str
    media: tuple[MediaRef, ...]
    questions: tuple[Question, ...]

    @property
    def patient_id(self) -> str:
        """The patient that all questions of the group are about."""
        return self.questions[0].patient_id


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question in the words in which a benchmark asks a model.

    Attributes:
        text: The whole prompt.
        choices: The reply that stands for each of the question's options, in the order of the options.
        target: The reply that the model should give.
        system: The beginning of `text` that belongs into a system turn, where the model is given one; "" for none.
        pictures_gap: The part of the user's turn for which the number of pictures that are sent with it is put in; ""
            for none. Only prompts for media that are sent as pictures have one.
    """

    text: str
    choices: tuple[str, ...]
    target: str
    system: str = ""
    pictures_gap: str = ""

    @property
    def user(self) -> str:
        """The rest of `text`, which belongs into the user turn after a system turn."""
        return self.text.removeprefix(self.system).lstrip() if self.system else self.text


class PredictionKey(NamedTuple):
    """The key of a prediction, unique in a file."""

    question_id: str
    condition: Condition
    reading: Reading
    repeat: int


@dataclass(frozen=True, slots=True)
class Request:
    """One question that a model is asked in one way.

    Attributes:
        question: The question; under the condition "permuted_options" its options stand in another order.
        prompt: The words in which it is asked.
        reading: Whether the likelihood of each option is read off the model, or a reply is generated.
        condition: What the model is shown and told. "other_image" shows another patient's image, "blank_image" shows a
            black one, and "shuffled_frames" shows a video's frames in another order. "with_anatomy" says in words which
            organ the image shows, "without_anatomy" leaves the organ out of official prompts that name it, and
            "stated_answer" says the right answer in words.
        repeat: 0, 1, ... where one request is made several times. All answers with one number are a pass.
    """

    question: Question
    prompt: Prompt
    reading: Reading
    condition: Condition = "image"
    repeat: int = 0

    @property
    def key(self) -> PredictionKey:
        """The key that its prediction must carry."""
        return PredictionKey(self.question.id, self.condition, self.reading, self.repeat)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A model's answer to one request, unparsed.

    Attributes:
        key: The key of the request.
        prompt_hash: A hash of the prompt's text, its choices and the turns before it, under "other_image" also of the
            media's id, which tells whether two files asked the same.
        options_shown: The question's options in the order that the prompt showed.
        text: The generated reply; None for a likelihood reading.
        option_logprobs: The natural log-probability of each shown option in the form in which the prompt asks for it
            (`Prompt.choices`: its words, its letter or both), with the end of turn.
        option_tokens: The number of tokens that each log-probability sums over.
        finish_reason: "stop" (end of turn), "length" (token limit) or None where it is not known.
        verdict: The unparsed verdict of a judge on the reply, where a benchmark shows verdicts beside its scores; it is
            never written to a file of predictions.
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
    """A free answer that a language model is asked to judge.

    Attributes:
        key: The key of the prediction that is judged.
        system: The instructions for judging.
        user: The question, the reference answer and the reply that is judged.
        schema: The JSON schema of the verdict.
    """

    key: PredictionKey
    system: str
    user: str
    schema: Mapping[str, object]


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float

    def text(self, *, signed: bool = False) -> str:
        """Returns the interval as text, with three decimals.

        >>> Interval(-0.25, 0.5).text(signed=True)
        '-0.250 to +0.500'
        """
        sign = "+" if signed else ""
        return f"{self.low:{sign}.3f} to {self.high:{sign}.3f}"
