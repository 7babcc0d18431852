"""Keeps features in files of a folder, where every run with the same weights, pixels and type finds them again."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

_TENSORS, _DIGEST_BYTES = ".safetensors", 20


class FeatureFiles:
    """One file for each media item: a digest of its content, then the tensors as safetensors.

    A file whose content does not have its digest is made anew. Another version of torch or another kind of device may
    compute other bits, so both are a part of a file's name.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"data.features_dir: {folder} is a file; name a folder, which is made where there is none")
        self.folder = folder
        self._is_full = False

    def read(self, key: bytes, device: torch.device) -> tuple[Tensor, ...] | None:
        """Returns what is kept of an item, in the host's memory; None where there is no whole file of it."""
        try:
            content = self._path(key, device).read_bytes()
        except FileNotFoundError:
            return None
        stated, tensors = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha1(tensors).digest() != stated:
            return None
        try:
            found: Mapping[str, Tensor] = load(tensors)
        except SafetensorError:
            return None
        return tuple(found[str(number)] for number in range(len(found)))

    def write(self, key: bytes, kept: tuple[Tensor, ...]) -> None:
        """Writes a file as a whole or not at all; on a disk that takes no more, it says so once and writes no more."""
        if self._is_full:
            return
        path = self._path(key, kept[0].device)
        content = save({str(number): each.detach().cpu().contiguous() for number, each in enumerate(kept)})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha1(content).digest() + content)
                Path(name).replace(path)
            finally:
                Path(name).unlink(missing_ok=True)
        except OSError as error:
            self._is_full = True
            print(
                f"data.features_dir: {self.folder} takes no more ({error.strerror}); what it holds is still read, and "
                "the rest is made anew",
                file=sys.stderr,
                flush=True,
            )

    def _path(self, key: bytes, device: torch.device) -> Path:
        kind = device.type if device.type == "cpu" else torch.cuda.get_device_name(device)
        name = hashlib.sha1(key + f"{torch.__version__} {kind}".encode()).hexdigest()
        return self.folder / name[:2] / f"{name[2:]}{_TENSORS}"
