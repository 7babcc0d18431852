"""Lays out a volume and a question for Merlin: visual tokens first, no opening token, a mark before the answer.

    [visual tokens] PROMPT###
    ANSWER stop

Source: StanfordMIMI/Merlin@2489a96b, merlin-vlm 0.0.7.
"""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.models.sequence.builder import SequenceBuilder
from medtune.models.sequence.layout import Sequence
from medtune.models.sequence.plain_text import PlainText

MARK = "###\n"
REPORT_STOP_ID = 48134
"""Id of the token that ends a report of the published model.

Source: merlin-vlm 0.0.7.
"""


class Merlin:
    """Lays out one question for Merlin's report model and for what is tuned from it.

    Attributes:
        stop_ids: The one token that ends an answer; the tokenizer's own end token where none is given.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int, stop_id: int | None = None
    ) -> None:
        self._text = PlainText(tokenizer)
        self._num_media_tokens = num_media_tokens
        self.pad_id = self._text.eos_id if stop_id is None else stop_id
        self.stop_ids = (self.pad_id,)
        self.decode, self.pieces, self.save = self._text.decode, self._text.pieces, self._text.save

    def layout(
        self, prompt: str, answer: str | None, *, with_media: bool = True, shape: Shape | None = None
    ) -> Sequence:
        """Returns the sequence; the labels are the answer's tokens and the stop token.

        Without media, the sequence begins with the first token of the prompt.
        """
        row = SequenceBuilder(self.pad_id)
        if with_media:
            row.media(self._num_media_tokens)
        row.text(self._text.encode(f"{prompt}{MARK}"))
        if answer is None:
            return row.sequence(learnt_from=None)
        learnt_from = len(row)
        row.text((*self._text.encode(answer), self.pad_id))
        return row.sequence(learnt_from=learnt_from)
