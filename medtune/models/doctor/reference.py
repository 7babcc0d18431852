"""What a proof compares medtune with: the interface of plain transformers' side, and the positions that it uses.

Shape legend: T target tokens, N new tokens, V vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from medtune.data.media.load import Shape, load_media
from medtune.data.types import Image, MediaGroup, MediaRef, Prompt, Question, Reading, Request, Video, Volume
from medtune.models.contract import Model, Transform, root_of
from medtune.models.sequence.builder import Position, SequenceFamily
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.transformers_vlm.media import ProcessorTransform


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of a proof."""

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


class Continued(NamedTuple):
    """A greedy reply of plain transformers."""

    ids: tuple[int, ...]  # The new tokens, up to the end token.
    logprobs_NV: Tensor  # Natural log-probabilities of the vocabulary at each of them, float32.


class Reference(Protocol):
    """Plain transformers, over the same weights in memory but through none of medtune's layouts, masks and caches."""

    @property
    def end_id(self) -> int | None:
        """The token that ends an answer by the checkpoint's own files; None where they do not say."""
        ...

    def ids(self, asked: AskedQuestion) -> tuple[int, ...] | None:
        """Returns the tokens of a question; None where the checkpoint has no processor that writes it."""
        ...

    def pixels(self, asked: AskedQuestion) -> Mapping[str, Tensor] | None:
        """Returns the tower's arguments; None where the checkpoint has no processor that makes them."""
        ...

    def logprobs(self, asked: AskedQuestion, answer: str, /) -> Tensor:
        """Returns the log-probability of each token of the answer, float32, with its graph of gradients.

        The end of the turn is the last of these tokens.
        """
        ...

    def reply(self, asked: AskedQuestion, *, max_new_tokens: int) -> Continued:
        """Returns the greedy reply to a question."""
        ...


@contextmanager
def watched_positions(model: Model) -> Iterator[list[Tensor]]:
    """Collects the position ids that the language model's rotary embeddings are given within the context."""
    seen: list[Tensor] = []

    def hook(module: nn.Module, arguments: tuple[object, ...], named: dict[str, object]) -> None:
        given = named.get("position_ids", arguments[1] if len(arguments) > 1 else None)
        if isinstance(given, Tensor):
            seen.append(given.detach())

    handles = [
        module.register_forward_pre_hook(hook, with_kwargs=True)
        for name, module in model.named_modules()
        if "RotaryEmbedding" in type(module).__name__ and root_of(name, model.part_roots)[0] == "language"
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def as_positions(seen: list[Tensor]) -> tuple[Position, ...] | None:
    """Returns the positions of one sequence as a layout states them; None where none were seen."""
    if not seen:
        return None
    first = seen[0]
    if first.dim() == 3:
        return tuple((int(t), int(row), int(column)) for t, row, column in first[:, 0].T.tolist())
    return tuple(int(position) for position in first[0].tolist())


TOLERANCE: Mapping[torch.dtype, float] = {torch.float32: 1e-3, torch.float16: 0.03, torch.bfloat16: 0.25}
"""The largest difference between two log-probabilities of one token that is put down to rounding.

A log-probability is computed from logits, whose size is about 16 to 32. Neighbouring numbers of that size are 0.125
apart in bfloat16 and 0.016 apart in float16; two such distances are allowed. In float32 they are 2e-6 apart, and what
counts is the order in which a few thousand products are summed up.
"""
FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""The errors that a model with a fault may raise while it is checked."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str  # Name of the check, such as "image tokens".
    passed: bool | None  # Whether it passed; None where it does not apply.
    detail: str  # The figure that was found, the first difference, or the reason why the check does not apply.


Finding = tuple[bool | None, str]
"""The fields `passed` and `detail` of a check."""


def checked(name: str, look: Callable[[], Finding]) -> Check:
    """Returns the result of a check; an error while it is made is a failure."""
    try:
        passed, detail = look()
    except FAULTS as error:
        said = " ".join(str(error).split())
        return Check(name, False, f"stopped by {type(error).__name__}: {said[:400] or 'no message'}")
    return Check(name, passed, detail)


def computing_type(model: nn.Module, narrowed_to: torch.dtype | None) -> torch.dtype:
    """Returns the number format that decides how exact a model's answers are."""
    held = {p.dtype for p in model.parameters() if p.dtype in TOLERANCE} | ({narrowed_to} if narrowed_to else set())
    return next((dtype for dtype in (torch.bfloat16, torch.float16) if dtype in held), torch.float32)
