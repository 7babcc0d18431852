"""Gives the transform of a model over volumes without the model, to fill the cache of volumes and to count its size."""

from medtune.models.assemble import zoo_entry
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.weights.export import assemble_model, check_loading, is_exported
from medtune.models.weights.loading_options import CODES, DEFAULT, Loading


def volume_input(name: str, seed: int, loading: Loading = DEFAULT) -> VolumeInput | None:
    """Returns the transform that `assemble_model` gives a model over volumes; None where it reads no volumes as such.

    No weights are loaded, except where the tower itself makes the input (codes): then the tower is, and the whole model
    where the tower lies in an exported folder or has an adapter.

    Args:
        name: Name of the zoo entry.
        seed: Seed of weights that are drawn at random.
        loading: The recipe's settings.

    Raises:
        AssetError: The weights of the tower cannot be downloaded.
    """
    entry = zoo_entry(name, loading.weights)
    check_loading(name, entry, loading)
    is_changed = loading.adapter is not None or (loading.weights is not None and is_exported(loading.weights))
    if loading.variant == CODES and is_changed:
        transform = assemble_model(name, seed, loading).transform
        return transform if isinstance(transform, VolumeInput) else None
    return entry.volume_input(seed, loading)
