"""Reads one media item from disk and prepares it for a model's tower."""

from collections.abc import Callable

from medtune.data.media.load import load_media
from medtune.data.types import Media, MediaRef
from medtune.models.contract import MediaItem, Transform
from medtune.models.volumes.volume_input import VolumeInput


def unchanged(media: Media) -> Media:
    """Returns the media item as it was decoded."""
    return media


def read_item(ref: MediaRef, transform: Transform, *, change: Callable[[Media], Media] = unchanged) -> MediaItem:
    """Returns one media item, decoded and prepared for the tower.

    Args:
        ref: The files of the media item.
        transform: The preparation for the tower.
        change: A change of the decoded item, which training makes before the preparation; it must keep the size.
    """
    if isinstance(transform, VolumeInput) and ref.kind == "volume":
        return transform.read(ref) if change is unchanged else transform.changed(ref, change)
    media = load_media(ref, transform.sampling)
    try:
        return transform(change(media))
    except ValueError as error:
        raise ValueError(f"{ref.path}: {error}") from error
