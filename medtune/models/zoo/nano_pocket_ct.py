"""nano_pocket_ct: pocket_ct's towers and projectors with a random, tiny language model, only for tests."""

from __future__ import annotations

from transformers import AutoModelForCausalLM, LlamaConfig

from medtune.data.media.volumes.transforms.pocket import POCKET
from medtune.models.assemble import ZooEntry
from medtune.models.nano import volume
from medtune.models.nano.transformers_vlm import byte_tokenizer
from medtune.models.nano.twin import Twin
from medtune.models.parts.entry import OwnParts, parts_entry
from medtune.models.pocket.smollm2 import LanguageModel
from medtune.models.sequence.chatml import CLOSE, OPEN

TWIN = Twin(
    vision=("vision.{dense,residual}",),
    projector=("projector.0.each",),
    language=(
        "language.model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "language.model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("projector.0.each.{weight,bias}", "projector.1.{weight,bias}"),
    volume=(1, *POCKET.shape),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return parts_entry(
        "nano_pocket_ct",
        "A small 3D tower and projector of one's choice + random Llama of width 32; for tests",
        OwnParts("resnet3d", "linear", _load, _architecture, crops_organs=True),
        twin=TWIN,
    )


def _architecture() -> LlamaConfig:
    config = volume.llama()
    config.vocab_size = len(byte_tokenizer((OPEN, CLOSE), bos=OPEN, eos=CLOSE, pad=CLOSE))
    return config


def _load() -> LanguageModel:
    tokenizer = byte_tokenizer((OPEN, CLOSE), bos=OPEN, eos=CLOSE, pad=CLOSE)
    return LanguageModel(
        AutoModelForCausalLM.from_config(_architecture(), trust_remote_code=False), tokenizer, "random"
    )
