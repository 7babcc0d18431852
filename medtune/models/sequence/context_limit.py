"""Refuses sequences that are longer than the context of the language model."""

from collections.abc import Sequence as Many
from pathlib import Path

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.layout import Sequence, SequenceFamily


class ContextLimited:
    """A sequence family that lays out as another family does, and refuses sequences that are too long."""

    def __init__(self, family: SequenceFamily, *, max_tokens: int) -> None:
        self.family = family
        self._max_tokens = max_tokens

    @property
    def pad_id(self) -> int:
        return self.family.pad_id

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return self.family.stop_ids

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        """Returns the sequence that the other family lays out."""
        sequence = self.family.layout(prompt, answer, shapes=shapes, turns=turns)
        if len(sequence.ids) > self._max_tokens:
            of_media = sum(span.stop - span.start for span in sequence.media_spans)
            raise ValueError(
                f"a sequence of {len(sequence.ids)} tokens where the language model reads {self._max_tokens} "
                f"(max_position_embeddings); {of_media} of them are the media's and {sequence.num_targets} the "
                "answer's. Show fewer items, take a projector (model.projector) or a variant (model.variant) with "
                "fewer tokens, or shorten the question or the answer; nothing is ever cut"
            )
        return sequence

    def decode(self, ids: Many[int]) -> str:
        return self.family.decode(ids)

    def pieces(self, ids: Many[int]) -> list[str]:
        return self.family.pieces(ids)

    def save(self, folder: Path) -> None:
        """Writes the tokenizer, or the processor that holds it, as transformers reads it."""
        self.family.save(folder)
