"""The nn models: a model over volumes that sees a crop around target organs instead of the whole scan.

Source: the seed paper's section 4.5 (nnVLM). It crops by nnU-Net's masks; here the masks come with the scans.
"""

from __future__ import annotations

from dataclasses import replace

from medtune.data.media.volumes.transforms.organ_crop import MARGIN_MM, TARGETS, CroppedTransform
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.contract import Assembled
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.weights.loading_options import DEFAULT, Loading


def cropped(name: str) -> ZooEntry:
    """Returns the zoo entry of a model over volumes with a crop before its own preparation.

    The organ is the one that a question is about, and for other questions the organs of the paper's Table 4 in one box.
    `model.crop_organs` names masks for one box that all questions see; `model.crop_margin_mm` is what stays around it.
    """
    whole = zoo_entry(name)

    def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
        assembled = whole.assemble(seed, replace(loading, crop_organs=None, crop_margin_mm=None))
        transform = assembled.transform
        if not isinstance(transform, VolumeInput):
            raise TypeError(f"{name} does not read volumes")
        margin_mm = MARGIN_MM if loading.crop_margin_mm is None else loading.crop_margin_mm
        crop = CroppedTransform(transform.prepare, tuple(loading.crop_organs or TARGETS), margin_mm)
        return replace(assembled, transform=replace(transform, prepare=crop))

    return replace(whole, title=f"{whole.title}; cropped around organs", assemble=assemble, by_organ=True)
