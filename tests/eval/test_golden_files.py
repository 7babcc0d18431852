"""Tests that the golden tests read every file of recorded metric values and every key in it, and demand no key."""

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.eval.golden import NOTED_IN
from tests.golden.files import RECORDED, golden_files, golden_root, missing
from tests.ranks import run_ranks

ROOT = Path(__file__).parents[2]
FOLDERS = ("metrics", "medical_vqa")
TOLD = ("accept", "case", "remark", "arguments")
"""Keys whose values describe other values in words, or how they were made."""

OPTIONAL = {
    "statistics.json": ("mcnemar.0.chi2_with_correction", "mcnemar.1.mid_p", "holm", "brier"),
    "u2bench_u2score.json": ("weights", "known_exception", "synthetic_official_when_ids_read_as_numbers"),
    "u2bench_classification.json": ("rows.0.lenient", "rows.1.strict.normalised", "mean_over_datasets"),
    "u2bench_cve.json": ("rows.0.lenient_after_number_extraction", "tolerance"),
    "rexsonovqa_published_scores.json": ("gemini-3-pro.exact.free", "gemini-3-pro.official_printed.mcq_by_type"),
    "ctlesionvqa_extraction.json": ("letters",),
    "llava_med.json": ("printed_table_x100.recall", "printed_table_x100_batch"),
    "medevalkit_mcq.json": ("n",),
    "mmmu.json": ("random_official", "open_lmms"),
    "mmmu_real_outputs.json": ("llava1.5_13b.Public_Health", "qwen_vl.Pharmacy.ids_random"),
    "medevalkit_sets.json": ("slake.metrics.open", "with_a_constant_judge.chenz53"),
    "ctlesionvqa_binary.json": ("mixed.unrounded", "all unparsable.majority_class_accuracy"),
}
"""A few keys of every kind, for a set that lacks them."""


def _required() -> dict[str, list[Path]]:
    """Returns the files of each folder."""
    found = {name: golden_files(name) for name in FOLDERS}
    for name, files in found.items():
        if not files:
            missing(golden_root() / name, RECORDED)
    return found


def _golden_tests(golden: Path, reads: Path) -> None:
    """Runs all tests of recorded metric values in a process of their own, which notes the keys that they read."""
    files = sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "tests.eval.golden import" in path.read_text("utf-8") and path != Path(__file__)
    )
    variables = {"MEDTUNE_GOLDEN": str(golden), NOTED_IN: str(reads)}
    ((status, said),) = run_ranks(1, _pytest, files, environment=lambda _: variables)
    assert status == pytest.ExitCode.OK, said[-3000:]


def _pytest(rank: int, world_size: int, files: Sequence[str]) -> tuple[int, str]:
    os.chdir(ROOT)
    words = ["-q", "-p", "no:cacheprovider", "-k", "golden", "-m", "slow or not slow", *files]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return int(pytest.main(words)), said.getvalue()


def _keys(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from _keys(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, path)


@pytest.mark.soak
def test_golden_files_are_read_to_the_last_key(tmp_path: Path) -> None:
    recorded, reads = _required(), tmp_path / "reads"
    reads.touch()
    _golden_tests(golden_root(), reads)
    read = {tuple(json.loads(line)) for line in reads.read_text("utf-8").splitlines()}
    # Whoever compares a whole object has read every key below it.
    whole = {path[:-1] for path in read if path[-1] == "*"}
    unread = [
        ".".join(path)
        for files in recorded.values()
        for file in files
        for path in dict.fromkeys(_keys(json.loads(file.read_text("utf-8")), (file.name,)))
        if path[1] == "expected"
        and not set(TOLD) & set(path)
        and path not in read
        and not any(path[:depth] in whole for depth in range(2, len(path)))
    ]
    assert unread == []


@pytest.mark.soak
def test_golden_files_may_lack_keys(tmp_path: Path) -> None:
    for folder, files in _required().items():
        (tmp_path / folder).mkdir()
        for file in files:
            shutil.copy(file, tmp_path / folder)
    for name, keys in OPTIONAL.items():
        path = next((found for folder in FOLDERS if (found := tmp_path / folder / name).is_file()), None)
        if path is None:
            continue
        said = json.loads(path.read_text("utf-8"))
        for key in keys:
            _drop(said["expected"], key.split("."))
        path.write_text(json.dumps(said), "utf-8")
    (tmp_path / "reads").touch()
    _golden_tests(tmp_path, tmp_path / "reads")


def _drop(said: Any, steps: list[str]) -> None:
    """Removes a key, where the set that is tested has it."""
    *path, last = steps
    for step in path:
        if isinstance(said, list) and int(step) < len(said):
            said = said[int(step)]
        elif isinstance(said, dict) and step in said:
            said = said[step]
        else:
            return
    if isinstance(said, dict):
        said.pop(last, None)
