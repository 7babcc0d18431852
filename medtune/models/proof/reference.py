"""What a proof compares medtune with: the interface of plain transformers' side, and the positions that it uses.

Shape legend: T target tokens, N new tokens, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from medtune.models.contract import Model, root_of
from medtune.models.proof.questions import AskedQuestion
from medtune.models.sequence.builder import Position


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
