"""Loads a model over volumes from a release: the folder that its authors publish, or a local copy of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

from accelerate import init_empty_weights
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.contract import Assembled
from medtune.models.sequence.end_tokens import ended_by, read_generation
from medtune.models.vlm import VisionLanguageModel
from medtune.models.volumes.volume_parts import VolumeParts, chosen, modules, skeleton
from medtune.models.weights.assets import AssetError
from medtune.models.weights.keymaps.key_map import KeyMap, load_published, translate
from medtune.models.weights.keymaps.read_file import read_tensors
from medtune.models.weights.loading_options import DEFAULT, Loading, refuse_loading


@dataclass(frozen=True, slots=True)
class Release:
    """The files that a release's folder holds, and how they are read.

    Attributes:
        files: Pattern for the names of the checkpoint's files.
        key_map: The rules that translate the names of the tensors.
        embeddings: Published name of the input embeddings, whose number of rows is the size of the vocabulary.
        adjust: A change to the tensors before they are renamed.
    """

    files: str
    key_map: KeyMap
    embeddings: str
    adjust: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] = dict


def release_entry(
    title: str, licence: str, variants: Mapping[str, VolumeParts], release: Release, *, hub: str | None
) -> ZooEntry:
    """Returns the zoo entry of a release.

    Args:
        title: One line on the model.
        licence: Licence of the weights.
        variants: The parts at full size, by the name of the preparation; the first is the default.
        release: The files of the release.
        hub: Hub id of the repository; None where the hub has none in a form that can be read.
    """

    def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
        refuse_loading(replace(loading, weights=None, variant=None), name=title)
        parts = chosen(variants, loading.variant)
        return assemble_release(parts, release, release_folder(loading.weights or hub, release.key_map.checkpoint))

    return ZooEntry(
        title,
        licence,
        assemble,
        lambda: skeleton(chosen(variants, None)),
        hub=None if hub is None else HubWeights(hub, gated=False),
        files=(release.files,),
        folder=None if hub is not None else f"{release.key_map.checkpoint} ({release.files}) and its tokenizer",
        variants=variants,
        published=lambda folder: published_tensors(release, folder),
    )


def published_tensors(release: Release, folder: Path) -> Mapping[str, Tensor]:
    """Returns the tensors of a release's folder under the names of the model here.

    Raises:
        FileNotFoundError: The folder holds no checkpoint.
        ValueError: The files are damaged, or are those of another model.
    """
    paths = sorted(folder.glob(release.files))
    return translate(release.adjust(read_tensors(paths)), release.key_map, where=str(folder))


def release_folder(where: str | None, what: str) -> Path:
    """Returns the folder of a release: a local one, or one that is downloaded once from the hub.

    Args:
        where: Local folder or hub id; None where the user named no folder and the hub has none.
        what: Name of the checkpoint in words, for messages.

    Raises:
        AssetError: There is no such folder, and the hub cannot be reached or has no such repository.
    """
    if where is None:
        raise AssetError(f"{what} is not on the hub in a form that can be read; give the local folder that holds it")
    if Path(where).is_dir():
        return Path(where)
    try:
        return Path(snapshot_download(where))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise AssetError(f"{what}: {where} is no local folder, and the hub did not give it ({error})") from error


def load_release(parts: VolumeParts, release: Release, folder: Path) -> VisionLanguageModel:
    """Returns the model with the release's weights; all weights come from the files.

    Raises:
        FileNotFoundError: The folder, or the checkpoint in it, is missing.
        ValueError: The files are damaged, or are those of another model.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder} with {release.key_map.checkpoint}")
    paths = sorted(folder.glob(release.files))
    if not paths:
        raise FileNotFoundError(f"{folder}: no {release.files}, which is where {release.key_map.checkpoint} should be")
    tensors = release.adjust(read_tensors(paths))
    if release.embeddings not in tensors:
        raise ValueError(f"{folder}: not {release.key_map.checkpoint}; it has no {release.embeddings}")
    language = deepcopy(parts.language)
    language.vocab_size = int(tensors[release.embeddings].shape[0])
    # The weights take no memory until they are read. Buffers are built at once, because some of them (the rotary
    # angles) are computed and not stored in the files.
    with init_empty_weights(include_buffers=False):
        model = modules(replace(parts, language=language))
    load_published(model, tensors, release.key_map, where=str(folder))
    return model


def assemble_release(parts: VolumeParts, release: Release, folder: Path) -> Assembled:
    """Returns the release's model with its weights, and with the tokenizer that is in the same folder.

    Raises:
        FileNotFoundError: The folder, or the checkpoint in it, is missing.
        ValueError: The files are damaged, or are those of another model.
    """
    model = load_release(parts, release, folder)
    tokenizer = read_tokenizer(folder)
    said = f"{release.key_map.checkpoint}, from {folder.name}"
    return Assembled(
        model=model,
        family=ended_by(parts.limited(tokenizer), read_generation(folder), tokenizer),
        transform=parts.input_of(model.vision),
        provenance=dict.fromkeys(("vision", "projector", "language"), said),
    )


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Returns the tokenizer in a folder.

    Raises:
        ValueError: The folder holds no tokenizer that transformers can read without running code from the folder.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{folder}: no tokenizer (tokenizer.json or tokenizer.model) that can be read: {error}"
        ) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(f"{folder}: the tokenizer is not one of the tokenizers library; save it as tokenizer.json")
    return tokenizer
