"""Loads checkpoints of transformers' vision-language models from the hub or a folder; refuses incomplete ones."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForMultimodalLM, AutoProcessor, PreTrainedConfig, PreTrainedModel

from medtune.data.media.volumes.axial_pictures import AxialPictures, axial_pictures
from medtune.data.types import Sampling
from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.contract import Assembled
from medtune.models.sequence.chat_template import opened_thought, set_date, set_thinking
from medtune.models.sequence.end_tokens import ended_by
from medtune.models.sharding.of_transformers import as_if_loaded, loaded_type
from medtune.models.sharding.unread import weights_stay_unread
from medtune.models.transformers_vlm.conversation import PREFIX_TEMPLATE, marks_prefix
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.transformers_vlm.originals.read import original_in, original_tensors, read_original
from medtune.models.weights.folder_check import why_unread
from medtune.models.weights.hub import SMALL_FILES, checkpoint_folder, commit_of, described, kept_folder
from medtune.models.weights.loading_options import DEFAULT, OF_VOLUMES, Loading
from medtune.models.weights.tokenizer import refuse_no_length, refuse_own_code

VIDEO_FRAMES = 16
"""Frames of a video where the recipe names no number; more would add little to a few seconds of ultrasound."""


def hub_entry(
    title: str, licence: str, family: str, *, hub: HubWeights, config: Callable[[], PreTrainedConfig]
) -> ZooEntry:
    """Returns the zoo entry of a model whose weights are on the hub.

    Args:
        title: One line on the model, for `medtune list` and reports.
        hub: The repository with the weights; a recipe's model.weights takes its place.
        config: Returns the configuration at full size, from which the model is built without weights where no
            config.json of a recipe's model.weights is on this machine.
    """
    found = find_family(family)

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        return pretrained(loading.weights or hub.repo_id, found, loading)

    def without_weights(loading: Loading = DEFAULT, /) -> TransformersVlm:
        return skeleton(_own_config(loading, found) or config(), found)

    return ZooEntry(
        title,
        licence,
        assemble,
        without_weights,
        hub,
        family=family,
        takes=taken_fields(found),
        published=original_tensors,
    )


def _own_config(loading: Loading, family: Family) -> PreTrainedConfig | None:
    folder = None if loading.weights is None else kept_folder(loading.weights, loading.revision)
    if folder is None or not (folder / "config.json").is_file():
        return None
    config = config_in(folder, described(str(loading.weights), folder))
    return config if family.reads(config) else None


def taken_fields(family: Family) -> tuple[str, ...]:
    """Returns the names of the recipe's fields (`Loading`) that the models of a family take."""
    images = ("image_max_pixels",) if family.any_size else ()
    videos = () if family.video is None else ("video_frames", "video_frames_per_s", *OF_VOLUMES)
    limited = () if family.limit_videos is None else ("video_max_pixels",)
    return ("weights", "revision", "dtype", "thinking", *images, *videos, *limited)


def skeleton(config: PreTrainedConfig, family: Family) -> TransformersVlm:
    """Returns the model without weights, on the meta device."""
    with torch.device("meta"):
        return TransformersVlm(AutoModelForMultimodalLM.from_config(config, trust_remote_code=False), family.wiring)


def pretrained(where: str, family: Family, loading: Loading) -> Assembled:
    """Returns the model of a hub repository or a local folder.

    Raises:
        AssetError: The files are not on this machine, and the hub did not give them.
    """
    # What is small is read and checked first, because the weights may take hours to come.
    folder = checkpoint_folder(where, what="configuration", revision=loading.revision, files=SMALL_FILES)
    said = described(where, folder)
    config = config_in(folder, said)
    if not family.reads(config):
        wanted = " or ".join(family.model_types) + (
            f" with a tower of {' or '.join(family.towers)}" * bool(family.towers)
        )
        raise ValueError(f"{said}: a model of type {config.model_type!r}; wanted {wanted} (model.name: auto reads any)")
    processor = read_processor(folder, said)
    set_thinking(processor, loading.thinking)
    refuse_pixel_limits(family, loading)
    _limit_images(processor, family, loading, where=said)
    if family.limit_videos is not None:
        family.limit_videos(processor, loading.video_max_pixels, config.get_text_config().max_position_embeddings)
    pinned = commit_of(folder) or loading.revision
    folder = checkpoint_folder(where, what="weights", revision=pinned, files=(*SMALL_FILES, *shards_of(folder)))
    assembled = put_together(read_weights(folder, said, loading), processor, family, loading, where=said)
    assembled.provenance.update(words_of(folder))
    return assembled


def put_together(whole: PreTrainedModel, processor: Any, family: Family, loading: Loading, *, where: str) -> Assembled:
    """Returns the assembled model of a transformers model and its processor.

    Args:
        where: Folder, or hub id and commit, from which the weights come, for reports.
    """
    config: Any = whole.config
    sequence = family.sequence(processor, config=config, max_tokens=config.get_text_config().max_position_embeddings)
    return Assembled(
        model=TransformersVlm(whole, family.wiring),
        template=ended_by(sequence, whole.generation_config, processor.tokenizer),
        transform=ProcessorTransform(
            processor,
            family.pixels,
            getattr(type(processor), "images_kwargs", {}),
            family.video,
            _sampling(loading, family),
            _volumes(loading, family),
        ),
        provenance=dict.fromkeys(("vision", "projector", "language"), f"{where}, {loading.dtype}")
        | set_date(processor),
        opened=opened_thought(processor),
    )


def _limit_images(processor: Any, family: Family, loading: Loading, *, where: str) -> None:
    most = loading.image_max_pixels
    if most is None:
        return
    size = dict(processor.image_processor.size)
    least = -(-size["shortest_edge"] // family.image_frames)
    if least > most:
        raise ValueError(f"model.image_max_pixels is {most}; {where} wants at least {least}")
    processor.image_processor.size = {**size, "longest_edge": most * family.image_frames}


def refuse_pixel_limits(family: Family, loading: Loading) -> None:
    """Refuses `model.image_max_pixels` and `video_max_pixels` for a family that scales media to a size of its own."""
    if loading.image_max_pixels is not None and not family.any_size:
        raise ValueError(
            f"model.image_max_pixels is set, but {family.model_types[0]} scales every image to its own size"
        )
    if loading.video_max_pixels is not None and family.limit_videos is None:
        raise ValueError(
            f"model.video_max_pixels is set, but {family.model_types[0]} takes no videos or scales every frame to its "
            "own size"
        )


def _sampling(loading: Loading, family: Family) -> Sampling | None:
    asked = (loading.video_frames, loading.video_frames_per_s)
    if family.video is None:
        if asked != (None, None):
            raise ValueError(f"model.video_frames is set, but {family.model_types[0]} takes no videos")
        return None
    return Sampling(loading.video_frames or VIDEO_FRAMES, loading.video_frames_per_s)


def _volumes(loading: Loading, family: Family) -> AxialPictures | None:
    if loading.volumes_as is None:
        return None
    if family.video is None:
        raise ValueError(
            f"model.volumes_as is set, but {family.model_types[0]} takes no videos, and a volume is shown as so many "
            "frames; choose another model.name"
        )
    return axial_pictures(loading.volumes_as, at_most=loading.video_frames)


def config_in(folder: Path, said: str) -> PreTrainedConfig:
    """Returns the configuration of a checkpoint, which may be in the layout of its authors' own code.

    Args:
        said: The checkpoint in words, for messages.
    """
    original = original_in(folder)
    config: PreTrainedConfig = original.config if original else _read(AutoConfig, folder, said, what="config.json")
    return thinker_of(config) or config


def thinker_of(config: Any) -> Any:
    """Returns the configuration of the part that sees and writes, of a model that speaks too; None for other models."""
    return getattr(config, "thinker_config", None)


def words_of(folder: Path) -> Mapping[str, str]:
    """Returns what weights.json says of prompts and tokens of a checkpoint in its authors' own layout."""
    if original := original_in(folder):
        return original.words
    merged = {"adapters": "none lie beside the weights (vision-lora), which are taken as they are"}
    return merged if config_in(folder, str(folder)).model_type == "phi4_multimodal" else {}


def shards_of(folder: Path) -> tuple[str, ...]:
    """Returns the patterns of a checkpoint's files of weights, of which its small files are here."""
    torch_files = (folder / "pytorch_model.bin.index.json").is_file() and original_in(folder) is not None
    return ("*.safetensors", *(["pytorch_model*.bin"] if torch_files else []))


def read_processor(folder: Path, said: str) -> Any:
    """Returns the checkpoint's processor.

    Args:
        said: The checkpoint in words, for messages.
    """
    original = original_in(folder)
    kept = "processor (preprocessor_config.json, tokenizer.json)"
    processor = original.processor() if original else _read(AutoProcessor, folder, said, what=kept)
    if not hasattr(processor, "image_processor"):
        raise ValueError(f"{said}: no image processor; copy preprocessor_config.json beside config.json")
    refuse_no_length(getattr(processor, "tokenizer", None), folder)
    if not getattr(processor, "chat_template", None):
        # Phi-4-multimodal's processor leaves the template to its tokenizer.
        processor.chat_template = PREFIX_TEMPLATE if marks_prefix(processor) else processor.tokenizer.chat_template
    return processor


def read_weights(folder: Path, said: str, loading: Loading, *, attention: str | None = "sdpa") -> PreTrainedModel:
    """Returns the model of transformers with its weights.

    Args:
        attention: Name of the attention's implementation; None takes the one that transformers chooses.
    """
    if original := original_in(folder):
        return read_original(original, folder, loading, attention=attention)
    model, report = _read(
        AutoModelForMultimodalLM,
        folder,
        said,
        what="weights (.safetensors)",
        dtype=loaded_type(folder, loading.dtype),
        attn_implementation=attention,
        use_safetensors=True,
        output_loading_info=True,
        **_thinker_alone(folder, said),
    )
    # transformers itself fills missing weights with random numbers and only warns.
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise ValueError(
                f"{said}: the weights are not those of its config.json: {len(report[kind])} {kind.replace('_', ' ')}, "
                f"for instance {sorted(map(str, report[kind]))[:3]}"
            )
    whole: PreTrainedModel = model
    if weights_stay_unread():
        as_if_loaded(whole, getattr(torch, loading.dtype), AutoModelForMultimodalLM)
    return whole


def _thinker_alone(folder: Path, said: str) -> dict[str, Any]:
    thinker = thinker_of(_read(AutoConfig, folder, said, what="config.json"))
    return {} if thinker is None else {"config": thinker}


def _read(kind: Any, folder: Path, said: str, *, what: str, **settings: Any) -> Any:
    try:
        return kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **settings)
    except Exception as error:
        refuse_own_code(folder, said, error)
        raise ValueError(f"{said}: cannot read its {what}: {why_unread(error)}") from error
