"""Loads any vision-language checkpoint of transformers: by its family where it has one, else by the generic entry."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForMultimodalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from medtune.data import catalog
from medtune.data.media.load import Shape
from medtune.data.media.volumes.axial_pictures import AxialPictures, axial_pictures
from medtune.data.types import Sampling, Size
from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.contract import PARTS, Assembled, Model
from medtune.models.sequence.chat_template import opened_thought, set_date, set_thinking
from medtune.models.sequence.end_tokens import ended_by
from medtune.models.transformers_vlm.conversation import Conversations
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.media import GenericTransform, Outputs, processor_outputs
from medtune.models.transformers_vlm.generic.model import GenericVlm, find_parts
from medtune.models.transformers_vlm.loading import (
    VIDEO_FRAMES,
    config_in,
    pretrained,
    read_processor,
    read_weights,
    shards_of,
    skeleton,
    taken_fields,
    words_of,
)
from medtune.models.transformers_vlm.originals.read import original_in, original_tensors
from medtune.models.transformers_vlm.sequences import ProcessorSequences, placeholders_of
from medtune.models.weights.hub import SMALL_FILES, WEIGHT_FILES, checkpoint_folder, commit_of, described, kept_folder
from medtune.models.weights.loading_options import DEFAULT, OF_VOLUMES, Loading, set_fields

_SERVE = "serve it and name it as model.endpoint"
_OF_TEXT_TOO = {"phi4_multimodal"}
"""Values of `model_type` that see, and that transformers has among the models that write and see, speak or hear."""
_TEXT_ALONE = (
    "A model of text alone can be the language model of parts and pocket_ct (model.language); model.name=parts"
)
_TEXT_ALONE += " model.language=IT model.vision=none asks it blind, without images"


def checkpoint_entry(where: str) -> ZooEntry:
    """Returns the entry of a checkpoint of which only the hub id or the folder is known.

    Its config.json says what it is. A `model_type` of a family of medtune is read as that family; any other
    vision-language model of transformers is read by the generic entry.
    """

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        return from_checkpoint(loading.weights or where, loading)

    def without_weights(loading: Loading = DEFAULT, /) -> Model:
        config = read_config(where, loading.revision)
        family = family_of(config) if loading.reader == "family" else None
        return generic_skeleton(config) if family is None else skeleton(config, find_family(family))

    return ZooEntry(
        f"{where}: a checkpoint that is recognised by its config.json",
        "that of the checkpoint, which its model card names",
        assemble,
        without_weights,
        family=_family_here(where),
        takes=(*_fields_taken(_family_here(where)), "reader"),
        files=(*WEIGHT_FILES, "pytorch_model*.bin"),
        published=original_tensors,
    )


def generic_entry(title: str, licence: str, *, hub: HubWeights, config: Callable[[], PreTrainedConfig]) -> ZooEntry:
    """Returns the entry of a model on the hub that the generic entry reads.

    Args:
        title: One line on the model, for `medtune list` and reports.
        hub: The repository with the weights; a recipe's model.weights takes its place.
        config: Returns the configuration at full size, from which the model is built without weights.
    """

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        where = loading.weights or hub.repo_id
        found = read_config(where, loading.revision)
        wanted = config().model_type
        if found.model_type != wanted:
            raise ValueError(
                f"{where}: a model of type {found.model_type!r}; wanted {wanted!r} (model.name: auto reads any)"
            )
        return read_generic(where, found, loading)

    return ZooEntry(
        title, licence, assemble, lambda _=DEFAULT: generic_skeleton(config()), hub, takes=_fields_taken(None)
    )


def _fields_taken(family: str | None) -> tuple[str, ...]:
    if family is not None:
        return taken_fields(find_family(family))
    return ("weights", "revision", "dtype", "thinking", "video_frames", "video_frames_per_s", *OF_VOLUMES)


def _family_here(where: str) -> str | None:
    folder = kept_folder(where)
    if folder is None:
        return None
    if original := original_in(folder):
        return family_of(original.config)
    told, _ = PreTrainedConfig.get_config_dict(folder, local_files_only=True)
    if told.get("model_type") not in CONFIG_MAPPING:
        return None
    return family_of(read_config(where, None))


def from_checkpoint(where: str, loading: Loading) -> Assembled:
    """Returns the model of a hub repository or a folder, by its family where it has one, else by the generic entry.

    Raises:
        AssetError: The files are not on this machine, and the hub did not give them.
    """
    config = read_config(where, loading.revision)
    family = family_of(config) if loading.reader == "family" else None
    if family is not None:
        assembled = pretrained(where, find_family(family), loading)
        assembled.provenance.update({part: f"{assembled.provenance[part]}, family {family}" for part in PARTS})
        return assembled
    return read_generic(where, config, loading)


def read_generic(where: str, config: PreTrainedConfig, loading: Loading) -> Assembled:
    """Returns the model of a hub repository or a folder, read by the generic entry.

    Raises:
        AssetError: The files are not on this machine, and the hub did not give them.
    """
    folder = checkpoint_folder(where, what="configuration", revision=loading.revision, files=SMALL_FILES)
    said = described(where, folder)
    processor = read_processor(folder, said)
    set_thinking(processor, loading.thinking)
    try:
        # Everything small is read and tried before the weights.
        reader = generic_reader(processor, config, loading)
        generic_skeleton(config)
    except ValueError as error:
        raise ValueError(f"{said}: {error}") from error
    pinned = commit_of(folder) or loading.revision
    folder = checkpoint_folder(where, what="weights", revision=pinned, files=(*SMALL_FILES, *shards_of(folder)))
    whole = read_weights(folder, said, loading, attention=None)
    origin = f"{said}, {loading.dtype}, generic entry for {config.model_type}"
    provenance: dict[str, str] = {part: f"{origin} ({', '.join(roots)})" for part, roots in find_parts(whole).items()}
    return reader.around(whole, {**provenance, **words_of(folder)})


@dataclass(frozen=True, slots=True)
class GenericReader:
    """What reads questions and media for a checkpoint, made from its processor before the weights are there.

    Attributes:
        outputs: The kinds of the processor's outputs.
        template: Lays out a question as a sequence.
        opened: The text with which the prompt for a reply opens a thought; "" if it opens none.
        day: What weights.json says of the day in prompts.
        marks_prefix: Whether the tokens of a question see one another both ways.
    """

    outputs: Outputs
    template: ProcessorSequences
    transform: GenericTransform
    opened: str
    day: dict[str, str]
    marks_prefix: bool

    def around(self, whole: PreTrainedModel, provenance: dict[str, str]) -> Assembled:
        """Returns the model with its reader.

        Args:
            provenance: Where the weights of each part come from.
        """
        model = GenericVlm(
            whole, self.outputs.by_token, self.outputs.joins, self.outputs.axes, marks_prefix=self.marks_prefix
        )
        template = ended_by(self.template, whole.generation_config, self.template.tokenizer)
        return Assembled(model, template, self.transform, provenance | self.day, opened=self.opened)


def generic_reader(processor: Any, config: Any, loading: Loading) -> GenericReader:
    """Returns what reads questions and media for a checkpoint."""
    conversations = Conversations(processor)
    outputs = processor_outputs(conversations, processor, config)
    _refuse_settings(loading, config.model_type, videos=outputs.video is not None)
    sampling, volumes = _sampling(loading, outputs), _volumes(loading)
    return GenericReader(
        outputs,
        ProcessorSequences(
            processor,
            conversations,
            placeholders=placeholders_of(processor.tokenizer, outputs.visual_ids),
            max_tokens=_context(config),
            refuse=partial(_refuse_several, joins_images=outputs.joins is not None),
        ),
        GenericTransform(conversations, outputs.image, outputs.video, sampling, volumes),
        opened_thought(processor),
        set_date(processor),
        conversations.marks_prefix,
    )


def read_config(where: str, revision: str | None = None) -> PreTrainedConfig:
    """Returns the configuration of a vision-language checkpoint.

    Args:
        where: Local folder or hub id.
        revision: Branch, tag or commit of the repository; None takes its main branch.

    Raises:
        AssetError: It is not on this machine, and the hub did not give it.
    """
    folder = checkpoint_folder(where, what="configuration", revision=revision, files=SMALL_FILES)
    if original := original_in(folder):
        return original.config
    try:
        said, _ = PreTrainedConfig.get_config_dict(folder, local_files_only=True)
    except OSError as error:
        raise ValueError(f"{where}: cannot read its config.json: {str(error).strip().partition(chr(10))[0]}") from error
    if said.get("model_type") is None:
        raise ValueError(
            f"{where}: its config.json names no model_type; a folder of adapters is named by model.adapter, beside "
            "the model that they belong to"
        )
    # Of a model that speaks too, the thinker sees and writes.
    kind = str(said.get("thinker_config", said).get("model_type"))
    if kind not in CONFIG_MAPPING:
        own = "; it comes with code of its own (auto_map), which medtune does not run" if "auto_map" in said else ""
        raise ValueError(
            f"{where}/config.json: transformers {transformers.__version__} has no model of type {kind!r}{own}. Take a "
            f"checkpoint in transformers' own format, or a newer transformers, or {_SERVE}"
        )
    if kind not in {*MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, *_OF_TEXT_TOO, *types_of_families()}:
        raise ValueError(
            f"{where}/config.json: {kind!r} is no vision-language model of transformers that answers in words. "
            f"{_TEXT_ALONE}"
        )
    config = config_in(folder, where)
    if config.is_encoder_decoder or getattr(config.get_text_config(), "is_encoder_decoder", False):
        raise ValueError(
            f"{where}/config.json: {kind!r} has an encoder and a decoder for text; medtune reads models that continue "
            "the question with the answer"
        )
    return config


def family_of(config: Any) -> str | None:
    """Returns the name of the family that reads checkpoints of a configuration; None where there is none."""
    return next((name for name in catalog.names(catalog.FAMILIES) if find_family(name).reads(config)), None)


def types_of_families() -> set[str]:
    """Returns the values of `model_type` of all families."""
    return {kind for name in catalog.names(catalog.FAMILIES) for kind in find_family(name).model_types}


def generic_skeleton(config: PreTrainedConfig) -> GenericVlm:
    """Returns the model without weights, on the meta device."""
    with torch.device("meta"):
        return GenericVlm(AutoModelForMultimodalLM.from_config(config, trust_remote_code=False), {})


def _refuse_several(shapes: Sequence[Shape | None], *, joins_images: bool) -> None:
    if len(shapes) > 1 and not (joins_images and all(isinstance(shape, Size) for shape in shapes)):
        raise ValueError(
            f"{len(shapes)} media items are shown together; the generic entry shows several images where the "
            "checkpoint's processor writes each of them as it writes it alone, and never several videos. Choose a "
            "model with a family (`medtune list models`), or leave such questions out of the prepared folder"
        )


def _context(config: Any) -> int | None:
    found = getattr(config.get_text_config(), "max_position_embeddings", None)
    return None if found is None else int(found)


def _refuse_settings(loading: Loading, model_type: str, *, videos: bool) -> None:
    taken = ["model.weights", "model.revision", "model.dtype", "model.reader", "model.thinking"]
    taken += [f"model.{name}" for name in ("video_frames", "video_frames_per_s", *OF_VOLUMES)] * videos
    if wrong := [name for name in set_fields(loading) if name not in taken]:
        shows = "images and videos" if videos else "images, as the processor or its chat template takes no videos,"
        raise ValueError(
            f"{wrong[0]} is set, but the generic entry, which reads checkpoints of type {model_type!r}, does not take "
            f"it: it shows {shows} in the size that the checkpoint's own processor chooses"
        )


def _sampling(loading: Loading, outputs: Outputs) -> Sampling | None:
    if outputs.video is None:
        return None
    return Sampling(loading.video_frames or VIDEO_FRAMES, loading.video_frames_per_s)


def _volumes(loading: Loading) -> AxialPictures | None:
    return None if loading.volumes_as is None else axial_pictures(loading.volumes_as, at_most=loading.video_frames)
