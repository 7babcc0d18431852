"""nano_merlin: Merlin's random, tiny twin, only for tests; it reads the full-size volume."""

from __future__ import annotations

from medtune.data.media.volumes.transforms import merlin as preparation
from medtune.models.assemble import ZooEntry
from medtune.models.nano import volume
from medtune.models.nano.twin import Twin
from medtune.models.projectors.linear import linear
from medtune.models.sequence.merlin import Merlin
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.volumes.volume_parts import VolumeParts

TOWER = MerlinResNetConfig(layers=(1, 1, 1, 1), planes=(2, 4, 4, 8), pooled=True)

TWIN = Twin(
    vision=(),
    projector=("projector.each",),
    language=(
        "language.model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "language.model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("projector.each.{weight,bias}",),
    volume=(1, 64, 64, 32),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return volume.nano_entry("Random Merlin of width 32; for tests", parts(), TWIN)


def parts() -> VolumeParts:
    """Returns the parts: Merlin's preparation and its single visual token, with a tiny tower and language model."""
    return VolumeParts(
        vision=lambda: MerlinResNet(TOWER),
        projector=lambda width: linear(TOWER.width, width),
        language=volume.llama(),
        family=lambda tokenizer: Merlin(tokenizer, num_media_tokens=1),
        transform=preparation.PUBLIC,
    )
