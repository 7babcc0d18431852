"""Lays out scans and a question for RadFM, where scans may stand anywhere in the question and in the answer.

    BOS QUESTION-with-scans ANSWER EOS

A scan takes 34 places: 32 tokens of the resampler between a learned opening tag and a learned closing tag. By default
one scan stands before the question.

Source: chaoyi-wu/RadFM@9efba84c; checked against golden/radfm-sequence.json.
"""

from collections.abc import Sequence as Many

from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import Sequence, SequenceBuilder, refuse_conversation, without_marks
from medtune.models.sequence.chat_template import TextFamily

TOKENS_PER_SCAN = 34


class RadFM(TextFamily):
    """Lays out one question for RadFM."""

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
