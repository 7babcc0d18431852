"""The templates of models that read volumes: CT-CHAT, Merlin, M3D-LaMed and RadFM."""

from __future__ import annotations

from collections.abc import Sequence as Many
from copy import copy
from typing import Literal

from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import Sequence, SequenceBuilder, refuse_conversation, without_marks
from medtune.models.sequence.text_template import TextTemplate

NUM_TOKENS = 256
OPEN, HEAD, END_HEAD, END_TURN = "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"
# "<short_answe>" is the release's own spelling.
Task = Literal["<multiple_choice>", "<long_answer>", "<short_answe>", "<report_generation>"]
ADDED_TOKENS = ("<pad>", "<multiple_choice>", "<long_answer>", "<short_answe>", "<report_generation>")
"""Tokens that the release adds to Llama 3.1's, in this order."""

MARK = "###\n"
REPORT_STOP_ID = 48134
"""Id of the token that ends a report of the published model.

Source: merlin-vlm 0.0.7.
"""
TOKENS_PER_SCAN = 34


class CTChat(TextTemplate):
    """Lays out a volume and a question for CT-CHAT: Llama 3's turns, the volume first, a task token at the end.

        <|begin_of_text|>SYSTEM TURN
        <|start_header_id|>user<|end_header_id|>

        [visual tokens]
        PROMPT <multiple_choice><|eot_id|><|start_header_id|>assistant<|end_header_id|>

        ANSWER<|eot_id|>

    medtune may not ship the published system prompt (CC-BY-NC-SA). It is read from the user's copy of the published
    code, or from the recipe (`medtune.models.weights.releases.release_folder`).

    Source: ibrahimethemhamamci/CT-CHAT@33c9b973; the turns are those of Llama 3.1's chat template.
    """

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
        """Returns the same template with another system prompt; the empty text leaves the system turn out."""
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


class Merlin(TextTemplate):
    """Lays out a volume and a question for Merlin's report model and what is tuned from it, a mark before the answer.

        [visual tokens] PROMPT###
        ANSWER stop

    Where the tokenizer has a token of its own for the mark, the mark is that token, as in the release.

    Attributes:
        stop_ids: The one token that ends an answer; the tokenizer's own end token where none is given.

    Source: StanfordMIMI/Merlin@2489a96b, merlin-vlm 0.0.7.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int, stop_id: int | None = None
    ) -> None:
        super().__init__(tokenizer, num_media_tokens)
        self._mark = self.special(MARK) if MARK in tokenizer.get_vocab() else None
        self.stop_ids = (self.eos_id if stop_id is None else stop_id,)

    @classmethod
    def of_release(cls, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int) -> Merlin:
        """Returns the template for the release's own tokenizer, that of RadLLaMA.

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


class M3D(TextTemplate):
    """Lays out a volume and a question for M3D-LaMed, as text alone.

        BOS [visual tokens] QUESTION ANSWER EOS

    Source: BAAI-DCAI/M3D@63e72005, checked against tests/golden/m3d-sequence.json.
    """

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


class RadFM(TextTemplate):
    """Lays out scans and a question for RadFM, where scans may stand anywhere in the question and in the answer.

        BOS QUESTION-with-scans ANSWER EOS

    A scan takes 34 places: 32 tokens of the resampler between a learned opening tag and a learned closing tag. By
    default one scan stands before the question.

    Source: chaoyi-wu/RadFM@9efba84c; checked against tests/golden/radfm-sequence.json.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, tokens_per_scan: int = TOKENS_PER_SCAN) -> None:
        super().__init__(tokenizer, tokens_per_scan)
        self._bos_id, self.stop_ids = self.bos_id, (self.eos_id,)

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        refuse_conversation(turns, num_items=len(shapes))
        return self.layout_scans(without_marks(prompt), answer, positions=(0,) if shapes else ())

    def layout_scans(
        self, question: str, answer: str | None, *, positions: Many[int], answer_positions: Many[int] = ()
    ) -> Sequence:
        """Returns the sequence with scans inside the question, the answer or both.

        The labels begin behind as many tokens as the question has when it is encoded without the answer. The places of
        a scan inside the answer are not learnt.

        Args:
            positions: Position of each scan in the question, from 0 to the number of its characters; see `cut`.
        """
        parts = _parts(question, positions, "question")
        row = self._row(parts)
        if answer is None:
            return row.sequence(learnt_from=None)
        num_question = len(row)
        first, *others = _parts(answer, answer_positions, "answer")
        whole = self._row([*parts[:-1], f"{parts[-1]} {first}", *others])
        whole.text([self.pad_id])
        return whole.sequence(learnt_from=num_question)

    def _row(self, parts: Many[str]) -> SequenceBuilder:
        row = SequenceBuilder(self.pad_id)
        row.text([self._bos_id])
        for index, part in enumerate(parts):
            if index:
                row.media(self._num_media_tokens)
            if part:
                row.text(self.encode(part))
        return row


def cut(position: int) -> int:
    """Returns the number of the character before which a scan stands.

    As in the published code, position p means before character max(p - 1, 0), so that even the largest position puts
    the scan before the last character of its text.
    """
    return max(position - 1, 0)


def _parts(text: str, positions: Many[int], name: str) -> list[str]:
    if any(not 0 <= position <= len(text) for position in positions) or (positions and not text):
        raise ValueError(f"scan positions {list(positions)} for {name} {text!r} of {len(text)} characters")
    cuts = sorted(map(cut, positions))
    return [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
