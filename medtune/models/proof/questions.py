"""The questions of a proof, from a run's own data or made up, and how medtune lays them out and shows their media."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.data.grouping import grouped
from medtune.data.media.load import Shape, load_media
from medtune.data.types import (
    Frames,
    Image,
    Media,
    MediaGroup,
    MediaRef,
    Prompt,
    Question,
    Reading,
    Request,
    Size,
    Video,
    Volume,
)
from medtune.models.contract import Transform
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.builder import Template
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.models.volumes.volume_parts import VolumeInput

MADE_UP = "random media and made-up questions, drawn from a seed"
_TEXTS = ("Which plane is shown?", "Is a lesion seen?", "What is the organ?", "Describe the finding.")
_ANSWERS = ("abdomen", "no", "the left kidney", "a bright spot near the edge")
_PLANES = ("abdomen", "head", "femur")


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of a proof."""

    question: Question
    media: tuple[MediaRef | Media, ...]  # The files that are shown, or made-up media in memory.
    prompt: Prompt

    @property
    def name(self) -> str:
        """The question in a message: its id."""
        return f"question {self.question.id}"

    @property
    def first(self) -> int | None:
        """The number of the first media item, where its own are encoded by themselves; None where it shows none."""
        return 0 if self.media else None

    @property
    def files(self) -> tuple[MediaRef, ...]:
        """The files that are shown.

        Raises:
            TypeError: The media are made up and lie in no file.
        """
        files = tuple(each for each in self.media if isinstance(each, MediaRef))
        if len(files) != len(self.media):
            raise TypeError(f"{self.name} is about made-up media, which lie in no file")
        return files

    @property
    def replies(self) -> tuple[str, ...]:
        """The replies whose likelihood is read: those of the options, or the right answer where there are none."""
        return self.prompt.choices or (self.prompt.target,)


def laid_out(asked: AskedQuestion, answer: str | None, template: Template, transform: Transform) -> Layout:
    """Returns medtune's own sequence of a question, with an answer or up to the place where it begins."""
    shapes = [_shape(each, transform) for each in asked.media]
    return template.layout(asked.prompt.text, answer, shapes=shapes, turns=asked.question.turns)


def _shape(shown: MediaRef | Media, transform: Transform) -> Shape | None:
    if isinstance(shown, MediaRef):
        return transform.shape(shown)
    if isinstance(shown, Image):
        return Size(shown.pixels_HWC.shape[1], shown.pixels_HWC.shape[0])
    if isinstance(shown, Video):
        return Frames(Size(shown.frames_THWC.shape[2], shown.frames_THWC.shape[1]), shown.times_s)
    return None


def decoded(shown: MediaRef | Media, transform: Transform) -> Media:
    """Returns a decoded media item; a volume that is shown as slices comes as the frames of a video."""
    media = load_media(shown, transform.sampling) if isinstance(shown, MediaRef) else shown
    if isinstance(media, Volume) and isinstance(transform, ProcessorTransform) and transform.volumes is not None:
        return transform.volumes(media)
    return media


def visits(questions: Sequence[AskedQuestion], reading: Reading) -> list[tuple[MediaGroup, list[Request]]]:
    """Returns the questions with their requests, one group for each media item, in the order of the questions."""
    by_media = grouped(questions, lambda asked: asked.question.media_id)
    return [
        (
            MediaGroup(media_id, same[0].files, tuple(each.question for each in same)),
            [Request(each.question, each.prompt, reading) for each in same],
        )
        for media_id, same in by_media.items()
    ]


def open_question(number: int, media: MediaRef | Media, text: str, answer: str) -> AskedQuestion:
    """Returns a question without options about one media item."""
    question = Question(f"q{number}", f"m{number}", text, (), answer, "text", "p")
    return AskedQuestion(question, (media,), Prompt(text, (), answer))


def made_up_questions(transform: Transform, *, count: int, seed: int) -> list[AskedQuestion]:
    """Returns made-up questions about random media of the kind that a model reads."""
    draw = np.random.default_rng(seed)
    return [
        open_question(n, _random_media(transform, draw), _TEXTS[n % len(_TEXTS)], _ANSWERS[n % len(_ANSWERS)])
        for n in range(count)
    ]


def made_up_choices(folder: Path) -> list[AskedQuestion]:
    """Writes two random pictures into a folder and returns a question with options about each."""
    found = []
    for number in range(2):
        path = folder / f"{number}.png"
        pixels_HWC = np.random.default_rng(number).integers(0, 255, (60, 90, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(path)
        question = Question(f"q{number}", f"m{number}", _TEXTS[0], _PLANES, _PLANES[0], "choice", "p")
        found.append(AskedQuestion(question, (MediaRef(path),), Prompt(_TEXTS[0], _PLANES, _PLANES[0])))
    return found


def _random_media(transform: Transform, draw: np.random.Generator) -> Media:
    if isinstance(transform, VolumeInput):
        hu_IJK = draw.integers(-900, 900, (48, 48, 32)).astype(np.int16)
        inside = np.zeros(hu_IJK.shape, bool)
        inside[8:40, 8:40, 8:24] = True
        organs = transform.prepare.organs
        return Volume(hu_IJK, (4.0, 4.0, 6.0), "LPS", dict.fromkeys(organs, inside), tuple(organs[:1]))
    if "image" in transform.kinds:
        return Image(draw.integers(0, 256, (96, 128, 3), dtype=np.uint8))
    frames = transform.sampling.at_most if transform.sampling else 1
    return Video(draw.integers(0, 256, (frames, 96, 128, 3), dtype=np.uint8), tuple(map(float, range(frames))))
