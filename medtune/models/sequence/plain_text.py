"""Encodes and decodes text for sequence families that insert control tokens by their ids."""

from collections.abc import Sequence as Many
from functools import lru_cache
from pathlib import Path

from transformers import PreTrainedTokenizerFast

_CACHED = 65536


class PlainText:
    """A tokenizer that reads everything as plain text, also a control token that a question spells out."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        tokenizer.backend_tokenizer.encode_special_tokens = True
        self.encode = lru_cache(maxsize=_CACHED)(self._encode)
        """Returns the ids of a text, without an opening or closing token."""

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)

    def special(self, token: str) -> int:
        """Returns the id of a token."""
        known = self._tokenizer.get_vocab()
        if token not in known:
            raise ValueError(f"the tokenizer has no token {token!r}; is it the one of this model?")
        return int(known[token])

    @property
    def bos_id(self) -> int:
        """The id of the token that opens every sequence."""
        return self._named("bos_token_id")

    @property
    def eos_id(self) -> int:
        """The id of the token that ends an answer."""
        return self._named("eos_token_id")

    def _named(self, field: str) -> int:
        value = getattr(self._tokenizer, field)
        if value is None:
            raise ValueError(f"the tokenizer names no {field}; this family needs one")
        return int(value)

    def decode(self, ids: Many[int]) -> str:
        """Returns the text of ids, special tokens left out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def pieces(self, ids: Many[int]) -> list[str]:
        return [str(self._tokenizer.decode([i])) for i in ids]

    def save(self, folder: Path) -> None:
        self._tokenizer.save_pretrained(folder)
