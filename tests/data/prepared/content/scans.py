"""Scans of different simulated bodies, and one scan in every format and form in which a volume may be stored."""

from collections.abc import Sequence
from pathlib import Path

import nibabel
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.splits import Division, Fractions
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import MediaKind, MediaRef, Question, Split
from tests.data.media.volumes.synthetic_volumes import series

SPACING_MM = (1.5, 1.25, 2.5)
LPS = np.diag([-SPACING_MM[0], -SPACING_MM[1], SPACING_MM[2], 1.0])


def body(seed: int, shape: tuple[int, int, int] = (40, 36, 30)) -> NDArray[np.int16]:
    """Returns smooth structures within the range of soft tissue, others for every seed."""
    noise = gaussian_filter(np.random.default_rng(seed).normal(size=shape), 3)
    body_hu: NDArray[np.int16] = np.rint(60 + 120 * noise / noise.std()).clip(-1000, 1500).astype(np.int16)
    return body_hu


def write_forms(folder: Path, hu: NDArray[np.int16]) -> dict[str, Path]:
    """Writes one scan as .nii and .nii.gz, with a scale, as float64, turned, and as a DICOM series."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: folder / name for name in ("scan.nii", "scan.nii.gz", "scaled.nii.gz", "floats.nii", "turned.nii")}
    write_nifti(found["scan.nii"], hu, LPS)
    write_nifti(found["scan.nii.gz"], hu, LPS)
    # The stored numbers are twice the distance from -1024 HU, as the slope and the intercept say.
    scaled = nibabel.Nifti1Image(((hu.astype(np.int32) + 1024) * 2).astype(np.int16), LPS)
    scaled.header.set_slope_inter(0.5, -1024)
    nibabel.save(scaled, found["scaled.nii.gz"])
    write_nifti(found["floats.nii"], hu.astype(np.float64), LPS)
    # The same body with i to the head, j to the right and k to the front.
    turned = np.zeros((4, 4))
    turned[2, 0], turned[0, 1], turned[1, 2], turned[3, 3] = SPACING_MM[2], SPACING_MM[0], SPACING_MM[1], 1
    write_nifti(found["turned.nii"], np.ascontiguousarray(hu[::-1, ::-1].transpose(2, 0, 1)), turned)
    found["series"] = series(folder / "series", hu, spacing=SPACING_MM)
    return found


def prepared(
    paths: Sequence[Path],
    splits: Sequence[Split | None],
    out: Path,
    *,
    kind: MediaKind = "volume",
    split_lookalikes: bool = False,
    keep_leaks: bool = False,
) -> Prepared:
    """Prepares a question about each file, each of its own patient."""
    questions = [
        Question(f"q{n}", f"m{n}", "?", ("a", "b"), "ab"[n % 2], "choice", f"{out.name}SECRET{n}", split=split)
        for n, split in enumerate(splits)
    ]
    table = SourceTable(questions, {f"m{n}": (MediaRef(path, kind=kind),) for n, path in enumerate(paths)})
    source = Source("t", "CC0", "https://example.org", "released", "file", lambda root, seed, scratch: table, None)
    raw = out.parent / "raw"
    raw.mkdir(exist_ok=True)
    fractions = Fractions(0.4, 0.3, 0.3)
    division = Division(fractions=fractions, split_lookalikes=split_lookalikes, keep_leaks=keep_leaks)
    return prepare(source, benchmark="x", root=raw, out=out, division=division, max_rejected=0.5)


def write_bodies(folder: Path, seeds: Sequence[int]) -> list[Path]:
    """Writes scans of different bodies."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{seed}.nii" for seed in seeds]
    for seed, path in zip(seeds, paths, strict=True):
        write_nifti(path, body(seed), LPS)
    return paths
