"""Lays out a volume and a question for Merlin, with a mark before the answer, and for M3D-LaMed, as text alone.

    [visual tokens] PROMPT###
    ANSWER stop

    BOS [visual tokens] QUESTION ANSWER EOS

Source: StanfordMIMI/Merlin@2489a96b, merlin-vlm 0.0.7; BAAI-DCAI/M3D@63e72005, checked against
golden/m3d-sequence.json.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import Sequence, SequenceBuilder, refuse_conversation, without_marks
from medtune.models.sequence.chat_template import TextFamily

MARK = "###\n"
REPORT_STOP_ID = 48134
"""Id of the token that ends a report of the published model.

Source: merlin-vlm 0.0.7.
"""


class Merlin(TextFamily):
    """Lays out one question for Merlin's report model and for what is tuned from it.

    Where the tokenizer has a token of its own for the mark, the mark is that token, as in the release.

    Attributes:
        stop_ids: The one token that ends an answer; the tokenizer's own end token where none is given.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int, stop_id: int | None = None
    ) -> None:
        super().__init__(tokenizer, num_media_tokens)
        self._mark = self.special(MARK) if MARK in tokenizer.get_vocab() else None
        self.stop_ids = (self.eos_id if stop_id is None else stop_id,)

    @classmethod
    def of_release(cls, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int) -> Merlin:
        """Returns the family for the release's own tokenizer, that of RadLLaMA.

        The published code looks for the mark by the id of one token, and stops at a token by its number.
        """
        if MARK not in tokenizer.get_vocab():
            raise ValueError(f"the tokenizer has no token {MARK!r}, which ends Merlin's questions; is it RadLLaMA's?")
        if len(tokenizer) <= REPORT_STOP_ID:
            raise ValueError(
                f"the tokenizer has {len(tokenizer)} tokens; Merlin's reports end with token {REPORT_STOP_ID}. Is it "
                "RadLLaMA's?"
            )
        return cls(tokenizer, num_media_tokens=num_media_tokens, stop_id=REPORT_STOP_ID)

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        refuse_conversation(turns, num_items=len(shapes))
        prompt, row = without_marks(prompt), SequenceBuilder(self.pad_id)
        if shapes:
            row.media(self._num_media_tokens)
        row.text(self.encode(f"{prompt}{MARK}") if self._mark is None else (*self.encode(prompt), self._mark))
        return self.answered(row, answer)


NUM_TOKENS = 256


class M3D(TextFamily):
    """Lays out one question for M3D-LaMed."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int = NUM_TOKENS) -> None:
        super().__init__(tokenizer, num_media_tokens)
        self._bos_id, self.stop_ids = self.bos_id, (self.eos_id,)

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        refuse_conversation(turns, num_items=len(shapes))
        question = f" {without_marks(prompt)}" if shapes else without_marks(prompt)
        return self.layout_text(question, None if answer is None else f"{question} {answer}", with_media=bool(shapes))

    def layout_text(self, question: str, whole: str | None, *, with_media: bool = True) -> Sequence:
        """Returns the sequence of an exact text behind the volume; the labels begin behind the question's tokens.

        Args:
            whole: The text of question and answer together; None where the answer is to be generated.
        """
        row = SequenceBuilder(self.pad_id)
        row.text([self._bos_id])
        if with_media:
            row.media(self._num_media_tokens)
        num_question = len(row) + len(self.encode(question))
        row.text(self.encode(question if whole is None else whole))
        if whole is None:
            return row.sequence(learnt_from=None)
        row.text([self.pad_id])
        return row.sequence(learnt_from=num_question)
