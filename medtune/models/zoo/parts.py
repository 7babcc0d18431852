"""Models whose tower, projector and language model a recipe chooses by name.

Images, clips and volumes go the same way: the tower gives a grid of features with three axes, the projector turns the
grid into tokens of the language model's width, and any causal language model of transformers reads them. A tower over
pictures (timm:ENCODER) has the pictures as its first axis: one for an image, the frames of a clip, or the slices of a
volume. A tower over volumes reads voxels, in the preparation that `model.variant` names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import PIL.Image
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, PreTrainedModel

from medtune.data.catalog import nearest
from medtune.data.media.volumes.axial_pictures import axial_pictures
from medtune.data.media.volumes.transforms import ct_chat, m3d, merlin
from medtune.data.media.volumes.transforms.pocket import POCKET
from medtune.data.media.volumes.transforms.transform import VolumeTransform
from medtune.models import smollm2
from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled, Transform
from medtune.models.nano import byte_tokenizer
from medtune.models.nano.volume import llama
from medtune.models.pictures import PictureInput
from medtune.models.projectors import Projector, find_projector
from medtune.models.sequence.chat_template import ChatTemplate, set_date
from medtune.models.sequence.chatml import CLOSE, OPEN, ChatML
from medtune.models.sequence.end_tokens import ContextLimited, ended_by
from medtune.models.sharding.unread import read
from medtune.models.smollm2 import LanguageModel
from medtune.models.towers import Size, Tower, find_tower
from medtune.models.towers.timm_tower import PREFIX, find_encoder
from medtune.models.vlm import VisionLanguageModel
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.causal_language import context_of, load_language
from medtune.models.weights.folder_check import why_unread
from medtune.models.weights.loading_options import BLIND, DEFAULT, OF_VOLUMES, Loading, refuse_loading
from medtune.models.weights.releases.release_folder import release_folder

_TAKES = ("revision", "dtype", "vision", "projector", "language")
"""Fields that all of these models take; a revision is that of `model.language`."""
_OVER_PICTURES = ("video_frames", *OF_VOLUMES)
_UNSEEN = "nothing is shown: a blind run"


class Preparation(NamedTuple):
    """A preparation of volumes for towers over voxels."""

    transform: VolumeTransform  # Turns a volume into the tower's input.
    size: Size  # Number of voxels along each axis of that input.


PREPARATIONS: Mapping[str, Preparation] = {
    "organs": Preparation(POCKET, POCKET.shape),
    "m3d": Preparation(m3d.HU_MINMAX, m3d.HU_MINMAX.size),
    "merlin": Preparation(merlin.PUBLIC, merlin.PUBLIC.size),
    "ct_chat": Preparation(ct_chat.ENCODE, (ct_chat.ENCODE.size[2], *ct_chat.ENCODE.size[:2])),
}
"""The values of `model.variant` for towers over voxels; the first is the default."""


@dataclass(frozen=True, slots=True)
class OwnParts:
    """The parts of a model where the recipe names none."""

    vision: str
    projector: str
    # Returns the language model, which reads ChatML; random weights are drawn from torch's generator.
    language: Callable[[], LanguageModel]
    # Returns the configuration of that language model, for building it without weights.
    architecture: Callable[[], PreTrainedConfig]
    crops_organs: bool = False  # Whether the model sees only a crop around the organ that a question is about.


class _Eyes(NamedTuple):
    name: str
    tower: Tower
    transform: Transform


def parts_entry(name: str, title: str, own: OwnParts, *, twin: bool = False) -> ZooEntry:
    """Returns the zoo entry of a model with the parts that `model.vision`, `projector` and `language` name.

    Args:
        own: The parts where the recipe names none.
        twin: Whether its language model is tiny and random, for tests.
    """

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        eyes, bridge = _chosen(name, own, loading)
        torch.manual_seed(seed)
        language = _language(own, loading)
        template = ChatML if loading.language is None else ChatTemplate
        lays_out = template(language.tokenizer, num_media_tokens=bridge.num_tokens)
        torch.manual_seed(seed)
        untrained = f"random (seed {seed}); untrained at zero-shot" if bridge.num_tokens else _UNSEEN
        vision, seen = (eyes.tower.build(), untrained) if eyes.tower.load is None else eyes.tower.load()
        return Assembled(
            model=_model(vision, bridge, language.model),
            template=ContextLimited(
                ended_by(lays_out, language.model.generation_config, language.tokenizer),
                max_tokens=context_of(language.model.config),
            ),
            transform=eyes.transform,
            provenance={
                "vision": seen if eyes.tower.load is not None else f"{eyes.name}, {seen}",
                "projector": f"{loading.projector or own.projector}, {untrained}",
                "language": language.provenance,
                **set_date(language.tokenizer),
            },
        )

    def skeleton(loading: Loading = DEFAULT, /) -> VisionLanguageModel:
        eyes, bridge = _chosen(name, own, loading)
        config = own.architecture() if loading.language is None else _config(loading.language, loading.revision)
        with torch.device("meta"):
            return _model(eyes.tower.build(), bridge, AutoModelForCausalLM.from_config(config, trust_remote_code=False))

    def volume_input(_: int, loading: Loading) -> VolumeInput | None:
        transform = _chosen(name, own, loading)[0].transform
        return transform if isinstance(transform, VolumeInput) else None

    return ZooEntry(
        title,
        "Apache-2.0",
        assemble,
        skeleton,
        by_organ=own.crops_organs,
        twin=twin,
        takes=(*_TAKES, *_over_voxels_takes(own), *(() if own.crops_organs else _OVER_PICTURES)),
        volume_input=volume_input,
    )


def _over_voxels_takes(own: OwnParts) -> tuple[str, ...]:
    return () if own.crops_organs else ("variant",)


def _blind(name: str, own: OwnParts, loading: Loading) -> tuple[_Eyes, Projector]:
    if own.crops_organs or loading.projector is not None:
        raise ValueError(f"model.vision {BLIND}: nothing is shown then; take model.name=parts and no model.projector")
    refuse_loading(loading, takes=_TAKES, name=f"{name} with {BLIND}")
    # A recipe's questions come without their media (`as_seen`); the made-up ones of an export's proof have some.
    seen = PictureInput(_no_pixels, takes_videos=True, volumes=axial_pictures("slices", at_most=None))
    return _Eyes(BLIND, Tower(nn.Identity, 0, (0, 0, 0)), seen), Projector(lambda _: nn.Identity(), 0)


def _no_pixels(_: PIL.Image.Image) -> Tensor:
    return torch.zeros(3, 1, 1)


def _chosen(name: str, own: OwnParts, loading: Loading) -> tuple[_Eyes, Projector]:
    vision = loading.vision or own.vision
    if loading.language is None and loading.revision is not None:
        raise ValueError(
            f"{name} does not take model.revision without model.language: it reads nothing else from the hub that has "
            "revisions"
        )
    if vision == BLIND:
        return _blind(name, own, loading)
    if vision.startswith(PREFIX):
        if own.crops_organs:
            raise ValueError(f"model.vision {vision}: {name} reads crops around organs; take model.name=parts for it")
        refuse_loading(loading, takes=(*_TAKES, *_OVER_PICTURES), name=f"{name} with {vision}")
        eyes = _over_pictures(vision, loading)
    else:
        refuse_loading(loading, takes=(*_TAKES, *_over_voxels_takes(own)), name=f"{name} with {vision}")
        eyes = _over_voxels(vision, loading.variant)
    return eyes, find_projector(loading.projector or own.projector, eyes.tower)


def _over_pictures(vision: str, loading: Loading) -> _Eyes:
    shown = None
    if loading.volumes_as is not None:
        shown = axial_pictures(loading.volumes_as, at_most=loading.video_frames)
    pictures = loading.video_frames or (1 if shown is None else shown.at_most)
    encoder = find_encoder(vision, pictures=pictures)
    takes_videos = loading.video_frames is not None
    return _Eyes(vision, encoder.tower, PictureInput(encoder.picture, pictures, takes_videos, shown))


def _over_voxels(vision: str, variant: str | None) -> _Eyes:
    chosen = variant or next(iter(PREPARATIONS))
    if chosen not in PREPARATIONS:
        raise ValueError(
            f"model.variant: no {chosen!r}.{nearest(chosen, PREPARATIONS)} There are: {', '.join(PREPARATIONS)}"
        )
    transform, size = PREPARATIONS[chosen]
    return _Eyes(vision, find_tower(vision, size), VolumeInput(transform))


def _language(own: OwnParts, loading: Loading) -> LanguageModel:
    if loading.language is None:
        found = own.language()
        found.model.to(getattr(torch, loading.dtype))
        return found
    return load_language(loading.language, dtype=loading.dtype, revision=loading.revision)


def _config(where: str, revision: str | None) -> PreTrainedConfig:
    folder = release_folder(where, "model.language", revision=revision)
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise ValueError(f"{folder}: no language model that transformers can read: {why_unread(error)}") from error
    return config


def _model(vision: nn.Module, bridge: Projector, language: PreTrainedModel) -> VisionLanguageModel:
    if not bridge.num_tokens:
        return VisionLanguageModel(vision, bridge.build(0), language)
    embeddings = read(language.get_input_embeddings().get_parameter("weight"))
    scale = 1.0 if embeddings.is_meta else float(embeddings.float().square().mean().sqrt())
    width = language.config.hidden_size
    # The norm gives visual tokens the length of the language model's own embeddings from the start, so that they
    # neither vanish beside the tokens of the text nor outweigh them.
    norm = nn.LayerNorm(width)
    nn.init.constant_(norm.weight, scale)
    return VisionLanguageModel(vision, nn.Sequential(bridge.build(width), norm), language)


def parts() -> ZooEntry:
    """parts: any image encoder of timm or 3D tower, projector and causal language model; images, video and CT."""
    return parts_entry(
        "parts",
        "Any image encoder of timm or 3D tower, any projector (untrained) and any causal language model",
        OwnParts("timm:efficientnet_lite0", "mlp", smollm2.load, smollm2.architecture),
    )


def pocket_ct() -> ZooEntry:
    """pocket_ct: any small 3D tower and projector with SmolLM2-135M-Instruct, trainable on a laptop CPU.

    The model sees only a crop around the organ that a question names, because a few hundred training steps hardly teach
    a language model where to look.
    """
    return parts_entry(
        "pocket_ct",
        "A small 3D tower and projector of one's choice (untrained) + SmolLM2-135M-Instruct",
        OwnParts("resnet3d", "linear", smollm2.load, smollm2.architecture, crops_organs=True),
    )


def nano_pocket_ct() -> ZooEntry:
    """nano_pocket_ct: pocket_ct's towers and projectors with a random, tiny language model, only for tests."""
    tokenizer = byte_tokenizer((OPEN, CLOSE), bos=OPEN, eos=CLOSE, pad=CLOSE)

    def architecture() -> LlamaConfig:
        config = llama()
        config.vocab_size = len(tokenizer)
        return config

    def load() -> LanguageModel:
        language = AutoModelForCausalLM.from_config(architecture(), trust_remote_code=False)
        return LanguageModel(language, tokenizer, "random")

    return parts_entry(
        "nano_pocket_ct",
        "A small 3D tower and projector of one's choice + random Llama of width 32; for tests",
        OwnParts("resnet3d", "linear", load, architecture, crops_organs=True),
        twin=True,
    )
