"""Tests of `medtune audit`, `medtune run --seeds` and `medtune power` with a tiny random model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medtune.eval.comparing.seeds import SEEDS_METHOD
from medtune.eval.statistics.intervals import METHOD
from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Nano

Capture = pytest.CaptureFixture[str]
CHEAP = {
    "model", "random", "majority", "question_prior", "constant_letter", "longest_option", "text_only", "prompt_leak",
    "red_box", "grey_histogram", "thumbnail_regression", "nearest_thumbnail", "train_answer_copy",
    "question_prior_copy", "most_frequent_answer", "likelihood_against_generation", "unparsable_share", "linear_probe",
}  # fmt: skip
ASKED = {"blank_image", "other_image", "option_permutation", "permuted_accuracy", "stated_answer"}


def audit_of(run: Path) -> dict[str, dict[str, Any]]:
    written = json.loads((run / "audit.json").read_text())
    assert set(written) == {
        "version", "rows", "collapse", "interval_method", "provenance", "prompts", "stands_for_patient",
    }  # fmt: skip
    return {row["name"]: row for row in written["rows"]}


def test_a_run_leaves_the_cheap_rows_and_audit_adds_the_others(nano: Nano, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "run"
    assert nano.here("run", out) == 0
    assert f"{len(CHEAP)} rows" in capsys.readouterr().out
    cheap = audit_of(out)
    assert set(cheap) == CHEAP
    assert {row["phase"] for row in cheap.values()} == {"final", "no model"}
    black = "the same model with a black image"
    reports = [out / "report.html", out / "report.md"]
    assert not any(black in report.read_text("utf-8") for report in reports)
    assert main(["audit", str(out)]) == 0
    said = capsys.readouterr().out
    assert black in said
    assert all(black in report.read_text("utf-8") for report in reports)
    assert f"report: {out / 'report.html'}" in said
    whole = audit_of(out)
    assert set(whole) == CHEAP | ASKED
    assert all(whole[name] == cheap[name] for name in CHEAP)
    assert "384 standardised features of" in whole["linear_probe"]["note"]
    assert whole["blank_image"]["n"] == whole["model"]["n"] == 9
    answered = (out / "audit" / "predictions.jsonl").read_bytes()
    assert main(["audit", str(out)]) == 0
    assert audit_of(out) == whole
    assert (out / "audit" / "predictions.jsonl").read_bytes() == answered
    assert nano.here("run", out, extra=("--resume",)) == 0
    assert audit_of(out) == whole, "a finished run keeps its full audit"
    assert not list(out.glob(".audit*"))


def test_an_evaluation_alone_can_be_audited_too(nano: Nano, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "eval"
    conditions = "eval.conditions=[image,other_image]"
    assert nano.here("eval", out, conditions, "eval.readings=[generation]", extra=("--limit", "5")) == 0
    assert main(["audit", str(out)]) == 0
    found = audit_of(out)
    assert {row["phase"] for row in found.values()} == {"zero_shot", "no model"}
    assert "likelihood_against_generation" not in found
    assert {"text_only", "other_image", "blank_image"} <= set(found)
    (out / "results.json").unlink()
    capsys.readouterr()
    assert main(["audit", str(out)]) == 0
    assert "the run has not ended" in capsys.readouterr().out


def test_audit_of_nothing_and_of_other_data_is_refused(
    nano: Nano, prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["audit", str(tmp_path / "none")]) == 1
    assert "no recipe.yaml" in capsys.readouterr().err
    out = tmp_path / "eval"
    assert nano.here("eval", out, extra=("--limit", "3")) == 0
    environment = json.loads((out / "environment.json").read_text())
    (out / "environment.json").write_text(json.dumps({**environment, "data_hash": "0" * 64}))
    assert main(["audit", str(out)]) == 1
    assert "holds other data" in capsys.readouterr().err


def test_audit_of_a_benchmark_prints_and_lists_items(prepared_tiny: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "findings.json"
    assert main(["audit", "busi", "--questions", str(prepared_tiny), "--split", "train", "--out", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "answered from the words alone" in printed
    assert METHOD in printed
    written = json.loads(file.read_text())
    assert written["interval_method"] == METHOD
    assert written["benchmark"] == "busi"
    assert {finding["name"] for finding in written["findings"]} >= {"blind_solvability", "patients_in_two_splits"}
    assert main(["audit", "fetal_gauge", "--questions", str(prepared_tiny)]) == 1
    assert "prepared for the benchmark 'busi'" in capsys.readouterr().err


def test_seeds_are_runs_of_their_own_with_one_interval(nano: Nano, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "series"
    quick = ("train.max_steps=3", "eval.readings=[likelihood]", "train.seed=5", "model.tuning.projector.lr=0.5")
    assert nano.here("run", out, *quick, extra=("--seeds", "2")) == 0
    said = capsys.readouterr().out
    assert "accuracy over 2 seeds" in said
    assert "Holm's correction over the seeds" in said
    assert SEEDS_METHOD in said
    written = json.loads((out / "seeds.json").read_text())
    assert written["interval_method"] == SEEDS_METHOD
    assert [run["seed"] for run in written["runs"]] == [5, 6]
    gains = [run["final"] - run["zero_shot"] for run in written["runs"]]
    assert written["gain"]["value"] == pytest.approx(sum(gains) / 2)
    assert written["gain"]["per_seed"] == pytest.approx(gains)
    ci95 = written["gain"]["ci95"]
    assert (gains == [0, 0]) if ci95 is None else (ci95[0] <= written["gain"]["value"] <= ci95[1])
    assert set(written["by"]["task"]) == {"diagnosis", "lesion_localisation", "red_box_grounding"}
    for index, run in enumerate(written["runs"]):
        results = json.loads((out / f"seed_{index}" / "results.json").read_text())
        assert results["phases"]["final"]["overall"]["value"] == run["final"]
        assert results["gain"]["permutation_p"] == run["permutation_p"]
    lower, higher = sorted((run["permutation_p"], run["permutation_p_holm"]) for run in written["runs"])
    assert lower[1] == pytest.approx(min(1.0, 2 * lower[0]))
    assert higher[1] == pytest.approx(max(lower[1], higher[0]))
    assert nano.here("run", out, *quick, extra=("--seeds", "2")) == 1
    assert "is not empty" in capsys.readouterr().err
    assert nano.here("run", out, *quick, extra=("--seeds", "2", "--resume")) == 0
    assert json.loads((out / "seeds.json").read_text()) == written
    assert main(["power", "--gain", "0.2", "--run", str(out / "seed_0")]) == 0
    assert "needs" in capsys.readouterr().out


def test_one_seed_is_no_series(nano: Nano, tmp_path: Path, capsys: Capture) -> None:
    assert nano.here("run", tmp_path / "one", extra=("--seeds", "1")) == 1
    assert "at least 2" in capsys.readouterr().err


def test_power_needs_numbers_or_a_run(capsys: Capture) -> None:
    assert main(["power", "--gain", "0.1"]) == 1
    assert "--baseline" in capsys.readouterr().err
    arguments = ["--baseline", "0.5", "--gain", "0.2", "--questions-per-patient", "10"]
    assert main(["power", *arguments, "--icc", "0.1"]) == 0
    assert "needs 20 patients for a power of 0.8" in capsys.readouterr().out


def test_audit_of_a_benchmark_needs_no_torch(prepared_tiny: Path) -> None:
    code = (
        "import sys; from medtune.trainer.commands.cli import main; "
        f"main(['audit', 'busi', '--questions', {str(prepared_tiny)!r}]); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout.splitlines()[-1] == "False"
    assert "logistic regression on the red box's place and size" in done.stdout
    assert "logistic regression on the histogram of grey values" in done.stdout


@pytest.mark.soak
def test_the_red_box_alone_answers_most_of_the_demos_grounding(tmp_path: Path) -> None:
    """The README has the figures of this test: 0.61 where guessing gives 0.25."""
    assert main(["prepare", "fetal_gauge", "--source", "fetal_phantom", "--out", str(tmp_path / "demo")]) == 0
    out = tmp_path / "findings.json"
    assert main(["audit", "fetal_gauge", "--questions", str(tmp_path / "demo"), "--out", str(out)]) == 0
    found = {each["name"]: each for each in json.loads(out.read_bytes())["findings"]}
    box, grey = found["red_box"], found["grey_histogram"]
    assert (round(box["value"], 2), box["chance"], box["n"]) == (0.61, 0.25, 240)
    assert (round(grey["value"], 2), round(grey["chance"], 2), grey["n"]) == (0.58, 0.34, 800)
    assert box["flag"]
    assert grey["flag"]
