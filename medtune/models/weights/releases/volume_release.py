"""Loads a model over volumes from a release: the folder that its authors publish, or a local copy of it.

Everything small is read and checked first: the tokenizer, the configuration, and the names, types and shapes of all
tensors from the headers of the files. Only then are the weights read, one tensor after another, each of which is
converted to its wanted type before the next one is read.

Source: chaoyi-wu/RadFM@9efba84c; chaoyi-wu/RadFM issue 5 (names that newer versions of transformers do not have).
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedTokenizerFast

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.contract import Assembled
from medtune.models.sequence.end_tokens import ContextLimited, ended_by, read_generation
from medtune.models.vlm import VisionLanguageModel
from medtune.models.volumes.volume_parts import VolumeInput, VolumeParts, chosen, modules, skeleton
from medtune.models.weights.hub import folder_name
from medtune.models.weights.key_map import (
    Deferred,
    KeyMap,
    Rule,
    Stored,
    at_hand,
    check_published,
    load_published,
    open_checkpoint,
    rename,
    translate,
)
from medtune.models.weights.loading_options import DEFAULT, Loading
from medtune.models.weights.releases.release_folder import INDEX, SMALL, release_folder, weight_files
from medtune.models.weights.tokenizer import read_json, read_tokenizer, tokenizer_folder

_SIZES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "rms_norm_eps", "max_position_embeddings", "hidden_act",
)  # fmt: skip
"""Fields of config.json that replace the published sizes of the language model."""

_VISION = r"embedding_layer\.vision_encoder\."
_LAYER = _VISION + r"transformer\.layers\.(\d+)\."
_PERCEIVER = r"embedding_layer\.perceiver\."
_PERCEIVER_LAYER = _PERCEIVER + r"layers\.(\d+)\."
_OURS = r"projector.resampler.blocks.\1."
KEY_MAP = KeyMap(
    checkpoint="RadFM's pytorch_model.bin",
    rules=(
        rename("lang_model.", "language."),
        *(
            Rule(_VISION + rf"to_patch_embedding\.{theirs}\.(.+)", (rf"vision.patch_embedding.{ours}.\1",))
            for theirs, ours in ((1, 0), (2, 1), (3, 2))
        ),
        *(
            Rule(_VISION + rf"pos_embedding\.{name}_embed\.weight", (f"vision.positions.tables.{axis}.weight",))
            for axis, name in enumerate(("row", "col", "dep"))
        ),
        Rule(_LAYER + r"0\.norm\.(.+)", (r"vision.blocks.\1.norm1.\2",)),
        Rule(_LAYER + r"0\.fn\.to_qkv\.weight", (r"vision.blocks.\1.attn.qkv.weight",)),
        Rule(_LAYER + r"0\.fn\.to_out\.0\.(.+)", (r"vision.blocks.\1.attn.out_proj.\2",)),
        Rule(_LAYER + r"1\.norm\.(.+)", (r"vision.blocks.\1.norm2.\2",)),
        Rule(_LAYER + r"1\.fn\.net\.0\.(.+)", (r"vision.blocks.\1.mlp.linear1.\2",)),
        Rule(_LAYER + r"1\.fn\.net\.3\.(.+)", (r"vision.blocks.\1.mlp.linear2.\2",)),
        Rule(_PERCEIVER + "latents", ("projector.resampler.latents",)),
        Rule(_PERCEIVER_LAYER + r"0\.norm_media\.(.+)", (_OURS + r"0.context_layer_norm.\2",)),
        Rule(_PERCEIVER_LAYER + r"0\.norm_latents\.(.+)", (_OURS + r"0.latents_layer_norm.\2",)),
        Rule(_PERCEIVER_LAYER + r"0\.to_q\.weight", (_OURS + "0.q_proj.weight",)),
        Rule(_PERCEIVER_LAYER + r"0\.to_kv\.weight", (_OURS + "0.k_proj.weight", _OURS + "0.v_proj.weight")),
        Rule(_PERCEIVER_LAYER + r"0\.to_out\.weight", (_OURS + "0.output_proj.weight",)),
        Rule(_PERCEIVER_LAYER + r"1\.0\.(.+)", (_OURS + r"1.ln.\2",)),
        Rule(_PERCEIVER_LAYER + r"1\.1\.weight", (_OURS + "1.fc.weight",)),
        Rule(_PERCEIVER_LAYER + r"1\.3\.weight", (_OURS + "1.c_proj.weight",)),
        Rule(_PERCEIVER + r"norm\.(.+)", (r"projector.resampler.layer_norm.\1",)),
        rename("embedding_layer.fc.", "projector.linear."),
        Rule(r"embedding_layer\.figure_token_weight", ("projector.tags",)),
    ),
    left_out=(
        # transformers computes these itself and no longer stores them.
        r"lang_model\.model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
        # This tensor is equal to lang_model.model.embed_tokens.weight.
        r"embedding_layer\.weight",
        # These belong to a text encoder and a decoder for pre-training, which take no part in answering questions.
        r"embedding_layer\.(bert_model|bert_projection_fc|output_upscaling|transformer_decoder)\..+",
        r"embedding_layer\.(transformer_decoder_mlp|cls_head)\..+",
    ),
)


@dataclass(frozen=True, slots=True)
class Release:
    """The files that a release's folder holds, and how they are read."""

    # Patterns for the names of the checkpoint's files, the most wanted first; those of the first pattern that fits any
    # file are read.
    files: tuple[str, ...]
    key_map: KeyMap  # The rules that translate the names of the tensors.
    embeddings: str  # Published name of the input embeddings, whose number of rows is the size of the vocabulary.
    adjust: Callable[[Deferred], Deferred] = dict  # A change to the tensors before they are renamed.
    # Folders inside the release in which the tokenizer may lie, beside the release's folder itself.
    tokenizer: tuple[str, ...] = ()
    # Hub id of the repository that has the tokenizer, where the release itself has none.
    tokenizer_hub: str | None = None


def release_entry(
    title: str, licence: str, variants: Mapping[str, VolumeParts], release: Release, *, hub: str | None
) -> ZooEntry:
    """Returns the zoo entry of a release.

    Args:
        hub: Hub id of the repository; None where the hub has none in a form that can be read.
    """

    def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
        return assemble_release(chosen(variants, loading.variant), release, loading.weights or hub, loading)

    def volume_input(seed: int, loading: Loading) -> VolumeInput:
        return chosen(variants, loading.variant).input_of(lambda: assemble(seed, loading).model.get_submodule("vision"))

    return ZooEntry(
        title,
        licence,
        assemble,
        lambda _=DEFAULT: skeleton(chosen(variants, None)),
        hub=None if hub is None else HubWeights(hub, gated=False),
        files=release.files,
        folder=None if hub is not None else f"{release.key_map.checkpoint} ({release.files[0]}) and its tokenizer",
        variants=variants,
        volume_input=volume_input,
        takes=("weights", "revision", "dtype", "variant") if hub else ("weights", "dtype", "variant"),
        published=lambda folder: published_tensors(release, folder),
        one_question=True,
    )


def published_tensors(release: Release, folder: Path) -> Mapping[str, Tensor]:
    """Returns the tensors of a release's folder under the names of the model here."""
    stored = open_checkpoint(weight_files(folder, release.files, release.key_map.checkpoint))
    named = translate(release.adjust(stored.tensors), release.key_map, where=str(folder))
    return {name: read() for name, read in named.items()}


def assemble_release(parts: VolumeParts, release: Release, where: str | None, loading: Loading) -> Assembled:
    """Returns the release's model with its weights and its tokenizer.

    The language model gets the type `model.dtype`. The tower and the projector, at most 2 % of the weights, stay in
    float32, as the authors ran them: their position tables, the statistics of their norms and their codebook decide
    what the language model is shown.

    Args:
        where: Local folder or hub id; None where the user named no folder and the hub has none.
    """
    what = release.key_map.checkpoint
    small = (*SMALL, *(f"{name}/*" for name in release.tokenizer))
    folder = release_folder(where, what, small, revision=loading.revision)
    beside = _tokenizer_of(release, folder)
    tokenizer = read_tokenizer(beside)
    parts = replace(parts, language=as_configured(parts.language, beside / "config.json"))
    template = _family(parts, tokenizer, beside)
    folder = release_folder(where, what, (INDEX, *release.files), revision=loading.revision)
    paths = weight_files(folder, release.files, what)
    stored = open_checkpoint(paths)
    model = load_release(
        parts, release, stored, tokenizer, where=_files_text(paths), dtype=getattr(torch, loading.dtype)
    )
    said = f"{what}, {', '.join(path.name for path in paths)} from {folder_name(folder)}"
    narrow = f"{said}; {loading.dtype}; tokenizer of {folder_name(beside)}"
    return Assembled(
        model=model,
        template=ended_by(template, read_generation(folder), tokenizer),
        transform=parts.input_of(lambda: model.vision),
        provenance={"vision": said, "projector": said, "language": narrow},
    )


def load_release(
    parts: VolumeParts,
    release: Release,
    stored: Stored,
    tokenizer: PreTrainedTokenizerFast,
    *,
    where: str,
    dtype: torch.dtype,
) -> VisionLanguageModel:
    """Returns the model with the release's weights; all names and shapes are checked before the first is read.

    Args:
        parts: The parts at full size; the size of the vocabulary is that of the stored embeddings.
        tokenizer: The tokenizer, which may not have more tokens than the checkpoint has embeddings.
    """
    if release.embeddings not in stored.outline:
        raise ValueError(f"{where}: not {release.key_map.checkpoint}; it has no {release.embeddings}")
    rows = int(stored.outline[release.embeddings].shape[0])
    if len(tokenizer) > rows:
        raise ValueError(
            f"{where}: the tokenizer has {len(tokenizer)} tokens, and the embeddings of {release.key_map.checkpoint} "
            f"have {rows} rows; take the tokenizer of this checkpoint"
        )
    language = deepcopy(parts.language)
    language.vocab_size = rows
    if language.pad_token_id is not None and language.pad_token_id >= rows:
        language.pad_token_id = None
    # The weights take no memory until they are read. Buffers are built at once, because some of them (the rotary
    # angles) are computed and not stored in the files.
    with init_empty_weights(include_buffers=False):
        model = modules(replace(parts, language=language))
    outline = {name: read() for name, read in release.adjust(at_hand(stored.outline)).items()}
    check_published(model, outline, release.key_map, where=where)
    types = {"vision": torch.float32, "projector": torch.float32, "language": dtype}
    load_published(model, release.adjust(stored.tensors), release.key_map, where=where, dtypes=types)
    return model


def as_configured(language: PreTrainedConfig, path: Path) -> PreTrainedConfig:
    """Returns the configuration of a language model with the sizes that a release's config.json states.

    Without that file, the published sizes stay.
    """
    if not path.is_file():
        return language
    said = read_json(path)
    if "hidden_size" not in said:
        raise ValueError(f"{path}: not the configuration of a language model; it has no hidden_size")
    if said.get("rope_scaling"):
        raise ValueError(
            f"{path}: rope_scaling is {said['rope_scaling']!r}; the release has none. Is it another model?"
        )
    configured: Any = deepcopy(language)
    for name in _SIZES:
        if said.get(name) is not None and hasattr(configured, name):
            setattr(configured, name, said[name])
    if "num_key_value_heads" not in said and "num_attention_heads" in said:
        configured.num_key_value_heads = said["num_attention_heads"]
    if said.get("rope_theta") is not None:
        configured.rope_parameters = {**configured.rope_parameters, "rope_theta": float(said["rope_theta"])}
    if getattr(language, "head_dim", None) is not None:
        configured.head_dim = configured.hidden_size // configured.num_attention_heads
    result: PreTrainedConfig = configured
    return result


def _tokenizer_of(release: Release, folder: Path) -> Path:
    inside = [folder, *(folder / name for name in release.tokenizer)]
    hub = release.tokenizer_hub
    what = release.key_map.checkpoint
    if hub is None:
        return tokenizer_folder(inside, of=what)
    try:
        return tokenizer_folder(inside, of=what)
    except FileNotFoundError as error:
        try:
            return tokenizer_folder([release_folder(hub, f"the tokenizer of {what}", SMALL)], of=what)
        except (ValueError, FileNotFoundError) as unreached:
            raise FileNotFoundError(
                f"{error}. It lies in a repository of its own, {hub}: copy its tokenizer files and config.json into "
                f"{folder / release.tokenizer[0]} ({unreached})"
            ) from unreached


def _family(parts: VolumeParts, tokenizer: PreTrainedTokenizerFast, folder: Path) -> ContextLimited:
    try:
        return parts.limited(tokenizer)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def _files_text(paths: list[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} files)"
