"""Writes a tiny text model of transformers that has learnt one verdict by heart."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VERDICT = '{"score": 2, "error_type": "none"}'
_TEMPLATE = (
    "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<judge>{% endif %}"
)


def write_tiny_judge(folder: Path, shown: Sequence[tuple[str, str]], *, steps: int = 150) -> Path:
    """Writes a Llama of two layers over bytes that writes the verdict after these pairs of instructions and answer."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*alphabet, "<stop>"])}
    bytes_of_text = Tokenizer(models.BPE(vocabulary, []))
    bytes_of_text.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_of_text.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_of_text, eos_token="<stop>", chat_template=_TEMPLATE)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=512,
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    worst = 0.0
    for step in range(steps):
        system, user = shown[step % len(shown)]
        prompt = f"<system>{system}\n<user>{user}\n<judge>"
        ids_BL = torch.tensor([[*tokenizer.encode(prompt + VERDICT), tokenizer.eos_token_id]])
        labels_BL = ids_BL.clone()
        labels_BL[:, : len(tokenizer.encode(prompt))] = -100
        loss = model(input_ids=ids_BL, labels=labels_BL).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        worst = max(loss.item(), worst) if step >= steps - len(shown) else 0.0
    assert worst < 0.01
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
