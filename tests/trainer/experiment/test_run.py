"""Tests whole runs of a tiny random model: the files that a run writes, and that its numbers are right."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from safetensors.torch import load_file

from medtune.data.types import Question
from medtune.eval.scoring import baselines
from medtune.eval.scoring.baselines import TrainAnswers, train_answers
from medtune.eval.statistics.intervals import METHOD
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import Nano

Curve = Callable[[Path, str], list[float]]


@pytest.fixture(scope="module")
def whole_run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert Nano(prepared_tiny).here("run", out) == 0
    return out


def test_run_folder_is_as_designed(whole_run: Path, prepared_tiny: Path) -> None:
    results = json.loads((whole_run / "results.json").read_text())
    assert results["benchmark"] == "busi"
    assert results["model"] == "nano_pocket"
    assert results["primary"] == {"name": "accuracy", "higher_is_better": True}
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
            assert (whole_run / phase / file).is_file()
        label = {"provenance": "reconstruction", "prompts": "ours", "stands_for_patient": "image"}
        written = json.loads((whole_run / phase / "scores.json").read_text())
        assert written == label | results["phases"][phase] | {"interval_method": METHOD}
    gain = results["gain"]
    assert gain["n"] == 9
    assert gain["ci95"][0] <= gain["value"] <= gain["ci95"][1]
    assert sum(gain["counts"].values()) == 9
    assert 0 < gain["permutation_p"] <= 1
    assert results["patient_unit"].startswith("one image stands for one patient")
    assert read_recipe(str(whole_run / "recipe.yaml")).train.max_steps == 4
    environment = json.loads((whole_run / "environment.json").read_text())
    assert environment["packages"]["torch"]
    assert environment["data_hash"] == json.loads((prepared_tiny / "manifest.json").read_text())["data_hash"]
    assert {"vision", "projector", "language"} == set(json.loads((whole_run / "weights.json").read_text()))


def test_loss_and_metric_curves_are_logged(whole_run: Path, curve: Curve) -> None:
    assert len(curve(whole_run, "train/loss")) == 4
    assert len(curve(whole_run, "val/accuracy")) == 2
    assert len(curve(whole_run, "zero_shot/accuracy")) == 1
    assert len(curve(whole_run, "final/accuracy")) == 1
    rates = curve(whole_run, "train/lr_language")
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
    scores = [json.loads(path.read_text()) for path in sorted((tmp_path / "run").glob("validation/*/scores.json"))]
    assert len(scores) == 2
    assert all(each["overall"]["baselines"]["majority"] is not None for each in scores)
    assert counted == [0]


def test_final_is_what_the_best_checkpoint_answers(whole_run: Path, nano: Nano, tmp_path: Path) -> None:
    best = whole_run / "checkpoints" / "best.safetensors"
    assert all("lora" in name or name.startswith("projector") for name in load_file(best))
    again = tmp_path / "again"
    assert nano.here("eval", again, f"model.checkpoint={best}") == 0
    assert (again / "final" / "predictions.jsonl").read_bytes() == (
        whole_run / "final" / "predictions.jsonl"
    ).read_bytes()
    final = json.loads((whole_run / "results.json").read_text())["phases"]["final"]
    assert json.loads((again / "results.json").read_text())["phases"]["final"] == final


def test_two_runs_with_one_seed_are_bit_identical(whole_run: Path, nano: Nano, tmp_path: Path, curve: Curve) -> None:
    second = tmp_path / "second"
    assert nano.here("run", second) == 0
    assert curve(second, "train/loss") == curve(whole_run, "train/loss")
    for phase in ("zero_shot", "final"):
        one, two = (run / phase / "predictions.jsonl" for run in (whole_run, second))
        assert one.read_bytes() == two.read_bytes()


def test_another_seed_is_another_run(whole_run: Path, nano: Nano, tmp_path: Path, curve: Curve) -> None:
    other = tmp_path / "other"
    assert nano.here("train", other, "train.seed=1") == 0
    assert curve(other, "train/loss") != curve(whole_run, "train/loss")


@pytest.mark.parametrize("micro", [1, 2])
def test_accumulation_changes_nothing(nano: Nano, tmp_path: Path, curve: Curve, micro: int) -> None:
    whole, shared = tmp_path / "whole", tmp_path / "shared"
    settings = ("train.batch_size=8", "train.clip_norm=3.5", "model.tuning.language.lora.dropout=0")
    assert nano.here("train", whole, *settings, "train.micro_batch_size=8") == 0
    assert nano.here("train", shared, *settings, f"train.micro_batch_size={micro}") == 0
    assert curve(shared, "train/loss") == pytest.approx(curve(whole, "train/loss"), abs=1e-5)
    assert curve(shared, "train/gradient_norm") == pytest.approx(curve(whole, "train/gradient_norm"), rel=1e-5)
    one, two = (load_file(run / "checkpoints" / "last.safetensors") for run in (whole, shared))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-4


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
    overall = json.loads((out / "results.json").read_text())["phases"]["zero_shot"]["overall"]
    assert 5 <= overall["n"] < 9
    assert overall["baselines"]["other_image"] is not None


def test_letters_can_be_the_answer_format(nano: Nano, tmp_path: Path) -> None:
    out = tmp_path / "run"
    conditions = "eval.conditions=[image,stated_answer]"
    assert nano.here("run", out, "model.answer_format=letter", conditions) == 0
    line = json.loads((out / "final" / "predictions.jsonl").read_text().splitlines()[0])
    assert len(set(line["option_tokens"])) == 1
    final = json.loads((out / "results.json").read_text())["phases"]["final"]
    stated = final["metrics"]["stated_answer"]["likelihood"]["accuracy"]
    assert stated["n"] == final["overall"]["n"]
    (row,) = [row for row in json.loads((out / "audit.json").read_text())["rows"] if row["name"] == "stated_answer"]
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


def test_a_blind_model_is_trained_where_nothing_but_text_may_learn(
    nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nano.here("train", tmp_path / "projector", "train.text_only_share=1") == 1
    assert "the part 'projector' (full) has no gradient" in capsys.readouterr().err
    blind = ("train.text_only_share=1", "model.tuning.projector.mode=frozen")
    assert nano.here("train", tmp_path / "blind", *blind) == 0
    # Most steps show nothing; what learns from images is judged at the first one that does.
    few = ("train.text_only_share=0.7", "train.batch_size=1", "train.max_steps=8", "eval.every_steps=8")
    assert nano.here("train", tmp_path / "few", *few) == 0
