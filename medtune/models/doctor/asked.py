"""The questions that a proof asks, and the media items that they show."""

from collections.abc import Sequence
from dataclasses import dataclass

from medtune.data.media.load import Shape, load_media
from medtune.data.types import Image, MediaGroup, MediaRef, Prompt, Question, Reading, Request, Video, Volume
from medtune.models.contract import Transform
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.transformers_vlm.media import ProcessorTransform


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of a proof.

    Attributes:
        question: The question.
        media: The media items that it shows.
        prompt: The words in which a benchmark asks it.
    """

    question: Question
    media: tuple[MediaRef, ...]
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
    def replies(self) -> tuple[str, ...]:
        """The replies whose likelihood is read: those of the options, or the right answer where there are none."""
        return self.prompt.choices or (self.prompt.target,)


def laid_out(asked: AskedQuestion, answer: str | None, family: SequenceFamily, transform: Transform) -> Layout:
    """Returns medtune's own sequence of a question, with an answer or up to the place where it begins."""
    shapes: list[Shape | None] = [transform.shape(ref) for ref in asked.media]
    return family.layout(asked.prompt.text, answer, shapes=shapes, turns=asked.question.turns)


def decoded(ref: MediaRef, transform: Transform) -> Image | Video | Volume:
    """Returns a decoded media item; a volume that is shown as slices comes as the frames of a video."""
    media = load_media(ref, transform.sampling)
    if isinstance(media, Volume) and isinstance(transform, ProcessorTransform) and transform.volumes is not None:
        return transform.volumes(media)
    return media


def visits(questions: Sequence[AskedQuestion], reading: Reading) -> list[tuple[MediaGroup, list[Request]]]:
    """Returns the questions with their requests, one group for each media item, in the order of the questions."""
    by_media: dict[str, list[AskedQuestion]] = {}
    for asked in questions:
        by_media.setdefault(asked.question.media_id, []).append(asked)
    return [
        (
            MediaGroup(media_id, same[0].media, tuple(each.question for each in same)),
            [Request(each.question, each.prompt, reading) for each in same],
        )
        for media_id, same in by_media.items()
    ]
