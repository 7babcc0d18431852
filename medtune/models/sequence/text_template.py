"""What the templates of medtune's own parts share: all text around the media is plain text."""

from collections.abc import Sequence as Many
from functools import lru_cache
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from medtune.models.sequence.builder import Piece, Sequence, SequenceBuilder

_CACHED = 65536


class TextTemplate:
    """What templates share that write all around the media as plain text, also a control token that is spelt out.

    Every media item has the same number of visual tokens. Each template sets `stop_ids` to the one token that ends an
    answer, which fills the shorter rows as well: padding is masked, so any id would do.
    """

    stop_ids: tuple[int, ...]

    def __init__(self, tokenizer: PreTrainedTokenizerFast, num_media_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._num_media_tokens = num_media_tokens
        tokenizer.backend_tokenizer.encode_special_tokens = True
        self.encode = lru_cache(maxsize=_CACHED)(self._encode)
        """Returns the ids of a text, without an opening or closing token."""

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)

    @property
    def pad_id(self) -> int:
        return self.stop_ids[0]

    def special(self, token: str) -> int:
        known = self._tokenizer.get_vocab()
        if token not in known:
            raise ValueError(f"the tokenizer has no token {token!r}; is it the one of this model?")
        return int(known[token])

    @property
    def bos_id(self) -> int:
        """The id of the token that opens every sequence."""
        return self._special_id("bos_token_id")

    @property
    def eos_id(self) -> int:
        """The id of the token that ends an answer."""
        return self._special_id("eos_token_id")

    def _special_id(self, field: str) -> int:
        value = getattr(self._tokenizer, field)
        if value is None:
            raise ValueError(f"the tokenizer names no {field}; this template needs one")
        return int(value)

    def shown(self, row: SequenceBuilder, pieces: Many[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, int):
                row.media(self._num_media_tokens, item=piece)
            else:
                row.text(self.encode(piece))

    def answered(self, row: SequenceBuilder, answer: str | None) -> Sequence:
        """Returns the sequence of a row; where there is an answer, it and the token that ends it are learnt."""
        if answer is None:
            return row.sequence(learnt_from=None)
        learnt_from = len(row)
        row.text((*self.encode(answer), self.pad_id))
        return row.sequence(learnt_from=learnt_from)

    def decode(self, ids: Many[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def pieces(self, ids: Many[int]) -> list[str]:
        return [str(self._tokenizer.decode([i])) for i in ids]

    def save(self, folder: Path) -> None:
        self._tokenizer.save_pretrained(folder)
