"""Loads a language model of transformers and its tokenizer from a local folder or the hub.

Judges free answers in this process with an instruction-tuned text model of transformers and greedy decoding.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel

from medtune.data.types import JudgeRequest, PredictionKey
from medtune.models.sequence.chat_template import set_date
from medtune.models.sequence.end_tokens import end_ids
from medtune.models.sharding.of_transformers import as_if_loaded, loaded_type
from medtune.models.sharding.unread import weights_stay_unread
from medtune.models.smollm2 import LanguageModel
from medtune.models.weights.folder_check import why_unread
from medtune.models.weights.hub import SMALL_FILES, checkpoint_folder, folder_name
from medtune.models.weights.loading_options import DtypeName
from medtune.models.weights.releases.release_folder import release_folder
from medtune.models.weights.tokenizer import read_tokenizer, refuse_own_code


def load_language(where: str, *, dtype: DtypeName = "float32", revision: str | None = None) -> LanguageModel:
    """Returns the language model of a local folder, or of a repository on the hub."""
    folder = release_folder(where, "model.language", revision=revision)
    model = read_language(folder, dtype=dtype)
    return LanguageModel(model, read_tokenizer(folder), folder_name(folder))


def read_language(folder: Path, *, dtype: DtypeName = "float32") -> PreTrainedModel:
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, dtype=loaded_type(folder, dtype)
        )
    except Exception as error:
        refuse_own_code(folder, str(folder), error)
        raise ValueError(f"{folder}: no language model that transformers can read: {why_unread(error)}") from error
    if weights_stay_unread():
        as_if_loaded(model, getattr(torch, dtype), AutoModelForCausalLM)
    return model


def context_of(config: PreTrainedConfig) -> int:
    """Returns the number of tokens that a language model can read: its context, or its sliding window if shorter."""
    found = [getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window")]
    limits = [int(limit) for limit in found if limit]
    if not limits:
        raise ValueError("model.language: its config.json says neither max_position_embeddings nor sliding_window")
    return min(limits)


class LocalJudge:
    """A judge that runs in this process, one answer after the other; the same answer always gets the same verdict."""

    def __init__(self, weights: str, *, dtype: DtypeName, max_new_tokens: int, device: torch.device) -> None:
        folder = checkpoint_folder(weights, what="judge", files=(*SMALL_FILES, "*.safetensors"))
        self._tokenizer: Any = _read(AutoTokenizer, folder, weights)
        if not self._tokenizer.chat_template:
            raise ValueError(f"{weights}: the tokenizer has no chat template; take an instruction-tuned model as judge")
        set_date(self._tokenizer)
        loaded: Any = _read(AutoModelForCausalLM, folder, weights, dtype=getattr(torch, dtype))
        self._model = loaded.eval().to(device)
        own = [] if self._tokenizer.eos_token_id is None else [self._tokenizer.eos_token_id]
        self._stop_ids = list(dict.fromkeys([*own, *end_ids(loaded.generation_config, self._tokenizer)]))
        if not self._stop_ids:
            raise ValueError(f"{weights}: neither its tokenizer nor generation_config.json says what ends a reply")
        self._max_new_tokens = max_new_tokens
        # Reports must not contain paths of the user's machine, so only the last part of a folder is kept.
        self._name = Path(weights).name if Path(weights).exists() else weights

    @property
    def name(self) -> str:
        """The hub id of the model, or the name of its folder."""
        return self._name

    @torch.no_grad()
    def replies(
        self, asked: Sequence[JudgeRequest], *, is_usable: Callable[[str], bool]
    ) -> Iterator[tuple[PredictionKey, str | None]]:
        """Yields the key and the reply of each request, in order; the reply is None where it holds no verdict."""
        for request in asked:
            text = self._reply(request)
            yield request.key, text if is_usable(text) else None

    def _reply(self, request: JudgeRequest) -> str:
        turns = [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]
        rows = self._tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(self._model.device)
        ids_BL = self._model.generate(
            input_ids=rows["input_ids"],
            attention_mask=rows["attention_mask"],
            max_new_tokens=self._max_new_tokens,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            eos_token_id=self._stop_ids,
            pad_token_id=self._stop_ids[0],
        )
        reply = [each for each in ids_BL[0, rows["input_ids"].shape[1] :].tolist() if each not in self._stop_ids]
        return str(self._tokenizer.decode(reply, skip_special_tokens=True))


def _read(kind: Any, folder: Path, weights: str, **settings: Any) -> Any:
    try:
        return kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **settings)
    except Exception as error:
        refuse_own_code(folder, weights, error)
        raise ValueError(f"{weights}: transformers does not read it: {why_unread(error)}") from error
