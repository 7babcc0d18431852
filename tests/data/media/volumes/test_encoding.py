"""Saved encodings: read, refused where they are broken, and kept in a prepared folder beside their scan."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from medtune.benchmarks import find_source
from medtune.data.media.volumes.formats.abdomen_atlas import SCAN, find_cases
from medtune.data.media.volumes.formats.stored_volume import KEY, read_encoding
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import SPLITS, MediaRef
from tests.examples import write_example


def vectors(seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((1, 3, 2, 4, 5)).astype(np.float32)


def saved(path: Path, values: NDArray[np.generic], key: str = KEY) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {key: values}
    np.savez(path, **arrays)
    return path


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """CTLesionVQA's example of ten scans."""
    write_example("ctlesionvqa", tmp_path / "raw")
    return tmp_path / "raw"


def prepared(raw: Path, share: float = 0.0) -> Prepared:
    out = raw.parent / "prepared"
    return prepare(find_source("ctlesionvqa"), benchmark="ctlesionvqa", root=raw, out=out, max_rejected=share)


def refs(folder: Prepared) -> list[MediaRef]:
    return [group.media[0] for split in SPLITS for group in folder.groups(split)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_encoding_is_read_without_its_batch_axis(dtype: type[np.floating], tmp_path: Path) -> None:
    values = vectors().astype(dtype)
    found = read_encoding(saved(tmp_path / "a.npz", values))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values[0].astype(np.float32))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (vectors()[0], r"arr: shape \(3, 2, 4, 5\), wanted \(1, t, h, w, width\)"),
        (np.concatenate([vectors(), vectors()]), r"arr: shape \(2, 3, 2, 4, 5\)"),
        (vectors()[:, :0], r"arr: shape \(1, 0, 2, 4, 5\)"),
        (np.zeros((1, 3, 2, 4), np.int64), r"arr: shape \(1, 3, 2, 4\)"),
        (np.zeros((1, 3, 2, 4, 5), np.int64), "arr: values of type int64, wanted floating-point"),
        (np.where(vectors() > 2, np.nan, vectors()), "arr: values that are not finite"),
        (np.array([None]), r"not a whole \.npz file"),
    ],
)
def test_arrays_that_are_no_encoding_are_refused(values: NDArray[np.generic], message: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", values)
    with pytest.raises(ValueError, match=rf"a\.npz: {message}.*take the file away"):
        read_encoding(path)


def test_broken_files_and_other_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.npz"):
        read_encoding(tmp_path / "gone.npz")
    whole = saved(tmp_path / "a.npz", vectors()).read_bytes()
    turned = bytearray(whole)
    turned[len(whole) // 2] ^= 0xFF
    array = tmp_path / "plain.npy"
    np.save(array, vectors())
    for damaged in (b"", b"no archive", whole[:-40], bytes(turned), array.read_bytes()):
        (tmp_path / "a.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"a\.npz: not a whole \.npz file"):
            read_encoding(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"b\.npz: no array of the name arr\."):
        read_encoding(saved(tmp_path / "b.npz", vectors(), key="features"))


def test_encodings_are_found_beside_scans_and_anywhere_on_the_way(tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / "scans" / name).mkdir(parents=True)
        (tmp_path / "scans" / name / SCAN).touch()
    places = {
        "a": tmp_path / "scans" / "a" / "ct.npz",
        "b": tmp_path / "scans" / "b" / "b.npz",
        "c": tmp_path / "c.npz",
        "d": tmp_path / "made" / "by" / "encodings" / "d.npz",
    }
    for path in (*places.values(), tmp_path / "a.npz", tmp_path / "nobody.npz"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert {name: case.encoding for name, case in find_cases(tmp_path).items()} == {**places, "e": None}
    beside = {name: case.encoding for name, case in find_cases(tmp_path / "scans").items()}
    assert beside == {"a": places["a"], "b": places["b"], "c": None, "d": None, "e": None}


def test_a_prepared_folder_keeps_encodings_with_their_scans(raw: Path) -> None:
    plain = prepared(raw)
    scan = raw / "image_only" / "BDMAP_00000003" / SCAN
    path = saved(raw / "encodings" / "BDMAP_00000003.npz", vectors())
    folder = prepared(raw)
    (ref,) = [each for each in refs(folder) if each.encoding is not None]
    assert ref.path.read_bytes() == scan.read_bytes()
    assert ref.encoding is not None
    np.testing.assert_array_equal(read_encoding(ref.encoding), vectors()[0])
    assert ref.encoding.parent == folder.root / "media"
    assert "BDMAP" not in ref.encoding.name
    assert [each for each in refs(plain) if each.encoding is None] == refs(plain)
    assert folder.data_hash != plain.data_hash
    assert path.stat().st_nlink == 2
    ref.encoding.unlink()
    with pytest.raises(FileNotFoundError, match="1 media files are missing"):
        open_prepared(folder.root)


def test_broken_encodings_are_rejected_with_their_questions_and_counted(raw: Path) -> None:
    for number in (0, 2):
        saved(raw / "encodings" / f"BDMAP_{number:08d}.npz", vectors()[0])
    saved(raw / "encodings" / "BDMAP_00000004.npz", vectors())
    with pytest.raises(ValueError, match=r"its encoding: arr: shape .* wanted \(1, t, h, w, width\)"):
        prepared(raw)
    folder = prepared(raw, share=0.5)
    (rejected,) = folder.manifest.rejected.items()
    assert rejected[0].startswith("its encoding: arr: shape")
    assert rejected[1] == 12
    assert len(refs(folder)) == 8
    rows = [json.loads(line) for line in (folder.root / "rejects.jsonl").read_text().splitlines()]
    assert {row["reason"].partition(" (")[0] for row in rows} == {"its encoding: arr: shape"}
    assert "take the file away" in rows[0]["reason"]
    assert "BDMAP" not in (folder.root / "rejects.jsonl").read_text()
