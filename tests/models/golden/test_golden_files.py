"""Tests that the models agree with every golden file, and that a wrong model does not."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor

from tests.golden.files import golden_file, golden_files
from tests.models.golden import preprocess, sequence, towers
from tests.models.golden.file import GoldenFile, read_golden

RecordedValues = Iterator[tuple[str, Tensor | NDArray[np.generic]]]

CASES: dict[str, Callable[[GoldenFile], RecordedValues]] = {
    "radfm-vision": towers.radfm_vision, "m3d-vision": towers.m3d_vision, "merlin-vision": towers.merlin_vision,
    "merlin-report-tokens": towers.report_tokens, "ctclip-vision": towers.ct_clip_vision,
    "ctchat-projector": towers.ct_chat_projector, "radfm-preprocess": preprocess.run_radfm,
    "m3d-preprocess": preprocess.run_m3d, "merlin-preprocess": preprocess.run_merlin,
    "ctclip-preprocess": preprocess.run_ct_clip, "radfm-sequence": sequence.run_radfm, "m3d-sequence": sequence.run_m3d,
}  # fmt: skip
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


_STATISTICS = ("mean", "std", "min", "max")


def compare(found: NDArray[Any], record: Mapping[str, Any], *, rtol: float, atol: float) -> str | None:
    """Returns the first difference of a tensor from its record (shape, recorded values, statistics), or None.

    A value may differ by atol + rtol * |recorded value|; integers must be equal. A statistic over the whole tensor may
    differ by atol + rtol * the largest magnitude in the tensor.
    """
    if list(found.shape) != list(record["shape"]):
        return f"shape {tuple(found.shape)}, recorded {tuple(record['shape'])}"
    if "position_0" in record:
        return _compare_ids(found, record)
    wanted = np.asarray(record["values"])
    index = record.get("index")
    values = found.reshape(-1) if index is None else found.reshape(-1)[np.asarray(index, dtype=np.intp)]
    if np.issubdtype(found.dtype, np.integer) or str(record.get("dtype", "")).startswith("int"):
        return _equal(values, wanted, index)
    distance = np.abs(values.astype(np.float64) - wanted)
    distance[np.isnan(distance)] = np.inf
    wrong = np.flatnonzero(distance > atol + rtol * np.abs(wanted))
    if wrong.size:
        first = int(wrong[0])
        place = int(index[first]) if index is not None else first
        return (
            f"{wrong.size} of {wanted.size} recorded values differ; the first at {_place(place, found.shape)}: "
            f"{values[first]:.7g}, recorded {wanted[first]:.7g}"
        )
    return _statistics(found, record, rtol=rtol, atol=atol) or _extras(found, record, rtol, atol)


def _statistics(found: NDArray[Any], record: Mapping[str, Any], *, rtol: float, atol: float) -> str | None:
    if not found.size:
        return None
    bound = atol + rtol * max(abs(float(found.min())), abs(float(found.max())))
    for name in _STATISTICS:
        # No copy in 64 bits: some have 55 million values.
        value = float(getattr(found, name)(**({"dtype": np.float64} if name in ("mean", "std") else {})))
        if name in record and abs(value - record[name]) > bound:
            return f"the {name} over all values is {value:.7g}, recorded {record[name]:.7g}"
    return None


def _extras(found: NDArray[Any], record: Mapping[str, Any], rtol: float, atol: float) -> str | None:
    if "first_channel_of_every_token" in record:
        # One list, or one list for each row of the batch.
        wanted = np.asarray(record["first_channel_of_every_token"]).reshape(-1)
        values = found[..., 0].reshape(-1)
        if len(wanted) != len(values):
            return f"{len(values)} tokens, but the first channel of {len(wanted)} tokens is recorded"
        wrong = np.flatnonzero(np.abs(values - wanted) > atol + rtol * np.abs(wanted))
        if wrong.size:
            return f"token {wrong[0]}: first channel {values[wrong[0]]:.7g}, recorded {wanted[wrong[0]]:.7g}"
    if "content_box_last_3_axes" in record:
        box = record["content_box_last_3_axes"]
        filled = (found != np.float32(box["not_equal_to"])).reshape(-1, *found.shape[-3:]).any(axis=0)
        for axis, (low, high) in enumerate(box["lo_hi"]):
            along = np.flatnonzero(filled.any(axis=tuple(other for other in range(3) if other != axis)))
            if (along[0], along[-1] + 1) != (low, high):
                return f"content fills {along[0]}..{along[-1] + 1} of axis {axis - 3}, recorded {low}..{high}"
    return None


def _compare_ids(found: NDArray[Any], record: Mapping[str, Any]) -> str | None:
    rows = zip(found, record["position_0"], record["positions_1_to_256_all_equal"], strict=True)
    for (row, first, media), rest in zip(rows, record["from_position_257"], strict=True):
        if difference := _equal(row, np.asarray([first, *(media,) * 256, *rest]), None):
            return difference
    return None


def _equal(values: NDArray[Any], wanted: NDArray[Any], index: list[int] | None) -> str | None:
    wrong = np.flatnonzero(values != wanted)
    if not wrong.size:
        return None
    first = int(wrong[0])
    return (
        f"{wrong.size} of {wanted.size} ids differ; the first at {first if index is None else index[first]}: "
        f"{values[first]}, recorded {wanted[first]}"
    )


def _place(flat: int, shape: tuple[int, ...]) -> str:
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}]"


SLOW = ("m3d-vision", "ctclip-preprocess")
"""Full-size towers, or volumes of 55 million voxels: too long for the quick tests on a shared core."""


def _parameters() -> list[Any]:
    found = [path for path in golden_files(".") if "case" in json.loads(path.read_text("utf-8"))]
    return [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem.startswith(SLOW) else []) for p in found]


def _recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden_file(name).read_text("utf-8"))
    return found


def test_golden_files_are_there() -> None:
    _recorded("ctchat-projector.json")
    assert len(_parameters()) >= 12


@pytest.mark.parametrize("path", _parameters())
def test_golden_file_agrees(path: Path) -> None:
    result = verify_file(path)
    assert result.difference is None
    assert result.num_values > 0


def test_golden_first_value_that_differs_is_named(tmp_path: Path) -> None:
    said = _recorded("ctchat-projector.json")
    said["outputs"]["b/normed"]["values"][3] += 1.0
    (tmp_path / "wrong.json").write_text(json.dumps(said), "utf-8")
    assert (verify_file(tmp_path / "wrong.json").difference or "").startswith("b/normed: 1 of")


def test_comparison_sees_a_flip_that_leaves_the_samples_alone() -> None:
    recorded = {
        "shape": [1, 2, 2, 3],
        "dtype": "float32",
        "index": [0],
        "values": [0.0],
        "content_box_last_3_axes": {"not_equal_to": 0.0, "lo_hi": [[0, 2], [0, 2], [1, 3]]},
    }
    right = np.zeros((1, 2, 2, 3), np.float32)
    right[..., 1:] = 1
    assert compare(right, recorded, rtol=0, atol=1e-3) is None
    wrong = right.copy()
    wrong[..., 2] = 0
    assert compare(wrong, recorded, rtol=0, atol=1e-3) is not None


IGNORED = -100


def _whole(values: list[list[int]]) -> dict[str, Any]:
    table = np.asarray(values)
    return {"shape": list(table.shape), "dtype": "int64", "values": table.reshape(-1).tolist()}


def _radfm(question: list[int | str], answer: list[int | str], sample: dict[str, Any]) -> dict[str, Any]:
    """Returns a file of one sample whose ids are those of the words and, for a number, of the scan with that number."""
    said = _recorded("radfm-sequence.json")
    config, words = said["config"], said["config"]["words"]

    def ids(pieces: list[int | str]) -> list[int]:
        found: list[int] = []
        for piece in pieces:
            if isinstance(piece, str):
                found += [words[word] for word in piece.split()]
            else:
                found += [100, *(102 + 32 * piece + token for token in range(32)), 101]
        return found

    asked = [config["bos"], *ids(question)]
    row = [*asked, *ids(answer)]
    learnt = [id_ if place >= len(asked) and id_ < 100 else IGNORED for place, id_ in enumerate(row)]
    length = config["max_seq"]
    # The closing token stands behind the text if there is room; the mask leaves it out, its label does not.
    ended, labels = [*row, config["eos"]][:length], [*learnt, config["eos"]][:length]
    mask = [1] * min(len(row), length)
    said["text"] = {"case": {"samples": [{"emphasised_words": [], **sample}]}}
    said["inputs"] = {"case:vision_tokens": {"shape": [1, 2, 32, 64], "shift": 0, "scale": 1}}
    said["outputs"] = {
        "case/lang_x": _whole([ended + [config["pad"]] * (length - len(ended))]),
        "case/attention_mask": _whole([mask + [0] * (length - len(mask))]),
        "case/labels": _whole([labels + [IGNORED] * (length - len(labels))]),
        # Nothing is recorded of this value but its shape: it is computed, so that the scans' tokens have to fit.
        "case/embeddings": {"shape": [1, length, 64], "dtype": "float32", "index": [], "values": []},
    }
    return said


def _verified(said: dict[str, Any], folder: Path) -> tuple[str | None, int]:
    path = folder / "golden.json"
    path.write_text(json.dumps(said), "utf-8")
    result = verify_file(path)
    return result.difference, result.num_values


def test_golden_scan_stands_in_the_answer(tmp_path: Path) -> None:
    sample = {
        "question": "is there a mass ?",
        "answer": "yes , a mass .",
        # Character 6 of the answer, before which position 7 puts the scan, is the "a" behind the comma.
        "image_positions": [{"answer": 7}],
    }
    said = _radfm(["is there a mass ?"], ["yes ,", 0, "a mass ."], sample)
    assert _verified(said, tmp_path) == (None, 4)
    said["outputs"]["case/labels"]["values"][7] = 1
    assert "case/labels: 1 of 96 ids differ" in (_verified(said, tmp_path)[0] or "")


def test_golden_scans_keep_their_numbers_whatever_their_order(tmp_path: Path) -> None:
    sample = {"question": "is there a mass ?", "answer": "yes .", "image_positions": [{"answer": 0}, {"question": 10}]}
    said = _radfm(["is there", 1, "a mass ?"], [0, "yes ."], sample)
    assert _verified(said, tmp_path) == (None, 4)
