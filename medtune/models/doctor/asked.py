"""The questions that a proof asks, and the media items that they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medtune.data.media.load import Shape, load_media
from medtune.data.types import Image, MediaGroup, MediaRef, Prompt, Question, Reading, Request, Video, Volume
from medtune.models.contract import Transform
from medtune.models.media_item import only_item
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
    def replies(self) -> tuple[str, ...]:
        """The replies whose likelihood is read: those of the options, or the right answer where there are none."""
        return self.prompt.choices or (self.prompt.target,)


def laid_out(asked: AskedQuestion, answer: str | None, family: SequenceFamily, transform: Transform) -> Layout:
    """Returns medtune's own sequence of a question, with an answer or up to the place where it begins."""
    shape: Shape | None = transform.shape(only_item(asked.media))
    return family.layout(asked.prompt.text, answer, shape=shape)


def decoded(asked: AskedQuestion, transform: Transform) -> Image | Video | Volume:
    """Returns the decoded media item; a volume that is shown as slices comes as the frames of a video."""
    media = load_media(only_item(asked.media), transform.sampling)
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


def end_ids(family: SequenceFamily) -> tuple[int, ...]:
    """Returns the ids that end a reply; the first is the one that is learnt."""
    return family.stop_ids
