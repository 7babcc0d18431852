"""Measures a CT of 512 x 512 x 300 with 20 masks for CTLesionVQA's questions, in one process, within a minute and 3 GB.

The plain way reads the same masks and takes volumes and mean HU over the whole grid; both have to agree.
"""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.measuring.measured import Limit, Measured, TwoWays, peak_memory_gb, timed
from medtune.benchmarks.ctlesionvqa.construction.cases import read_facts
from medtune.benchmarks.ctlesionvqa.construction.facts import Facts
from medtune.benchmarks.ctlesionvqa.construction.mask_names import MaskFile
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom import SimulatedPatient, draw
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import USUAL
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import draw_findings
from medtune.data.media.volumes.formats.nifti import read_nifti_labels, write_nifti
from medtune.data.prepared.work.processes import in_processes

SHAPE, NUM_MASKS = (512, 512, 300), 20
MOST_S, MOST_GB = 60.0, 3.0
_ORGANS = ("liver", "spleen", "pancreas")


def bench(subject: str | None) -> Measured:
    """Returns the figures of a CT of the full size; no other is offered."""
    if subject is not None:
        raise ValueError(f"bench case_facts measures one CT and takes no subject, got {subject!r}")
    return measured(SHAPE, most_s=MOST_S)


def measured(shape: tuple[int, int, int], *, most_s: float, shifted_hu: float = 0.0) -> Measured:
    """Returns the figures of a CT of a size.

    Args:
        shifted_hu: What is added to the plain way's HU; other than 0 is a control that must fail.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = _write(Path(folder), shape)
        (done,) = in_processes(_measure, [_Job(Path(folder) / "ct.nii.gz", files)], processes=1)
        if done.result is None:
            raise ValueError("the process that measured the CT died: memory ran out")
        facts, seconds, memory_gb = done.result
        plain, plain_s = timed(partial(_plain, Path(folder) / "ct.nii.gz", files))
    apart = max(
        max(abs(facts.organs[organ].volume_cm3 - volume), abs((facts.organs[organ].hu_mean or 0) - hu - shifted_hu))
        for organ, (volume, hu) in plain.items()
    )
    title = f"a CT of {' x '.join(map(str, shape))} with {len(files)} masks"
    ways = TwoWays(title, "all facts", "three organs on the whole grid", seconds, plain_s, apart, 1e-6, 0.0)
    limits = (Limit(f"{title}, one core", seconds, most_s, "s"), Limit(f"{title}, memory", memory_gb, MOST_GB, "GB"))
    return Measured("simulated CT, enlarged", (ways,), limits)


class _Job(NamedTuple):
    scan: Path
    files: Mapping[str, Path]


def _measure(job: _Job) -> tuple[Facts, float, float]:
    masks = {name: [MaskFile(path)] for name, path in job.files.items()}
    facts, seconds = timed(lambda: read_facts("case", job.scan, masks))
    return facts, seconds, peak_memory_gb()


def _plain(scan: Path, files: Mapping[str, Path]) -> dict[str, tuple[float, float]]:
    hu_IJK = read_nifti_labels(scan)
    voxel_cm3 = _spacing_product(hu_IJK.shape) / 1000
    ill_IJK = np.zeros(hu_IJK.shape, np.bool_)
    for name, path in files.items():
        if name.endswith("lesion"):
            ill_IJK |= read_nifti_labels(path) != 0
    found = {}
    for organ in _ORGANS:
        mask_IJK = read_nifti_labels(files[organ]) != 0
        found[organ] = float(mask_IJK.sum()) * voxel_cm3, float(hu_IJK[mask_IJK & ~ill_IJK].mean(dtype=np.float64))
    return found


def _spacing_product(shape: tuple[int, ...]) -> float:
    return float(np.prod([384.0 / shape[0], 384.0 / shape[1], 288.0 / shape[2]]))


def _write(folder: Path, shape: tuple[int, int, int]) -> dict[str, Path]:
    """Writes a simulated CT with its masks, enlarged by nearest voxels, and returns the mask files."""
    found = next(each for each in draw_findings(32, np.random.default_rng(0), clear=True) if all(each.values()))
    scanned = draw(SimulatedPatient(found, USUAL, 0, 0)).scan
    affine = np.diag([-384.0 / shape[0], -384.0 / shape[1], 288.0 / shape[2], 1.0])
    index = np.ix_(*((np.arange(n) * m // n) for n, m in zip(shape, scanned.hu_IJK.shape, strict=True)))
    write_nifti(folder / "ct.nii.gz", scanned.hu_IJK[index], affine)
    files = {}
    lesions_last = sorted(scanned.masks, key=lambda name: (not name.endswith("lesion"), name not in _ORGANS))
    for name in lesions_last[:NUM_MASKS]:
        files[name] = folder / f"{name}.nii.gz"
        write_nifti(files[name], scanned.masks[name][index].astype(np.uint8), affine)
    return files
