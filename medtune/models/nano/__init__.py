"""Parts of the tiny models with random weights ("twins") that stand in for the real models in tests.

Their tokenizer has one token for each byte, and control tokens.
"""

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def byte_tokenizer(
    special: Sequence[str], *, bos: str | None, eos: str, pad: str, **more: str
) -> PreTrainedTokenizerFast:
    """Returns a tokenizer with one token for each byte, and the control tokens of a family behind these 256."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    roles = {} if bos is None else {"bos_token": bos}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=eos, pad_token=pad, extra_special_tokens=more, **roles
    )


def token_id(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    found = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found
