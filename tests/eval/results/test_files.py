import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.data.types import Interval
from medtune.eval.audit.row import Audit, AuditRow, Collapse, Gap
from medtune.eval.data_label import DataLabel
from medtune.eval.results.build import audit_file
from medtune.eval.results.schema import AuditFile, ResultsFile, ScoresFile
from medtune.eval.results.typed_json import json_bytes, read_json, read_json_lines, write_document
from medtune.eval.scoring.tables import Table
from medtune.eval.statistics.intervals import METHOD
from tests.eval.report.folders import change_json, write_run

LABEL = DataLabel(
    provenance="released",
    prompts="official, sha256 0123",
    unofficial_split="patient",
    unofficial_training="busi by patient",
)
AUDIT = Audit(
    (
        AuditRow("random", "guessing", "no model", "accuracy", 0.25, 8),
        AuditRow("blank_image", "a blank image", "final", "accuracy", 0.5, 8, Interval(0.2, 0.8), flag="as good"),
        AuditRow("text_only", "no image", "final", "accuracy", 0.5, 8, None, Gap(0.1, Interval(-0.2, 0.4)), note="ü"),
    ),
    {"diagnosis": Collapse(None, 0.75, 0.25, Interval(0.1, 0.9), 8, None)},
)


@pytest.fixture
def run(prepared_tiny: Path, tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", prepared_tiny)


def again(path: Path, kind: type[object]) -> bytes:
    return json_bytes(read_json(path, kind))


def test_every_file_of_a_run_is_read_and_written_to_the_byte(run: Path) -> None:
    write_document(run / "audit.json", audit_file(AUDIT, LABEL))
    files: dict[str, type[object]] = {
        "results.json": ResultsFile,
        "zero_shot/scores.json": ScoresFile,
        "final/scores.json": ScoresFile,
        "audit.json": AuditFile,
    }
    for name, kind in files.items():
        content = (run / name).read_bytes()
        assert content == json.dumps(json.loads(content), indent=1).encode() + b"\n"
        assert again(run / name, kind) == content


def test_files_have_their_fields_in_the_designed_order(run: Path) -> None:
    phase = [
        "parser", "overall", "by", "metrics", "tables", "calibration", "refusals", "cut", "unscored", "asked",
        "outside", "classes", "without_classes", "other_answers",
    ]  # fmt: skip
    score = ["value", "n", "ci95", "unparsable", "unscored", "repeats", "repeat_sd"]
    results = json.loads((run / "results.json").read_bytes())
    assert list(results) == [
        "benchmark", "benchmark_version", "model", "primary", "phases", "gain", "unavailable", "protocol", "recipe",
        "data_hash", "interval_method", "provenance", "prompts", "stands_for_patient",
    ]  # fmt: skip
    final = results["phases"]["final"]
    assert list(final) == phase
    assert list(final["overall"]) == [*score, "unanswered", "partly_answered", "baselines"]
    assert list(final["metrics"]["image"]["robust"]["accuracy"]) == score
    assert list(final["calibration"]["bins"][0]) == ["low", "high", "n", "confidence", "accuracy"]
    scores = json.loads((run / "final" / "scores.json").read_bytes())
    assert list(scores) == ["provenance", "prompts", "stands_for_patient", *phase, "interval_method"]
    assert {file["interval_method"] for file in (results, scores)} == {METHOD}
    assert {name: scores[name] for name in phase} == final


def test_facts_that_say_nothing_are_left_out(run: Path) -> None:
    results = read_json(run / "results.json", ResultsFile)
    assert not {"unofficial_split", "unofficial_training", "trained_on", "patient_unit"} & set(
        json.loads(json_bytes(results))
    )
    learnt = replace(results, unofficial_split="patient", trained_on="busi (a): 3 groups", protocol=None)
    *_, before, _, last = json.loads(json_bytes(learnt))
    assert (before, last) == ("unofficial_split", "trained_on")
    assert "protocol" not in json.loads(json_bytes(learnt))
    assert learnt.label == DataLabel(
        provenance="synthetic", prompts="ours", unofficial_split="patient", stands_for_patient="patient"
    )


def test_files_of_earlier_versions_and_of_others_are_read(run: Path) -> None:
    whole = read_json(run / "results.json", ResultsFile)
    content = json.loads((run / "results.json").read_bytes())
    del content["interval_method"]
    lost = ("protocol", "recipe", "data_hash", "provenance", "prompts", "stands_for_patient", "unavailable")
    for name in (*lost, "benchmark_version"):
        del content[name]
    for name in (
        "by",
        "metrics",
        "tables",
        "calibration",
        "refusals",
        "cut",
        "unscored",
        "asked",
        "outside",
        "other_answers",
    ):
        del content["phases"]["final"][name]
    content["mine"] = {"note": "by hand"}
    (run / "results.json").write_text(json.dumps(content))
    found = read_json(run / "results.json", ResultsFile)
    assert found.last.overall == whole.last.overall
    unknown = DataLabel(provenance="unknown", prompts="not recorded")
    assert (found.label, found.benchmark_version) == (unknown, "unknown")
    assert (found.last.by, found.last.tables, found.last.unscored) == ({}, (), 0)


def test_numbers_that_json_does_not_have_are_refused(run: Path) -> None:
    change_json(run / "results.json", "gain", "value", value=math.nan)
    with pytest.raises(ValueError, match=re.escape("results.json, field gain.value: wanted a number, got nan")):
        read_json(run / "results.json", ResultsFile)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (("model",), 3, "field model: wanted a string, got 3"),
        (("primary", "higher_is_better"), "yes", "field primary.higher_is_better: wanted true or false, got 'yes'"),
        (("gain", "n"), 1.5, "field gain.n: wanted a whole number, got 1.5"),
        (("gain", "n"), True, "field gain.n: wanted a whole number, got True"),
        (("gain", "n"), -1, "field gain.n: wanted a number of 0 or more, got -1"),
        (("gain", "value"), None, "field gain.value: wanted a number, got None"),
        (("gain", "by"), [], "field gain.by: wanted an object, got []"),
        (("gain", "ci95"), [0.1], "field gain.ci95[1] is missing"),
        (("gain", "ci95"), [0.1, 0.2, 0.3], "field gain.ci95: wanted at most 2 items, got [0.1, 0.2, 0.3]"),
        (("phases", "final", "tables"), {}, "field phases.final.tables: wanted a list, got {}"),
        (("unavailable",), {"telepathy": "no"}, "field unavailable.telepathy: wanted 'likelihood' or 'generation'"),
    ],
)
def test_a_broken_field_is_named_in_one_plain_sentence(
    run: Path, field: tuple[str, ...], value: object, message: str
) -> None:
    change_json(run / "results.json", *field, value=value)
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        read_json(run / "results.json", ResultsFile)
    said = str(raised.value)
    assert "pydantic" not in said
    assert "://" not in said
    assert said.endswith("Was the file edited or cut off? Copy the run folder again, or run again.")


def test_the_cells_of_a_table_are_checked(run: Path) -> None:
    table = {"title": "Main", "columns": ["model", "score"], "rows": [["ours", {}]]}
    change_json(run / "results.json", "phases", "final", "tables", value=[table])
    cell = "field phases.final.tables[0].rows[0][1]: wanted a string, a number or null, got {}"
    with pytest.raises(ValueError, match=re.escape(cell)):
        read_json(run / "results.json", ResultsFile)
    change_json(run / "results.json", "phases", "final", "tables", value=[{**table, "rows": [["ours"]]}])
    row = "field phases.final.tables[0]: wanted 2 cells in each row of the table 'Main'"
    with pytest.raises(ValueError, match=re.escape(row)):
        read_json(run / "results.json", ResultsFile)
    change_json(
        run / "results.json", "phases", "final", "tables", value=[{**table, "rows": [["ours", -1], ["a", 0.5]]}]
    )
    assert read_json(run / "results.json", ResultsFile).last.tables == (
        Table("Main", ("model", "score"), (("ours", -1), ("a", 0.5))),
    )


def test_lines_are_named_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"a": "b"}\n\n{"a": 1}\n')
    lines = read_json_lines(path, dict[str, str])
    assert next(lines) == {"a": "b"}
    with pytest.raises(ValueError, match=r"lines\.jsonl, line 3, field a: wanted a string, got 1"):
        next(lines)
    path.write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match=r"lines\.jsonl, line 1: not valid JSON"):
        list(read_json_lines(path, dict[str, str]))
