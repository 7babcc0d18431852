"""Builds the nn_ models, which see a crop around target organs instead of the whole scan.

Source: the seed paper's section 4.5 (nnVLM). The paper crops by masks of nnU-Net; here the masks come with the scans.
"""

from dataclasses import replace

from medtune.data.media.masks import MARGIN_MM, TARGETS
from medtune.data.media.volumes.transforms.organ_crop import CroppedTransform
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.contract import Assembled
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.loading_options import ASKED, DEFAULT, Loading


def cropped(name: str) -> ZooEntry:
    """Returns the zoo entry of a model over volumes that crops each scan before its own preparation.

    The crop contains the organ that a question is about; for a question about none, all organs of the paper's Table 4.
    `model.crop_organs` names organs whose crop is shown for all questions; `model.crop_margin_mm` is the margin around
    the organs.
    """
    whole = zoo_entry(name)

    def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
        assembled = whole.assemble(seed, _uncropped(loading))
        transform = assembled.transform
        if not isinstance(transform, VolumeInput):
            raise TypeError(f"{name} does not read volumes")
        return replace(assembled, transform=_cropping(transform, loading))

    def volume_input(seed: int, loading: Loading) -> VolumeInput | None:
        transform = whole.volume_input(seed, _uncropped(loading))
        return None if transform is None else _cropping(transform, loading)

    takes = (*whole.takes, "crop_organs", "crop_margin_mm")
    return replace(
        whole,
        title=f"{whole.title}; cropped around organs",
        assemble=assemble,
        volume_input=volume_input,
        by_organ=True,
        takes=takes,
    )


def _uncropped(loading: Loading) -> Loading:
    return replace(loading, crop_organs=None, crop_margin_mm=None)


def _cropping(transform: VolumeInput, loading: Loading) -> VolumeInput:
    margin_mm = MARGIN_MM if loading.crop_margin_mm is None else loading.crop_margin_mm
    named = TARGETS if loading.crop_organs in (None, (ASKED,)) else tuple(loading.crop_organs or ())
    crop = CroppedTransform(transform.prepare, named, margin_mm)
    return replace(transform, prepare=crop)
