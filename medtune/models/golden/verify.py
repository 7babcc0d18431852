"""Runs the case of a golden file and compares its values one by one with the recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from medtune.models.golden.compare import compare
from medtune.models.golden.file import GoldenFile, read_golden

RecordedValues = Iterator[tuple[str, Tensor | NDArray[np.generic]]]

CASES = {
    "radfm-vision": "radfm.vision",
    "m3d-vision": "m3d.vision",
    "merlin-vision": "merlin.vision",
    "merlin-report-tokens": "merlin.report_tokens",
    "ctclip-vision": "ct_clip.vision",
    "ctchat-projector": "ct_clip.projector",
    "radfm-preprocess": "preprocess.run_radfm",
    "m3d-preprocess": "preprocess.run_m3d",
    "merlin-preprocess": "preprocess.run_merlin",
    "ctclip-preprocess": "preprocess.run_ct_clip",
    "radfm-sequence": "sequence.run_radfm",
    "m3d-sequence": "sequence.run_m3d",
}
"""The function of this package that runs each kind of case, as module.function."""


class Result(NamedTuple):
    """The result of one golden file.

    Attributes:
        case: Name of the case.
        difference: The first difference above tolerance, with the name of the value; None where there is none.
        largest: Largest absolute difference of a recorded value, among the values up to that one.
        num_values: Number of recorded values that were compared and agree.
    """

    case: str
    difference: str | None
    largest: float
    num_values: int


def verify_file(path: Path) -> Result:
    """Builds the modules of a golden file, fills them through the key maps and compares all recorded values.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no golden file, its case is not known, its weights do not fit, or it holds something
            that no module can run; the message names the file.
    """
    golden = read_golden(path)
    try:
        return _verified(golden)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(
            f"{path}: the file holds something that medtune cannot run for a case {golden.case!r} "
            f"({type(error).__name__}: {error})"
        ) from error


def _verified(golden: GoldenFile) -> Result:
    largest = 0.0
    wanted = set(golden.outputs)
    for name, value in _runner(golden)(golden):
        if name not in golden.outputs:
            continue
        found = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        verdict = compare(found, golden.outputs[name], rtol=golden.rtol, atol=golden.atol)
        largest = max(largest, verdict.largest)
        if verdict.difference:
            return Result(golden.case, f"{name}: {verdict.difference}", largest, len(golden.outputs) - len(wanted))
        wanted.discard(name)
    if wanted:
        missing = ", ".join(sorted(wanted))
        return Result(
            golden.case, f"recorded and never computed: {missing}", largest, len(golden.outputs) - len(wanted)
        )
    return Result(golden.case, None, largest, len(golden.outputs))


def _runner(golden: GoldenFile) -> Callable[[GoldenFile], RecordedValues]:
    kinds = [kind for kind in CASES if golden.case == kind or golden.case.startswith(f"{kind}-")]
    if not kinds:
        raise ValueError(f"{golden.path}: the case {golden.case!r} is not known; known are {', '.join(sorted(CASES))}")
    module, _, function = CASES[max(kinds, key=len)].partition(".")
    return cast(
        "Callable[[GoldenFile], RecordedValues]", getattr(import_module(f"medtune.models.golden.{module}"), function)
    )
