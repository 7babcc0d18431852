"""Tests golden files that use more of the format than the shared ones do, such as scans in answers."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.golden.compare import compare
from tests.models.golden.verify import verify_file

IGNORED = -100


def _shared(name: str) -> dict[str, Any]:
    root = Path(os.environ.get("MEDTUNE_GOLDEN") or Path(__file__).parents[4] / "shared" / "golden")
    path = root / name
    if not path.is_file():
        if os.environ.get("MEDTUNE_REQUIRE_SHARED") == "1":
            pytest.fail(f"MEDTUNE_REQUIRE_SHARED=1, but there is no {path}")
        pytest.skip(f"no recorded values at {path}; set MEDTUNE_GOLDEN")
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def _whole(values: list[list[int]]) -> dict[str, Any]:
    table = np.asarray(values)
    return {"shape": list(table.shape), "dtype": "int64", "values": table.reshape(-1).tolist()}


def _radfm(question: list[int | str], answer: list[int | str], sample: dict[str, Any]) -> dict[str, Any]:
    """Returns a file of one sample whose ids are those of the words and, for a number, of the scan with that number."""
    said = _shared("radfm-sequence.json")
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
    sample = {
        "question": "is there a mass ?",
        "answer": "yes .",
        "image_positions": [{"answer": 0}, {"question": 10}],
    }
    said = _radfm(["is there", 1, "a mass ?"], [0, "yes ."], sample)
    assert _verified(said, tmp_path) == (None, 4)


def test_golden_sample_may_name_no_emphasised_words(tmp_path: Path) -> None:
    sample = {"question": "is there a mass ?", "answer": "yes .", "image_positions": [{"question": 0}]}
    said = _radfm([0, "is there a mass ?"], ["yes ."], sample)
    del said["text"]["case"]["samples"][0]["emphasised_words"]
    assert _verified(said, tmp_path) == (None, 4)


def test_golden_row_may_end_inside_a_scan(tmp_path: Path) -> None:
    words = " ".join(["liver"] * 60)
    sample = {"question": words, "answer": "yes .", "image_positions": [{"question": 0}, {"answer": 0}]}
    said = _radfm([0, words], [1, "yes ."], sample)
    assert _verified(said, tmp_path) == (None, 4)


@pytest.mark.parametrize("places", [[{"answer": 99}], [{"nowhere": 0}], [{"question": "x"}], 3])
def test_golden_record_that_cannot_be_run_fails(places: object, tmp_path: Path) -> None:
    sample = {"question": "is there a mass ?", "answer": "yes .", "image_positions": places}
    with pytest.raises((LookupError, TypeError, ValueError)):
        _verified(_radfm(["is there a mass ?"], ["yes ."], sample), tmp_path)


@pytest.mark.parametrize("is_nested", [False, True])
def test_golden_first_channels_of_a_batch(is_nested: bool) -> None:
    tokens = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    firsts = tokens[..., 0]
    record = {"shape": [2, 3, 4], "dtype": "float32", "index": [0], "values": [0.0]}
    listed = firsts.tolist() if is_nested else firsts.reshape(-1).tolist()
    assert compare(tokens, {**record, "first_channel_of_every_token": listed}, rtol=0, atol=0) is None
    wrong = compare(tokens + 1, {**record, "first_channel_of_every_token": listed}, rtol=0, atol=2)
    assert wrong is None
    told = compare(tokens, {**record, "first_channel_of_every_token": firsts[0].tolist()}, rtol=0, atol=0)
    assert told == "6 tokens, but the first channel of 3 tokens is recorded"


def test_golden_batch_of_two_reports(tmp_path: Path) -> None:
    said = _shared("merlin-report-tokens.json")
    recorded = said["outputs"]["a/adapter_tokens"]
    said["inputs"] = {"a": {**said["inputs"]["a"], "shape": [2, *said["inputs"]["a"]["shape"][1:]]}}
    # The first volume is drawn as in the shared file, so that its values are those recorded there.
    said["outputs"] = {
        "a/adapter_tokens": {
            "shape": [2, *recorded["shape"][1:]],
            "dtype": "float32",
            "index": recorded["index"],
            "values": recorded["values"],
        }
    }
    assert _verified(said, tmp_path) == (None, 1)


def test_golden_empty_value_agrees() -> None:
    record = {"shape": [2, 0, 3], "dtype": "float32", "mean": 0.0, "values": []}
    assert compare(np.zeros((2, 0, 3), np.float32), record, rtol=0, atol=0) is None
