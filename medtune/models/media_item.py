"""Reads one media item from disk and prepares it for a model's tower."""

from __future__ import annotations

from collections.abc import Callable

from medtune.data.media.load import load_media
from medtune.data.types import Media, MediaRef
from medtune.models.contract import MediaItem, Transform
from medtune.models.volumes.volume_input import VolumeInput


def unchanged(media: Media) -> Media:
    """Returns the media item as it was decoded."""
    return media


def read_item(ref: MediaRef, transform: Transform, *, change: Callable[[Media], Media] = unchanged) -> MediaItem:
    """Returns one media item, decoded and prepared for the tower; training may change it in between, but not its size.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file cannot be decoded, or the model cannot take it; the message names the file.
    """
    if isinstance(transform, VolumeInput) and ref.kind == "volume":
        return transform.read(ref) if change is unchanged else transform.changed(ref, change)
    media = load_media(ref, transform.sampling)
    try:
        return transform(change(media))
    except ValueError as error:
        raise ValueError(f"{ref.path}: {error}") from error
