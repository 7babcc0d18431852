"""Tests that the models agree with every golden file, and that a wrong model does not."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.golden.compare import compare
from tests.models.golden.file import draw
from tests.models.golden.verify import verify_file

SLOW = ("m3d-vision", "ctclip-preprocess")
"""Full-size towers, or volumes of 55 million voxels: too long for the quick tests on a shared core."""


def _root() -> Path:
    return Path(os.environ.get("MEDTUNE_GOLDEN") or Path(__file__).parents[4] / "shared" / "golden")


def _parameters() -> list[Any]:
    root = _root()
    if not root.is_dir():
        return []
    found = [path for path in sorted(root.glob("*.json")) if "case" in json.loads(path.read_text("utf-8"))]
    return [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem.startswith(SLOW) else []) for p in found]


@pytest.fixture
def golden_root() -> Path:
    root = _root()
    if not root.is_dir():
        if os.environ.get("MEDTUNE_REQUIRE_SHARED") == "1":
            pytest.fail(f"MEDTUNE_REQUIRE_SHARED=1, but there is no {root}")
        pytest.skip(f"no recorded values at {root}; set MEDTUNE_GOLDEN")
    return root


def test_golden_files_are_there(golden_root: Path) -> None:
    assert len(_parameters()) >= 12


@pytest.mark.parametrize("path", _parameters())
def test_golden_file_agrees(path: Path) -> None:
    result = verify_file(path)
    assert result.difference is None
    assert result.num_values > 0


def test_golden_generator_gives_the_worked_examples() -> None:
    assert draw("x", "probe2", {"shape": [2, 3], "shift": 1, "scale": 0.1})[0].tolist() == [
        1.07985520362854,
        0.9522677659988403,
        0.8333889842033386,
    ]
    unit = draw("x", "probe3", {"shape": [2, 4], "shift": 0, "scale": 1, "rule": "l2"})
    assert unit[0].tolist() == [0.9049890041351318, 0.021108398213982582, -0.1362859308719635, -0.40246182680130005]
    cut = draw("x", "input:probe4", {"shape": [6], "shift": 0.5, "scale": 0.25, "rule": "clip01"})
    assert cut[:2].tolist() == [0.5555968284606934, 0.0]


def test_golden_first_value_that_differs_is_named(golden_root: Path, tmp_path: Path) -> None:
    said = json.loads((golden_root / "ctchat-projector.json").read_text("utf-8"))
    said["outputs"]["b/normed"]["values"][3] += 1.0
    (tmp_path / "wrong.json").write_text(json.dumps(said), "utf-8")
    assert (verify_file(tmp_path / "wrong.json").difference or "").startswith("b/normed: 1 of")


def test_golden_weights_that_do_not_fit_are_listed(golden_root: Path, tmp_path: Path) -> None:
    said = json.loads((golden_root / "ctchat-projector.json").read_text("utf-8"))
    said["weights"]["model.mm_projector.attn_pool.extra"] = {"shape": [2], "shift": 0, "scale": 1}
    path = tmp_path / "extra.json"
    path.write_text(json.dumps(said), "utf-8")
    with pytest.raises(ValueError, match=r"1 not known: model\.mm_projector\.attn_pool\.extra"):
        verify_file(path)


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
