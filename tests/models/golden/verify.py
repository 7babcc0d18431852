"""Runs the case of a golden file and compares its values one by one with the recorded ones."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tests.models.golden import ct_clip, m3d, merlin, preprocess, radfm, sequence
from tests.models.golden.compare import compare
from tests.models.golden.file import GoldenFile, read_golden

RecordedValues = Iterator[tuple[str, Tensor | NDArray[np.generic]]]

CASES: dict[str, Callable[[GoldenFile], RecordedValues]] = {
    "radfm-vision": radfm.vision,
    "m3d-vision": m3d.vision,
    "merlin-vision": merlin.vision,
    "merlin-report-tokens": merlin.report_tokens,
    "ctclip-vision": ct_clip.vision,
    "ctchat-projector": ct_clip.projector,
    "radfm-preprocess": preprocess.run_radfm,
    "m3d-preprocess": preprocess.run_m3d,
    "merlin-preprocess": preprocess.run_merlin,
    "ctclip-preprocess": preprocess.run_ct_clip,
    "radfm-sequence": sequence.run_radfm,
    "m3d-sequence": sequence.run_m3d,
}
"""The function that runs each kind of case; a case may go on behind its kind and a hyphen."""


class Result(NamedTuple):
    """The first difference above tolerance, or None, and the number of recorded values that agree."""

    difference: str | None
    num_values: int


def verify_file(path: Path) -> Result:
    """Builds the modules of a golden file, fills them through the key maps and compares all recorded values."""
    golden = read_golden(path)
    wanted = set(golden.outputs)
    kinds = [kind for kind in CASES if f"{golden.case}-".startswith(f"{kind}-")]
    assert kinds, f"{path}: the case {golden.case!r} is not known; known are {', '.join(sorted(CASES))}"
    for name, value in CASES[max(kinds, key=len)](golden):
        if name not in golden.outputs:
            continue
        found = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        if difference := compare(found, golden.outputs[name], rtol=golden.rtol, atol=golden.atol):
            return Result(f"{name}: {difference}", len(golden.outputs) - len(wanted))
        wanted.discard(name)
    missing = f"recorded and never computed: {', '.join(sorted(wanted))}" if wanted else None
    return Result(missing, len(golden.outputs) - len(wanted))
