"""Lays out media items and a conversation in ChatML, the sequence family of pocket and its twins.

    <|im_start|>user
    [visual tokens]
    PROMPT<|im_end|>
    <|im_start|>assistant
    ANSWER<|im_end|>

The media items stand before the first question, each on a line of its own, so that all questions about them share one
prefix; where the text says their places, they stand there.

Source: the chat template in SmolLM2-135M-Instruct's tokenizer, without its default system turn.
"""

from collections.abc import Sequence as Many
from functools import lru_cache
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from medtune.data.media.load import Shape
from medtune.data.types import Turn
from medtune.models.sequence.builder import SequenceBuilder
from medtune.models.sequence.conversation import user_turns
from medtune.models.sequence.layout import Sequence

OPEN, CLOSE = "<|im_start|>", "<|im_end|>"


class ChatML:
    """Lays out questions for a ChatML language model."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, num_media_tokens: int) -> None:
        known = tokenizer.get_vocab()
        for token in (OPEN, CLOSE):
            if token not in known:
                raise ValueError(f"the tokenizer has no token {token!r}; ChatML needs it")
        self._tokenizer = tokenizer
        # A control token that a question or an answer spells out has to stay plain text.
        tokenizer.backend_tokenizer.encode_special_tokens = True
        self._num_media_tokens = num_media_tokens
        self._open_id, self._stop_id = known[OPEN], known[CLOSE]
        self._encode = lru_cache(maxsize=65536)(self._encode_uncached)

    def _encode_uncached(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)

    @property
    def pad_id(self) -> int:
        """The end-of-turn token; padding is masked, so any id would do."""
        return self._stop_id

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return (self._stop_id,)

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        """Returns the sequence; the labels are the answer's tokens and the end of its turn.

        The shapes are not read, because every media item has the same number of visual tokens.
        """
        row = SequenceBuilder(self._stop_id)
        asked = user_turns(prompt, turns, num_items=len(shapes), between="\n")
        for pieces, told in zip(asked, [*(turn.answer for turn in turns), None], strict=True):
            row.text((self._open_id, *self._encode("user\n")))
            for piece in pieces:
                if isinstance(piece, int):
                    row.media(self._num_media_tokens, item=piece)
                else:
                    row.text(self._encode(piece))
            row.text((self._stop_id, *self._encode("\n"), self._open_id, *self._encode("assistant\n")))
            if told is not None:
                row.text((*self._encode(told), self._stop_id, *self._encode("\n")))
        if answer is None:
            return row.sequence(learnt_from=None)
        learnt_from = len(row)
        row.text((*self._encode(answer), self._stop_id))
        return row.sequence(learnt_from=learnt_from)

    def decode(self, ids: Many[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def pieces(self, ids: Many[int]) -> list[str]:
        return [str(self._tokenizer.decode([i])) for i in ids]

    def save(self, folder: Path) -> None:
        self._tokenizer.save_pretrained(folder)
