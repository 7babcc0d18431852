"""Tests whole runs of a tiny random model: the files that a run writes, and that its numbers are right."""

import json
import math
import os
import re
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from medtune.data.types import Question
from medtune.eval.data_label import DataLabel
from medtune.eval.scoring import baselines
from medtune.eval.scoring.baselines import TrainAnswers, train_answers
from medtune.eval.scoring.score import PhaseScores
from medtune.eval.statistics.intervals import METHOD
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.series.grid import grid_table
from medtune.trainer.series.seeds import SeedRun, without_unscored
from medtune.trainer.training.checkpoints import is_best
from medtune.trainer.training.dashboard.logger import summary
from medtune.trainer.training.loggers import phase_metrics
from tests.eval.free_answers import FREE, Said
from tests.eval.free_answers import phase as waiting
from tests.trainer.conftest import Capture, Curve, Nano, json_of, same_weights, weights_apart


def test_the_screen_says_what_happens_and_nothing_else(nano_run: Path) -> None:
    """Without a terminal: plain lines, in the order of the phases, and no word of a library."""
    said = (nano_run.parent / "screen.txt").read_text()
    expected = [
        r"run folder: .*/run\n",
        r"nano_busi_lora: zero-shot evaluation, 4 steps of training, the same evaluation again, the gain\n",
        r"  is asked   9 of the 9 questions of 'test'; at the end under image, text_only\n  needs      1 CPU core\.\n",
        r"zero-shot: accuracy 0\.\d{3} \(0\.\d{3} to \d\.\d{3}\), 9 of 9 questions, in \d+:\d\d\n",
        r"step 2: validation accuracy \d\.\d{3} \(",
        r"step 4: validation accuracy \d\.\d{3} \(",
        r"final: accuracy 0\.\d{3} \(0\.\d{3} to \d\.\d{3}\), 9 of 9 questions, in \d+:\d\d\n",
        r"\ngain +[+-]0\.\d{3} ",
        r"report: .*/run/report.html\nOpen it in a browser: file:///.*/run/report.html\n$",
    ]
    found = [re.search(each, said) for each in expected]
    assert all(found), [each for each, match in zip(expected, found, strict=True) if match is None]
    assert [match.start() for match in found if match] == sorted(match.start() for match in found if match)
    assert not re.search(r"\r|Tip|Epoch|available|deprecated|Loading weights|Warning|anonymous", said)


def test_run_folder_is_as_designed(nano_run: Path, prepared_tiny: Path) -> None:
    results = json_of(nano_run / "results.json")
    assert results["benchmark"] == "busi"
    assert results["model"] == "nano_pocket"
    assert results["primary"] == {"name": "accuracy", "higher_is_better": True, "level_name": "accuracy"}
    for phase in ("zero_shot", "final"):
        overall = results["phases"][phase]["overall"]
        assert overall["n"] == 9
        assert overall["ci95"][0] < overall["value"] < overall["ci95"][1]
        assert set(overall["baselines"]) == {
            "random", "majority", "constant_letter", "question_prior", "text_only", "other_image",
        }  # fmt: skip
        assert (overall["baselines"]["text_only"] is not None) == (phase == "final")
        assert set(results["phases"][phase]["by"]) >= {"task", "box_size"}
        assert results["phases"][phase]["metrics"]["image"].keys() >= {"likelihood", "robust", "strict"}
        for file in ("predictions.jsonl", "parsed.jsonl", "scores.json"):
            assert (nano_run / phase / file).is_file()
        label = {"provenance": "reconstruction", "prompts": "ours", "stands_for_patient": "image"}
        written = json_of(nano_run / phase / "scores.json")
        assert written == label | results["phases"][phase] | {"interval_method": METHOD}
    gain = results["gain"]
    assert gain["n"] == 9
    assert gain["ci95"][0] <= gain["value"] <= gain["ci95"][1]
    assert sum(gain["counts"].values()) == 9
    assert 0 < gain["permutation_p"] <= 1
    assert results["patient_unit"].startswith("one image stands for one patient")
    assert read_recipe(str(nano_run / "recipe.yaml")).train.max_steps == 4
    environment = json_of(nano_run / "environment.json")
    assert environment["packages"]["torch"]
    assert environment["data_hash"] == json_of(prepared_tiny / "manifest.json")["data_hash"]
    assert {"vision", "projector", "language"} == set(json_of(nano_run / "weights.json"))


@pytest.mark.slow
def test_all_conditions_are_asked_at_the_phases_that_a_recipe_names(nano: Nano, tmp_path: Path) -> None:
    quick = ("train.max_steps=1", "eval.readings=[likelihood]", "eval.conditions_at=[zero_shot]")
    assert nano.here("run", tmp_path / "run", *quick) == 0
    for phase, found in json_of(tmp_path / "run" / "results.json")["phases"].items():
        assert (found["overall"]["baselines"]["text_only"] is not None) == (phase == "zero_shot")


def test_loss_and_metric_curves_are_logged(nano_run: Path, curve: Curve) -> None:
    assert len(curve(nano_run, "train/loss")) == 4
    assert len(curve(nano_run, "val/accuracy")) == 2
    assert len(curve(nano_run, "zero_shot/accuracy")) == 1
    assert len(curve(nano_run, "final/accuracy")) == 1
    rates = curve(nano_run, "train/lr_language")
    assert rates[-1] == 0
    assert all(rate > 0 for rate in rates[:-1])


def test_what_is_frequent_in_train_is_counted_once_for_all_validations(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def once(train: Iterable[Question]) -> TrainAnswers | None:
        found = train_answers(train)
        counted.append(len(counted))
        return found

    monkeypatch.setattr(baselines, "train_answers", once)
    assert nano.here("train", tmp_path / "run") == 0
    scores = [json_of(path) for path in sorted((tmp_path / "run").glob("validation/*/scores.json"))]
    assert len(scores) == 2
    assert all(each["overall"]["baselines"]["majority"] is not None for each in scores)
    assert counted == [0]


def test_final_is_what_the_best_checkpoint_answers(nano_run: Path, nano: Nano, tmp_path: Path) -> None:
    best = nano_run / "checkpoints" / "best.safetensors"
    assert all("lora" in name or name.startswith("projector") for name in load_file(best))
    again = tmp_path / "again"
    assert nano.here("eval", again, f"model.checkpoint={best}") == 0
    assert (again / "final" / "predictions.jsonl").read_bytes() == (
        nano_run / "final" / "predictions.jsonl"
    ).read_bytes()
    final = json_of(nano_run / "results.json")["phases"]["final"]
    assert json_of(again / "results.json")["phases"]["final"] == final


def test_another_seed_is_another_run(nano_run: Path, nano: Nano, tmp_path: Path, curve: Curve) -> None:
    other = tmp_path / "other"
    assert nano.here("train", other, "train.seed=1", "train.max_steps=1", "eval.val_questions=2") == 0
    assert curve(other, "train/loss")[0] != curve(nano_run, "train/loss")[0]


def test_accumulation_changes_nothing(nano: Nano, tmp_path: Path, curve: Curve) -> None:
    settings = ("train.batch_size=8", "train.clip_norm=3.5", "model.tuning.language.lora.dropout=0",
                "train.max_steps=2", "eval.val_questions=2")  # fmt: skip
    for micro in (8, 1):
        assert nano.here("train", tmp_path / f"{micro}", *settings, f"train.micro_batch_size={micro}") == 0
    whole, shared = tmp_path / "8", tmp_path / "1"
    assert curve(shared, "train/loss") == pytest.approx(curve(whole, "train/loss"), abs=1e-5)
    assert curve(shared, "train/gradient_norm") == pytest.approx(curve(whole, "train/gradient_norm"), rel=1e-5)
    assert weights_apart(whole, shared) < 1e-4


def test_answers_do_not_depend_on_the_batch_size(nano: Nano, tmp_path: Path) -> None:
    answers = []
    for budget in (1, 8192):
        out = tmp_path / str(budget)
        assert nano.here("eval", out, f"eval.batch_tokens={budget}") == 0
        lines = [json.loads(line) for line in (out / "zero_shot" / "predictions.jsonl").read_text().splitlines()]
        answers.append(lines)
    for one, many in zip(*answers, strict=True):
        assert one["text"] == many["text"]
        if one["option_logprobs"] is not None:
            assert one["option_logprobs"] == pytest.approx(many["option_logprobs"], abs=1e-4)


def test_limit_takes_fewer_questions_and_other_image_is_a_row(nano: Nano, tmp_path: Path) -> None:
    out = tmp_path / "run"
    conditions = "eval.conditions=[image,text_only,other_image]"
    assert nano.here("eval", out, conditions, extra=("--limit", "5")) == 0
    overall = json_of(out / "results.json")["phases"]["zero_shot"]["overall"]
    assert 5 <= overall["n"] < 9
    assert overall["baselines"]["other_image"] is not None


def test_letters_can_be_the_answer_format(nano: Nano, tmp_path: Path) -> None:
    out = tmp_path / "run"
    conditions = "eval.conditions=[image,stated_answer]"
    assert nano.here("run", out, "model.answer_format=letter", conditions) == 0
    line = json.loads((out / "final" / "predictions.jsonl").read_text().splitlines()[0])
    assert len(set(line["option_tokens"])) == 1
    final = json_of(out / "results.json")["phases"]["final"]
    stated = final["metrics"]["stated_answer"]["likelihood"]["accuracy"]
    assert stated["n"] == final["overall"]["n"]
    (row,) = [row for row in json_of(out / "audit.json")["rows"] if row["name"] == "stated_answer"]
    assert row["value"] == stated["value"]
    assert "letter binding" in (out / "report.html").read_text("utf-8")


def test_every_group_can_learn_in_every_mode(nano: Nano, tmp_path: Path) -> None:
    out = tmp_path / "run"
    modes = [f"model.tuning.{group}.mode={mode}" for group, mode in
             (("vision", "lora"), ("projector", "lora"), ("language", "full"))]  # fmt: skip
    assert nano.here("train", out, *modes, "train.max_steps=1") == 0
    names = load_file(out / "checkpoints" / "last.safetensors")
    assert any(name.startswith("vision") and "lora_A" in name for name in names)
    assert any(name.startswith("projector") and "lora_B" in name for name in names)
    assert "language.model.embed_tokens.weight" in names


def test_a_blind_model_is_trained_where_nothing_but_text_may_learn(nano: Nano, tmp_path: Path, capsys: Capture) -> None:
    assert nano.here("train", tmp_path / "projector", "train.text_only_share=1") == 1
    assert "the part 'projector' (full) has no gradient" in capsys.readouterr().err
    blind = ("train.text_only_share=1", "model.tuning.projector.mode=frozen")
    assert nano.here("train", tmp_path / "blind", *blind) == 0
    # Most steps show nothing; what learns from images is judged at the first one that does.
    few = ("train.text_only_share=0.7", "train.batch_size=1", "train.max_steps=8", "eval.every_steps=8")
    assert nano.here("train", tmp_path / "few", *few) == 0


LONG = ("train.max_steps=16", "train.batch_size=2", "eval.every_steps=4", "eval.val_questions=3",
        "model.tuning.language.lora.dropout=0.1")  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    Nano(prepared_tiny).finished("run", out, *LONG)
    return out


def _same_run(one: Path, two: Path, curve: Curve) -> None:
    assert curve(one, "train/loss") == curve(two, "train/loss")
    for name in ("zero_shot/accuracy", "val/accuracy", "final/accuracy"):
        assert curve(one, name) == curve(two, name)
    for phase in ("zero_shot", "final"):
        assert (one / phase / "predictions.jsonl").read_bytes() == (two / phase / "predictions.jsonl").read_bytes()
    assert same_weights(one, two)


@pytest.mark.slow
def test_ctrl_c_saves_a_state_that_resume_takes(nano: Nano, uninterrupted: Path, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "run"
    status, output = nano.stopped(4, signal.SIGINT, "run", out, *LONG)
    assert status == 130, output[-2000:]
    assert "continue with --resume" in output
    assert 4 <= RunFolder(out).saved_step() < 16
    nano.finished("run", out, *LONG, extra=("--resume",))
    _same_run(out, uninterrupted, curve)


@pytest.mark.slow
def test_ctrl_c_while_answering_keeps_the_answers(nano: Nano, tmp_path: Path) -> None:
    # Long replies, image by image: the last answer must not come before the signal does, however busy the machine is.
    out, settings = tmp_path / "run", ("eval.max_new_tokens=256", "eval.batch_size=1")
    process = nano.process("eval", out, *settings)
    shard, deadline = out / "zero_shot" / "predictions.rank0.jsonl", time.monotonic() + 300
    while time.monotonic() < deadline and not (shard.is_file() and shard.stat().st_size):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output[-2000:]
    kept = shard.read_bytes().splitlines()
    nano.finished("eval", out, *settings, extra=("--resume",))
    whole = (out / "zero_shot" / "predictions.jsonl").read_bytes().splitlines()
    assert set(kept) <= set(whole)
    assert len(whole) == 27


def test_flat_metrics_count_what_waits_and_the_summary_has_no_nan() -> None:
    before, after = waiting(("waits", "waits")), waiting((True, "waits"))
    flat = phase_metrics("zero_shot", before, FREE)
    assert flat["zero_shot/unscored"] == 2
    assert math.isnan(flat["zero_shot/free_answers"])
    assert summary({"zero_shot": before, "final": after}, None) == {
        "final": 1.0,
        "zero_shot_unscored": 2.0,
        "final_unscored": 1.0,
        **{"zero_shot_n": 0.0, "zero_shot_asked": 2.0, "final_n": 1.0, "final_asked": 2.0},
        **_ends(after),
    }


def _ends(found: PhaseScores) -> Mapping[str, float]:
    ci95 = found.overall.ci95
    return {"final_ci95_low": ci95.low, "final_ci95_high": ci95.high} if ci95 else {}


def run(seed: int, before: tuple[Said, ...], after: tuple[Said, ...]) -> SeedRun:
    return SeedRun(seed, Path(f"seed_{seed}"), (list(waiting(before).rows), list(waiting(after).rows)))


def test_seeds_are_compared_on_what_is_judged_in_all_of_them() -> None:
    runs = [run(0, (True, False, "waits", True), (True,) * 4), run(1, (False,) * 4, (True, "waits", True, False))]
    kept, unscored = without_unscored(runs)
    assert unscored == 2
    assert [[[row.question.id for row in rows] for rows in each.phases] for each in kept] == [[["q0", "q3"]] * 2] * 2
    with pytest.raises(ValueError, match="answered different questions"):
        without_unscored([run(0, (True,), (True,)), run(1, (True, True), (True, True))])


@pytest.mark.parametrize(("higher_is_better", "word"), [(True, "gain"), (False, "change")])
def test_a_grid_calls_the_difference_of_an_error_a_change(higher_is_better: bool, word: str) -> None:
    row = {
        "settings": {"model.projector": "coca"},
        **DataLabel(provenance="synthetic", prompts="ours").facts(),
        "loss": [2.0, 1.0],
        "metric": "millimetres",
        "higher_is_better": higher_is_better,
        "zero_shot": 9.0,
        "final": 4.0,
        "gain": -5.0,
        "permutation_p": None,
        "repeats": 1,
        "by_task": {},
    }
    assert word in grid_table([row]).columns
    assert {"gain", "change"}.isdisjoint({*grid_table([row]).columns} - {word})


@pytest.mark.parametrize(("value", "best", "sign", "replaced"), [
    (0.1, None, 1, True), (math.nan, None, 1, True), (math.nan, math.nan, 1, True), (0.1, math.nan, 1, True),
    (math.nan, 0.1, 1, False), (0.2, 0.1, 1, True), (0.1, 0.1, 1, True), (0.2, 0.1, -1, False),
])  # fmt: skip
def test_weights_without_a_value_are_never_better_than_ones_with(
    value: float, best: float | None, sign: int, replaced: bool
) -> None:
    assert is_best(value, best, sign=sign) is replaced


def test_the_dashboard_says_how_many_questions_a_score_counts() -> None:
    found = waiting((True, False))
    found = replace(found, asked=5, outside={"bleu4": found.overall})
    said = summary({"zero_shot": found}, None)
    assert (said["zero_shot_n"], said["zero_shot_asked"]) == (found.overall.n, 5)
    assert said["zero_shot_outside/bleu4"] == found.overall.value
