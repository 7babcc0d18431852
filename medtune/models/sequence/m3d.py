"""Lays out a volume and a question for M3D-LaMed: visual tokens at positions 1 to 256, then text without a template.

    BOS [visual tokens] QUESTION ANSWER EOS

Source: BAAI-DCAI/M3D@63e72005; checked against golden/m3d-sequence.json.
"""

from collections.abc import Sequence as Many

from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import SequenceBuilder
from medtune.models.sequence.conversation import refuse_conversation, without_marks
from medtune.models.sequence.layout import Sequence
from medtune.models.sequence.plain_text import PlainText

NUM_TOKENS = 256


class M3D:
    """Lays out one question for M3D-LaMed."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int = NUM_TOKENS) -> None:
        self._text = PlainText(tokenizer)
        self._num_media_tokens = num_media_tokens
        self._bos_id = self._text.bos_id
        self.pad_id = self._text.eos_id
        self.stop_ids = (self.pad_id,)
        self.decode, self.pieces, self.save = self._text.decode, self._text.pieces, self._text.save

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        """Returns the sequence; the labels are the answer's tokens and the end token."""
        refuse_conversation(turns, num_items=len(shapes))
        question = f" {without_marks(prompt)}" if shapes else without_marks(prompt)
        return self.layout_text(question, None if answer is None else f"{question} {answer}", with_media=bool(shapes))

    def layout_text(self, question: str, whole: str | None, *, with_media: bool = True) -> Sequence:
        """Returns the sequence of an exact text behind the volume; the labels begin behind the question's tokens.

        Args:
            question: The text before the answer, white space included.
            whole: The text of question and answer together; None where the answer is to be generated.
            with_media: Whether the volume stands before the text.
        """
        row = SequenceBuilder(self.pad_id)
        row.text([self._bos_id])
        if with_media:
            row.media(self._num_media_tokens)
        num_question = len(row) + len(self._text.encode(question))
        row.text(self._text.encode(question if whole is None else whole))
        if whole is None:
            return row.sequence(learnt_from=None)
        row.text([self.pad_id])
        return row.sequence(learnt_from=num_question)
