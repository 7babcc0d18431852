"""Trains sentencepiece tokenizers of LLaMA's kind on a small text, and writes them as releases do."""

import io
import json
from functools import cache
from pathlib import Path

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

TEXT = (
    "Is there a lesion in the liver? yes no",
    "How large is the largest lesion of the pancreas, in cm?",
    "Which kidney holds the cyst: left, right, both or none?",
    "Generate a radiology report for the spleen and the colon.",
    "A. 5.2 B. 12.7 C. 33 D. 80 Answer with the letter alone.",
)


@cache
def sentencepiece_model(*, num_tokens: int = 330) -> bytes:
    """Returns a tokenizer.model of LLaMA's kind: byte pairs, bytes for other letters, a blank before each text."""
    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 20),
        model_writer=written,
        model_type="bpe",
        vocab_size=num_tokens,
        byte_fallback=True,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    return written.getvalue()


def write_spelling(folder: Path, config: dict[str, object], *, added: tuple[str, ...] = ()) -> int:
    """Writes tokenizer.model, tokenizer_config.json and the added tokens; returns the number of tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(sentencepiece_model())
    number = int(SentencePieceProcessor(model_file=str(folder / "tokenizer.model")).vocab_size())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", **config}))
    if added:
        ids = {token: number + place for place, token in enumerate(added)}
        (folder / "added_tokens.json").write_text(json.dumps(ids))
    return number + len(added)
