"""Compares U2-Bench's scores with recorded values of the official scripts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from medtune.benchmarks.u2_bench.extracted_option import extract_option
from medtune.benchmarks.u2_bench.official import labels as official_values
from medtune.benchmarks.u2_bench.official.labels import (
    ClassScores,
    Mode,
    OfficialFailureError,
    Position,
    Reading,
    Value,
    ValueScores,
    class_scores,
    position_accuracy,
    read_position,
    read_row,
    value_scores,
)
from medtune.benchmarks.u2_bench.official.rows import Ids, SetTables, official_means, official_score
from medtune.benchmarks.u2_bench.official.u2_score import u2_score
from medtune.benchmarks.u2_bench.tasks_and_sets import CASES, EXACT_WEIGHTS, OPTIONS_SEEN, RANGES, TOLERANCE, WEIGHTS
from medtune.data.media import masks
from tests.benchmarks.u2_bench.official_truth_cells import read_value, true_position, truth_column, unused_cell_of
from tests.eval.golden import close, recorded

Row = Mapping[str, Any]
MODES: tuple[Mode, ...] = ("strict", "lenient")
EXTRACTED = "lenient_after_option_extraction"


# ---------------------------------------------------------------- classification


def extracted(row: Row) -> str:
    return extract_option(row["reply"] or "", OPTIONS_SEEN[row["dataset"]])


def readings_of(row: Row) -> dict[str, Reading]:
    found: dict[str, Reading] = {
        mode: read_row(row["truth"], row["reply"], dataset=row["dataset"], mode=mode) for mode in MODES
    }
    found[EXTRACTED] = read_row(row["truth"], extracted(row), dataset=row["dataset"], mode="lenient")
    return found


def by_dataset(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["dataset"]].append(row)
    return found


def test_golden_classification_rows() -> None:
    golden = recorded("u2bench_classification.json")
    for row, expected in zip(golden["rows"], golden["expected"]["rows"], strict=True):
        assert row["id"] == expected["id"]
        assert extracted(row) == expected["option_extracted"], row
        for name, reading in readings_of(row).items():
            wanted = expected[name]
            assert reading.label == wanted["normalised"], (row, name)
            if wanted.get("dropped"):
                assert reading.label is None
            else:
                assert (reading.truth, reading.label == reading.truth) == (wanted["truth"], wanted["correct"]), (
                    row,
                    name,
                )


def test_golden_classification_data_sets_and_their_means() -> None:
    golden = recorded("u2bench_classification.json")
    scores: dict[str, list[ClassScores]] = defaultdict(list)
    rows = by_dataset(golden["rows"])
    for dataset, expected in golden["expected"]["datasets"].items():
        assert list(OPTIONS_SEEN[dataset]) == expected["options_seen_by_extractor"]
        readings = [readings_of(row) for row in rows[dataset]]
        for name in (*MODES, EXTRACTED):
            found = class_scores([each[name] for each in readings], mode="strict" if name == "strict" else "lenient")
            scores[name].append(found)
            for field, value in asdict(found).items():
                assert close(value, expected[name][field]), (dataset, name, field)
    for name, wanted in golden["expected"]["mean_over_datasets"].items():
        assert wanted["datasets"] == len(scores[name])
        for field in ("acc", "f1"):
            mean = sum(getattr(each, field) for each in scores[name]) / len(scores[name])
            assert close(mean, wanted[f"unweighted_mean_{field}"])


def test_golden_classification_whole_data_set_failures() -> None:
    for case in recorded("u2bench_classification.json")["expected"]["whole_dataset_failures"]:
        if "parser" in case:
            # Joining by an id that both sides have brings 'classes', and the script then asks for 'class'.
            assert case["result"] == "KeyError"
            continue
        for mode in MODES:
            expected = case[mode]
            if "whole_dataset_fails_with" in expected:
                with pytest.raises(OfficialFailureError) as failure:
                    read_row("benign", case["reply"], dataset="23", mode=mode)
                assert failure.value.exception == expected["whole_dataset_fails_with"]
                continue
            # The other rows of the file are right; their label does not matter to accuracy and F1.
            right = [Reading("other row", "other row")] * case["other_rows_in_file"]
            scores = class_scores([*right, read_row("benign", case["reply"], dataset="23", mode=mode)], mode=mode)
            assert close(scores.acc, expected["acc"])
            assert close(scores.f1, expected["f1"])


# ---------------------------------------------------------------- detection


def test_golden_detection_rows_and_accuracies() -> None:
    golden = recorded("u2bench_detection.json")
    found: dict[str, list[tuple[str, Position]]] = defaultdict(list)
    for row, expected in zip(golden["rows"], golden["expected"]["rows"], strict=True):
        assert row["id"] == expected["id"]
        truth = true_position(row["truth"])
        for mode in MODES:
            position = read_position(row["reply"], mode=mode)
            found[mode].append((truth, position))
            found[f"{mode}_{row['kind']}"].append((truth, position))
            wanted = expected[mode]
            assert truth == expected[f"truth_label_{mode}"], row
            assert position.is_dropped == wanted.get("dropped", False), row
            if not position.is_dropped:
                assert position.label == wanted["normalised" if mode == "strict" else "label"], row
                assert (position.label == truth) == wanted["correct"], row
    for name, expected in golden["expected"]["metrics"].items():
        truths, positions = zip(*found[name], strict=True)
        kept = [position for position in positions if not position.is_dropped]
        assert expected.get("n", len(kept)) == len(kept)
        assert expected.get("rows", len(positions)) == len(positions)
        wanted = expected.get("acc", expected.get("accuracy_from_rows"))
        assert close(position_accuracy(truths, positions), wanted), name


def test_golden_detection_grid_and_canonical_replies() -> None:
    expected = recorded("u2bench_detection.json")["expected"]
    for x, y, label in expected["grid_x_y_label"]:
        assert masks.cell_of_point(x, y) == label
    for case in expected["canonical_replies"]:
        strict = read_position(case["reply"], mode="strict").label
        assert (strict == case["truth"]) == case["strict_correct"]
        assert read_position(case["reply"], mode="lenient").label == case["lenient_label"]


CENTRES = {masks.cell_of_point(x, y): (x, y) for x in (0.2, 0.5, 0.8) for y in (0.2, 0.5, 0.8)}


def test_golden_detection_unused_function() -> None:
    for label, expected in recorded("u2bench_detection.json")["expected"]["unused_function_grid"]:
        if label == masks.NOT_VISIBLE:
            assert expected == label
            continue
        try:
            found = unused_cell_of(*CENTRES[label])
        except OfficialFailureError as failure:
            found = f"error:{failure.exception}"
        assert found == expected


def test_golden_detection_both_columns() -> None:
    expected = recorded("u2bench_detection.json")["expected"]["both_columns_present"]

    def label(mode: Mode, row: Mapping[str, str | None]) -> str:
        return true_position(row[truth_column(row, mode=mode)])

    def cell(wanted: str) -> str:
        x, y = CENTRES[wanted]
        return f"{{'a': [{x}, {y}, 0.1, 0.1]}}"

    both = {"gt_bbox": cell(expected["strict_uses"]), "keypoints": cell(expected["lenient_uses"])}
    assert label("strict", both) == expected["strict_uses"]
    assert label("lenient", both) == expected["lenient_uses"]
    empty: dict[str, str | None] = {**both, "keypoints": None}
    assert label("lenient", empty) == expected["lenient_uses_when_keypoints_column_is_present_but_empty"]


# ---------------------------------------------------------------- clinical values

WITHOUT_NULL = "_without_null_truth"
NUMBERED = "lenient_after_number_extraction"
FIELDS = {"MAE": "mae", "RMSE": "rmse", "Std": "std", "pct_within_tolerance": "pct_within_tolerance"}


def value_of(row: Row, name: str) -> Value:
    dataset = row["dataset"]
    if name == NUMBERED:
        number = official_values.extract_number(row["reply"], dataset=dataset)
        return read_value(row["truth"], number, dataset=dataset, mode="lenient")
    return read_value(row["truth"], row["reply"], dataset=dataset, mode="strict" if name == "strict" else "lenient")


def value_or_failure(row: Row, name: str) -> Value:
    """The row's value; none where the script would stop at it, since no flag of a row can say that."""
    try:
        return value_of(row, name)
    except OfficialFailureError:
        return Value()


def assert_scores(found: ValueScores, expected: Row, where: object) -> None:
    assert found.failed_items == expected["failed_items"], where
    for theirs, ours in FIELDS.items():
        assert close(getattr(found, ours), expected[theirs]), (where, theirs)


def is_failure(expected: object) -> bool:
    """Whether a recorded value names an exception instead of numbers."""
    values = expected.values() if isinstance(expected, dict) else [expected]
    return any(isinstance(value, str) and value not in ("nan", "inf", "-inf") for value in values)


def assert_fails(rows: Sequence[Row], name: str, expected: object) -> None:
    """Some row makes the script raise, and the recorded value names the exception."""
    with pytest.raises(OfficialFailureError) as failure:
        [value_of(row, name) for row in rows]
    assert failure.value.exception in str(expected), rows


def test_golden_cve_scaling() -> None:
    expected = recorded("u2bench_cve.json")["expected"]
    assert {name: list(span) for name, span in RANGES.items()} == expected["scaling"]
    assert expected["tolerance"] == TOLERANCE


def test_golden_cve_rows() -> None:
    golden = recorded("u2bench_cve.json")
    for row, expected in zip(golden["rows"], golden["expected"]["rows"], strict=True):
        assert row["id"] == expected["id"]
        number = official_values.extract_number(row["reply"], dataset=row["dataset"])
        assert number == expected.get("number_extracted", number), row
        for name in ("strict", "lenient", NUMBERED):
            wanted = expected[name]
            if is_failure(wanted):
                assert_fails([row], name, wanted)
                continue
            value = value_or_failure(row, name)
            assert value.is_used == wanted["used"], (row, name)
            if not value.is_used:
                assert value.is_failed == wanted["counted_as_failed"], (row, name)
                continue
            assert value.truth is not None
            assert value.predicted is not None
            assert close(value.truth, wanted["truth"])
            assert close(value.predicted, wanted["pred"]), (row, name)
            error = official_values.scaled_error(value, dataset=row["dataset"])
            assert close(error, wanted["scaled_error"])
            assert (abs(error) <= TOLERANCE) == wanted["within_tol"], (row, name)


def test_golden_cve_data_sets_and_their_means() -> None:
    golden = recorded("u2bench_cve.json")
    rows = by_dataset(golden["rows"])
    scores: dict[str, dict[str, ValueScores]] = defaultdict(dict)
    for dataset, expected in golden["expected"]["datasets"].items():
        for name, wanted in expected.items():
            if name == "strict_jsonl_route":
                # The strict script parses each truth of a JSON-lines file twice, and skips every row.
                skipped = [Value() for _ in rows[dataset]]
                assert_scores(value_scores(skipped, dataset=dataset), wanted, dataset)
                continue
            parser = name.removesuffix(WITHOUT_NULL)
            chosen = [row for row in rows[dataset] if name == parser or "null" not in str(row["truth"])]
            if is_failure(wanted):
                assert_fails(chosen, parser, wanted)
                continue
            found = value_scores([value_of(row, parser) for row in chosen], dataset=dataset)
            assert_scores(found, wanted, (dataset, name))
            scores[name][dataset] = found
    for name, wanted in golden["expected"]["unweighted_mean_over_datasets"].items():
        # A data set on which the script stops is left out, or stands there without the row that stopped it.
        ways = scores[name], {**scores[name + WITHOUT_NULL], **scores[name]}
        for theirs, value in wanted.items():
            means = [sum(getattr(each, FIELDS[theirs]) for each in way.values()) / len(way) for way in ways if way]
            assert any(close(mean, value) for mean in means), (name, theirs)


def test_golden_cve_non_finite_replies() -> None:
    for case in recorded("u2bench_cve.json")["expected"]["non_finite_replies"]:
        for mode in MODES:
            values = [
                Value(float(truth), official_values.predicted_value(reply, mode=mode))
                for truth, reply in zip(case["truths"], case["replies"], strict=True)
            ]
            assert_scores(value_scores(values, dataset=case["dataset"]), case[mode], case)


# ---------------------------------------------------------------- U2-Score


def tables_of(synthetic: Row, model: str) -> SetTables:
    def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
        key = next(key for key in synthetic if key.split()[0] == name)
        titles = key.split()[1].split(",")
        found = [dict(zip(titles, row, strict=True)) for row in synthetic[key]]
        return [(row["task_id"], *(float(row[column]) for column in columns)) for row in found if row["model"] == model]

    return SetTables(
        classification=rows("classification", "acc", "f1"),
        detection=rows("detection", "acc"),
        values=rows("cve", "rmse", "pct_tol"),
        text=rows("text", "bleu4"),
    )


def test_golden_u2score_weights_and_cases() -> None:
    expected = recorded("u2bench_u2score.json")["expected"]
    assert dict(WEIGHTS) == expected["weights"]
    assert dict(CASES) == expected["case_counts"]


def test_golden_u2score_synthetic_models() -> None:
    golden = recorded("u2bench_u2score.json")
    expected = golden["expected"]
    found: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    spellings: tuple[tuple[str, Ids], ...] = (
        ("synthetic_official", "text"),
        ("synthetic_official_when_ids_read_as_numbers", "numbers"),
    )
    for name, ids in spellings:
        for model, wanted in expected[name].items():
            means = official_means(tables_of(golden["rows"]["synthetic"], model), ids=ids)
            ours = {**asdict(means), "score": official_score(means)}
            found[ids][model] = ours
            assert set(wanted) <= set(ours)
            assert all(close(ours[field], value) for field, value in wanted.items()), (model, ids)
    for model, wanted in expected["id_bug_effect_ll_od_score_numbers_then_text"].items():
        for field, pair in wanted.items():
            assert close(found["numbers"][model][field], pair[0])
            assert close(found["text"][model][field], pair[1])


def terms_of(row: Row) -> dict[str, float]:
    accuracies = {task: row[f"{task}_acc"] for task in ("DD", "VRA", "LL", "OD", "KD")}
    texts = {task: (row[f"{task}_BLEU"] or 0) / 100 for task in ("RG", "CG")}
    return {**accuracies, "CVE": 1 - row["CVE_RMSE"], **texts}


def test_golden_u2score_paper_table_1() -> None:
    golden = recorded("u2bench_u2score.json")
    for row, expected in zip(golden["rows"]["paper_table1"], golden["expected"]["paper_table1"], strict=True):
        score = u2_score(terms_of(row))
        assert row["model"] == expected["model"]
        assert close(score, expected["score_unrounded"])
        assert round(score, 4) == expected["score_official_4dp"]
        assert (round(score, 4) == row["U2_printed"] == expected["printed"]) == expected["reproduces"]
        assert round(u2_score(terms_of(row), EXACT_WEIGHTS), 4) == expected["score_with_exact_case_weights"]
    if "known_exception" not in golden["expected"]:
        return
    known = golden["expected"]["known_exception"]
    row = next(row for row in golden["rows"]["paper_table1"] if row["model"] == known["model"])
    assert round(u2_score(terms_of(row)), 4) == known["formula"] != known["printed"] == row["U2_printed"]
