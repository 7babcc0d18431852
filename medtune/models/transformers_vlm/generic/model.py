"""Adapts any vision-language model of transformers to `medtune.models.contract.Model`, by its own forward alone.

Shape legend: B rows, L tokens, T target tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PreTrainedModel

from medtune.models.contract import PARTS, Encoded, Model, Reading, root_of
from medtune.models.features.kept_features import KeptFeatures
from medtune.models.replies import Wanted
from medtune.models.sequence.end_tokens import cut_behind
from medtune.models.sequence.packing import PackedRows, PromptRows, ShownSpan, spans_of_rows
from medtune.models.target_logprobs import TargetLogprobs, Targets, of_logits
from medtune.models.transformers_vlm.family import Pixels
from medtune.models.transformers_vlm.model import sequence_padding
from medtune.models.tuning.plan import PartName

_SEEING, _HEARING = ("vision", "visual", "image"), ("audio", "speech")
_WRITING = ("text", "language", "llm", "decoder")


_EXTENDED = "model.embed_tokens_extend"
_TOWER_IN_DECODER: Mapping[str, dict[PartName, tuple[str, ...]]] = {
    "phi4_multimodal": {
        "vision": (f"{_EXTENDED}.image_embed.img_processor", f"{_EXTENDED}.audio_embed.encoder"),
        "projector": (_EXTENDED,),
        "language": ("model", "lm_head"),
    }
}
"""The parts of models whose decoder holds the towers, by `model_type`."""

PLAIN = (
    "it is read by the generic entry, which gives the model's own forward one sequence a row, as nothing proves that "
    "this architecture could share one"
)
WHOLE_LOGITS = "the model's own forward, by which the generic entry reads it, returns logits and not states"


def find_parts(whole: PreTrainedModel) -> dict[PartName, tuple[str, ...]]:
    """Returns the names of each part's modules and parameters.

    The language model is the decoder with the input embeddings and the output layer. The vision tower is each module
    that transformers built from the configuration of a tower for images (or sounds, which no question shows). The
    projector is the rest of the model. If nothing is left, it is those children of the tower that come after the
    tower's layers and end in the width of the language model, such as the mergers of the Qwen family.
    """
    if whole.config.model_type in _TOWER_IN_DECODER:
        return _TOWER_IN_DECODER[whole.config.model_type]
    language = _language(whole)
    vision = [name for name in _towers(whole) if not _within(name, language)]
    projector = _rest(whole, (*language, *vision))
    if not projector:
        heard = _built_from(whole, _sub_configs(whole, _HEARING))
        projector = [name for tower in vision if tower not in heard for name in _mergers(whole, tower)]
    roots: dict[PartName, tuple[str, ...]] = {
        "vision": tuple(vision),
        "projector": tuple(projector),
        "language": tuple(language),
    }
    held = {part for part in PARTS if roots[part]}
    if len(held) == len(PARTS):
        held = {root_of(name, roots)[0] for name, _ in whole.named_parameters()}
    if lacking := [part for part in PARTS if part not in held]:
        raise ValueError(
            f"no {lacking[0]} was found in {type(whole).__name__}: {described(roots)}. The top of its modules:\n"
            f"{_top_of_tree(whole)}\nmedtune needs a vision tower, a projector and a language model that are modules "
            "of their own; such a model needs a family of its own (CONTRIBUTING.md, `Add a family`)"
        )
    return roots


def described(roots: Mapping[PartName, tuple[str, ...]]) -> str:
    """Returns the parts with their modules as one line of text."""
    return "; ".join(f"{part}: {', '.join(roots[part]) or 'nothing'}" for part in PARTS)


def _language(whole: PreTrainedModel) -> list[str]:
    names = {id(module): name for name, module in whole.named_modules() if name}
    configs = _sub_configs(whole, _WRITING)
    decoder = whole.get_decoder()
    if id(decoder) not in names or any(name.startswith(f"{names[id(decoder)]}.") for name in _towers(whole)):
        # The module that `get_decoder` names holds the tower as well. The decoder is then the model that was built from
        # the configuration of the text.
        found = _built_from(whole, configs)
    else:
        found = [names[id(decoder)]]
    if not found:
        # Embeddings alone are no language model: its layers could be anywhere, even among the tower's.
        return []
    for module in (whole.get_input_embeddings(), whole.get_output_embeddings()):
        name = names.get(id(module))
        if name is not None and not _within(name, found):
            found.append(name)
    return found


def _towers(whole: PreTrainedModel) -> list[str]:
    found = _built_from(whole, _sub_configs(whole, (*_SEEING, *_HEARING)))
    tower = whole.get_encoder(modality="image")
    name = next((name for name, module in whole.named_modules() if name and module is tower), None)
    if name is not None and tower is not whole.get_decoder() and not _within(name, found):
        found = [name, *(each for each in found if not each.startswith(f"{name}."))]
    return found


def _sub_configs(whole: PreTrainedModel, words: tuple[str, ...]) -> list[object]:
    keys = [key for key in vars(whole.config) if key.endswith("_config") and any(word in key for word in words)]
    return [getattr(whole.config, key) for key in keys if getattr(whole.config, key) is not None]


def _built_from(whole: PreTrainedModel, configs: list[object]) -> list[str]:
    kinds = {type(config) for config in configs} - {type(whole.config), dict}
    found: list[str] = []
    for name, module in whole.named_modules():
        if name and isinstance(module, PreTrainedModel) and type(module.config) in kinds and not _within(name, found):
            found.append(name)
    return found


def _rest(whole: PreTrainedModel, taken: tuple[str, ...]) -> list[str]:
    found: dict[str, None] = {}
    for name, _ in whole.named_parameters():
        if _within(name, taken):
            continue
        path = name.split(".")
        prefixes = [".".join(path[:length]) for length in range(1, len(path) + 1)]
        # A module that holds a taken root is no candidate, as the taken root would lie inside it.
        found[next(each for each in prefixes if not any(_within(root, [each]) for root in taken))] = None
    return list(found)


def _mergers(whole: PreTrainedModel, tower: str) -> Iterator[str]:
    width = whole.config.get_text_config().hidden_size
    children = list(whole.get_submodule(tower).named_children())
    lists = [child for _, child in children if isinstance(child, nn.ModuleList)]
    layers = max(lists, key=len, default=None)
    behind = False
    for name, child in children:
        behind = behind or child is layers
        # Mergers may stand in a list of their own in front of the layers.
        if child is layers or not (behind or child in lists):
            continue
        linear = [module for module in child.modules() if isinstance(module, nn.Linear)]
        if linear and linear[-1].out_features == width:
            yield f"{tower}.{name}"


def _within(name: str, roots: list[str] | tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def _top_of_tree(whole: PreTrainedModel) -> str:
    named = [(name, module) for name, module in whole.named_modules() if name and name.count(".") <= 2]
    return "\n".join(f"    {name}: {type(module).__name__}" for name, module in named if not name[-1].isdigit())


class GenericVlm(Model):
    """A model of transformers that is given the outputs of its own processor and computes everything itself.

    Each row runs the tower. Rows whose images have the same shapes are read in one pass.
    """

    plain_because, packs_trees, whole_logits_because = PLAIN, False, WHOLE_LOGITS

    def __init__(
        self,
        whole: PreTrainedModel,
        by_token: Mapping[str, Mapping[int, int]],
        joins: Mapping[str, int] | None = None,
        axes: Mapping[str, int] | None = None,
        *,
        marks_prefix: bool = False,
    ) -> None:
        super().__init__()
        self.whole = whole
        self.kept = KeptFeatures()
        self._roots = find_parts(whole)
        self._by_token = by_token
        self._joins = joins or {}
        self._axes = axes or {}
        self.marks_prefix = marks_prefix
        self._keeps_logits = "logits_to_keep" in inspect.signature(whole.forward).parameters

    @property
    def part_roots(self) -> Mapping[PartName, tuple[str, ...]]:
        return {part: tuple(f"whole.{root}" for root in roots) for part, roots in self._roots.items()}

    @property
    def of_transformers(self) -> PreTrainedModel:
        return self.whole

    def encode(self, media: Sequence[Pixels]) -> Encoded:
        """Returns the outputs of the processor, moved to the model's device and type; each pass runs the tower."""
        weight = next(p for name, p in self.named_parameters() if root_of(name, self.part_roots)[0] == "vision")
        return [
            {name: t.to(weight.device, weight.dtype if t.is_floating_point() else t.dtype) for name, t in one.items()}
            for one in media
        ]

    def forward(self, rows: PackedRows, encoded: Encoded | None, reading: Reading = Targets.read) -> Any:
        attention_BL = sequence_padding(rows, self.plain_because)
        shown = _media_of_rows(spans_of_rows(rows.media_BL, rows.media_S, rows.length_S))
        read = []
        for chosen in _alike(shown, encoded, self._axes):
            chosen_B = torch.tensor(chosen, device=rows.ids_BL.device)
            number_B = torch.full((len(shown),), -1, device=rows.ids_BL.device)
            number_B[chosen_B] = torch.arange(len(chosen), device=rows.ids_BL.device)
            mine_T = number_B[rows.target_row_T] >= 0
            place_T = rows.target_place_T[mine_T]
            places, column_T = place_T.unique(return_inverse=True)
            keeps = {"logits_to_keep": places} if self._keeps_logits else {}
            length = int(attention_BL[chosen_B].sum(dim=1).max())
            inputs = self._inputs(
                rows.ids_BL[chosen_B, :length],
                attention_BL[chosen_B, :length],
                self._media([shown[row] for row in chosen], encoded),
            )
            if self.marks_prefix:
                types_BL = torch.zeros_like(inputs["input_ids"])
                for row, place in zip(number_B[rows.target_row_T][mine_T].tolist(), place_T.tolist(), strict=True):
                    # The logits of a token stand in the place before it.
                    types_BL[row, place + 1 :] = 1
                inputs["token_type_ids"] = types_BL
            logits_BLV = self.whole(**inputs, **keeps, use_cache=False).logits
            logits_TV = logits_BLV[number_B[rows.target_row_T][mine_T], column_T if keeps else place_T]
            read.append(of_logits(logits_TV, rows.target_id_T[mine_T], rows.target_sequence_T[mine_T]))
        return reading(Targets(read))

    def _inputs(self, ids_BL: Tensor, attention_BL: Tensor, media: Mapping[str, Tensor]) -> dict[str, Tensor]:
        by_token = {}
        for name, values in self._by_token.items():
            made_BL = torch.zeros_like(ids_BL)
            for one, value in values.items():
                if value:
                    made_BL[(ids_BL == one) & attention_BL] = value
            by_token[name] = made_BL
        return {"input_ids": ids_BL, "attention_mask": attention_BL.long(), **by_token, **media}

    def reply(
        self, rows: PackedRows, encoded: Encoded | None, wanted: Sequence[Wanted]
    ) -> tuple[list[list[int]], TargetLogprobs]:
        raise ValueError(f"replies cannot grow in one row: {self.plain_because}")

    @torch.no_grad()
    def generate(
        self, rows: PromptRows, encoded: Encoded | None, *, max_new_tokens: int, stop_ids: tuple[int, ...]
    ) -> list[list[int]]:
        if not bool(rows.attention_BL[:, -1].all()):
            raise ValueError("generation needs left-padded rows")
        shown = _media_of_rows(spans_of_rows(rows.media_BL, rows.media_S, rows.length_S))
        replies: dict[int, list[int]] = {}
        for chosen in _alike(shown, encoded, self._axes):
            chosen_B = torch.tensor(chosen, device=rows.ids_BL.device)
            length = int(rows.attention_BL[chosen_B].sum(dim=1).max())
            inputs = self._inputs(
                rows.ids_BL[chosen_B, -length:],
                rows.attention_BL[chosen_B, -length:],
                self._media([shown[row] for row in chosen], encoded),
            )
            greedy = GenerationConfig(
                max_new_tokens=max_new_tokens, do_sample=False, eos_token_id=list(stop_ids), pad_token_id=stop_ids[0]
            )
            with _settings(self.whole, greedy):
                model: Any = self.whole
                # Ranks that share a divided model agree in turns, and not by equally many steps.
                said_BN = model.generate(**inputs, synced_gpus=False)
            replies.update(
                (row, cut_behind(ids[length:], stop_ids)) for row, ids in zip(chosen, said_BN.tolist(), strict=True)
            )
        return [replies[row] for row in range(len(replies))]

    def _media(self, shown: Sequence[Sequence[int]], encoded: Encoded) -> dict[str, Tensor]:
        names = encoded[shown[0][0]] if shown[0] else ()
        try:
            rows = [
                {n: torch.cat([encoded[item][n] for item in items], dim=self._joins.get(n, 0)) for n in names}
                for items in shown
            ]
        except RuntimeError as error:
            raise ValueError(
                f"images of one question are prepared in sizes that the generic entry cannot join ({error}); choose a "
                "model with a family (`medtune list models`), or leave such questions out of the prepared folder"
            ) from error
        if len(rows) == 1:
            return rows[0]
        return {n: torch.cat([row[n] for row in rows], dim=self._axes[n]) for n in names}

    def save(self, folder: Path) -> Path:
        self.whole.save_pretrained(folder)
        return folder


@contextmanager
def _settings(whole: PreTrainedModel, settings: GenerationConfig) -> Iterator[None]:
    model: Any = whole
    kept = model.generation_config
    model.generation_config = settings
    try:
        yield
    finally:
        model.generation_config = kept


def _media_of_rows(spans: Sequence[Sequence[ShownSpan]]) -> list[tuple[int, ...]]:
    return [tuple(dict.fromkeys(span.media for span in row)) for row in spans]


def _alike(shown: Sequence[tuple[int, ...]], encoded: Encoded | None, axes: Mapping[str, int]) -> list[list[int]]:
    """Returns the numbers of the rows that one pass can read: those without media, or with media of the same shapes.

    Rows whose media the processor does not join have a pass of their own.
    """
    if encoded is None and any(shown):
        raise ValueError("the rows show media, but none were encoded")
    shapes = [tuple((name, tuple(t.shape)) for name, t in one.items()) for one in encoded or ()]
    groups: dict[object, list[int]] = {}
    for row, items in enumerate(shown):
        joined = all(encoded is None or encoded[item].keys() <= axes.keys() for item in items)
        groups.setdefault((tuple(shapes[item] for item in items), None if joined else row), []).append(row)
    return list(groups.values())
