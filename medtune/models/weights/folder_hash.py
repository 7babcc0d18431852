"""Computes the hash of a checkpoint folder, by which two copies of one checkpoint are known as the same."""

import hashlib
from pathlib import Path

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
SAMPLES = 64
SAMPLE_BYTES = 4096
SMALL_BYTES = 64 * 2**20


def weights_hash(folder: Path) -> str:
    """Returns 16 hex digits of a hash of the files of a checkpoint.

    Small files (configuration, tokenizer, template) enter whole. Of a file of weights, its name and size enter, its
    first megabyte, which holds the header of a safetensors file, and samples spread over the rest. The folder's own
    name and the times of its files do not matter.
    """
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and not _hidden(each, folder)):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder)}\n{size}\n".encode())
        with path.open("rb") as file:
            if path.suffix not in WEIGHTS and size <= SMALL_BYTES:
                digest.update(file.read())
                continue
            digest.update(file.read(2**20))
            for number in range(SAMPLES):
                file.seek(size * number // SAMPLES)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)
