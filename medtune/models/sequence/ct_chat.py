"""Lays out a volume and a question for CT-CHAT: Llama 3's turns, the volume first, a task token behind the question.

    <|begin_of_text|>SYSTEM TURN
    <|start_header_id|>user<|end_header_id|>

    [visual tokens]
    PROMPT <multiple_choice><|eot_id|><|start_header_id|>assistant<|end_header_id|>

    ANSWER<|eot_id|>

medtune may not ship the published system prompt (CC-BY-NC-SA). It is read from the user's copy of the published code,
or from the recipe (`medtune.models.weights.releases.release_folder`).

Source: ibrahimethemhamamci/CT-CHAT@33c9b973; the turns are those of Llama 3.1's chat template.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from copy import copy
from typing import Literal

from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import Sequence, SequenceBuilder, refuse_conversation, without_marks
from medtune.models.sequence.chat_template import TextFamily

NUM_TOKENS = 256
OPEN, HEAD, END_HEAD, END_TURN = "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"
# "<short_answe>" is the release's own spelling.
Task = Literal["<multiple_choice>", "<long_answer>", "<short_answe>", "<report_generation>"]
ADDED_TOKENS = ("<pad>", "<multiple_choice>", "<long_answer>", "<short_answe>", "<report_generation>")
"""Tokens that the release adds to Llama 3.1's, in this order."""


class CTChat(TextFamily):
    """Lays out one question for CT-CHAT."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        *,
        num_media_tokens: int = NUM_TOKENS,
        task: Task = "<multiple_choice>",
        system: str = "",
    ) -> None:
        super().__init__(tokenizer, num_media_tokens)
        self._open, self._head, self._end_head = (self.special(t) for t in (OPEN, HEAD, END_HEAD))
        self._task = self.special(task)
        self._system = system
        self.stop_ids = (self.special(END_TURN),)

    def opened_by(self, system: str) -> CTChat:
        """Returns the same family with another system prompt; the empty text leaves the system turn out."""
        other = copy(self)
        other._system = system
        return other

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        refuse_conversation(turns, num_items=len(shapes))
        prompt, encode = without_marks(prompt), self.encode
        row = SequenceBuilder(self.pad_id)
        row.text([self._open])
        if self._system:
            self._header(row, "system")
            row.text((*encode(self._system), self.pad_id))
        self._header(row, "user")
        if shapes:
            row.media(self._num_media_tokens)
            row.text(encode("\n"))
        row.text((*encode(f"{prompt} "), self._task, self.pad_id))
        self._header(row, "assistant")
        return self.answered(row, answer)

    def _header(self, row: SequenceBuilder, role: str) -> None:
        row.text((self._head, *self.encode(role), self._end_head, *self.encode("\n\n")))
