"""Lays out media items and a conversation in ChatML, without a template.

Source: the chat template in SmolLM2-135M-Instruct's tokenizer, without its default system turn.
"""

from collections.abc import Sequence as Many

from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import Sequence, SequenceBuilder, user_turns
from medtune.models.sequence.text_template import TextTemplate

OPEN, CLOSE = "<|im_start|>", "<|im_end|>"


class ChatML(TextTemplate):
    """Lays out questions for a ChatML language model."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int) -> None:
        known = tokenizer.get_vocab()
        for token in (OPEN, CLOSE):
            if token not in known:
                raise ValueError(f"the tokenizer has no token {token!r}; ChatML needs it")
        super().__init__(tokenizer, num_media_tokens)
        self._open_id, self.stop_ids = known[OPEN], (known[CLOSE],)

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        row, encode = SequenceBuilder(self.pad_id), self.encode
        asked = user_turns(prompt, turns, num_items=len(shapes), between="\n")
        for pieces, told in zip(asked, [*(turn.answer for turn in turns), None], strict=True):
            row.text((self._open_id, *encode("user\n")))
            self.shown(row, pieces)
            row.text((self.pad_id, *encode("\n"), self._open_id, *encode("assistant\n")))
            if told is not None:
                row.text((*encode(told), self.pad_id, *encode("\n")))
        return self.answered(row, answer)
