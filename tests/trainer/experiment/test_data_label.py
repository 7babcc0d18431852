"""Tests that every output of a run says so if the run was trained on a data set for evaluation only."""

from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.splits import Division, Fractions
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.training.dashboard.sent_facets import EVERY_FACET
from medtune.trainer.training.loggers import logged_config
from tests.examples import write_example
from tests.trainer.conftest import QUICK, Capture, Nano, Told, json_of
from tests.twins import prepared_twins, write_twins

QUICKER = (
    "train.max_steps=1",
    "eval.val_questions=40",
    "eval.every_steps=1",
    "eval.readings=[generation]",
    "eval.conditions=[image]",
)
SAYS_SO = "u2_bench by patient"
BANNER = "Trained on an evaluation set"


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder in the layout of U2-Bench, with images made by the test, divided by patient."""
    root = tmp_path_factory.mktemp("u2")
    (root / "raw").mkdir()
    write_example("u2_bench", root / "raw")
    thirds = Fractions(0.4, 0.3, 0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepare(
            find_source("u2_bench"),
            benchmark="u2_bench",
            root=root / "raw",
            out=root / "p",
            division=Division(fractions=thirds, unofficial="patient"),
        )
    return root / "p"


@pytest.mark.slow
def test_every_output_says_that_an_evaluation_set_was_learnt(divided: Path, tmp_path: Path, capsys: Capture) -> None:
    series, first, second = tmp_path / "series", tmp_path / "series" / "seed_0", tmp_path / "series" / "seed_1"
    assert Nano(divided).here("run", series, "data.benchmark=u2_bench", *QUICKER, extra=("--seeds", "2")) == 0
    table_of_seeds = capsys.readouterr().out.rpartition(" over 2 seeds")[2]
    assert SAYS_SO in table_of_seeds
    assert "Unofficial split by patient: not comparable" in table_of_seeds
    assert_run(first, is_part=False)
    assert_labelled(read(series / "seeds.json"), is_part=False)

    assert main(["audit", str(first)]) == 0
    assert f"Trained on sets for evaluation alone: {SAYS_SO}." in capsys.readouterr().out
    assert main(["report", str(first), str(second), "--out", str(tmp_path / "both")]) == 0
    assert_page(tmp_path / "both", is_part=False)
    assert main(["compare", str(first), str(second), "--out", str(tmp_path / "compared")]) == 0
    assert SAYS_SO in capsys.readouterr().out
    for label in read(tmp_path / "compared" / "compare.json")["labels"]:
        assert_labelled(label, is_part=False)
    assert_page(tmp_path / "compared", is_part=False)

    assert main(["export", str(first), "--out", str(tmp_path / "model"), "--no-proof"]) == 0
    card = plain(tmp_path / "model" / "README.md")
    assert SAYS_SO in card
    assert "; prompts: ours." in card
    assert "> **Unofficial split.**" in card

    config = logged_config(
        read_recipe(str(first / "recipe.yaml")), open_prepared(divided).manifest, run_label_of(first), EVERY_FACET
    )
    assert_labelled(config["label"], is_part=False)


@pytest.mark.slow
def test_a_run_says_that_an_evaluation_set_was_a_part_of_its_mixture(
    divided: Path, prepared_tiny: Path, nano: Nano, tmp_path: Path
) -> None:
    parts = f"[{{benchmark: busi, root: {prepared_tiny}}}, {{benchmark: u2_bench, root: {divided}}}]"
    assert nano.here("run", tmp_path / "run", *QUICKER, f"data.mixture={parts}") == 0
    assert_run(tmp_path / "run", is_part=True)


@pytest.mark.slow
def test_weights_keep_what_they_learnt_when_they_are_asked_about_another_set(
    divided: Path, prepared_tiny: Path, nano: Nano, tmp_path: Path, capsys: Capture
) -> None:
    run = tmp_path / "run"
    assert Nano(divided).here("train", run, "data.benchmark=u2_bench", *QUICKER) == 0
    assert f"Trained on sets for evaluation alone: {SAYS_SO}." in capsys.readouterr().out
    assert main(["export", str(run), "--out", str(tmp_path / "model"), "--no-proof"]) == 0
    assert SAYS_SO in plain(tmp_path / "model" / "README.md"), "the card of a run that was not evaluated"
    quick = ("eval.readings=[likelihood]", "eval.conditions=[image]")
    best = run / "checkpoints" / "best.safetensors"
    image = next((divided / "media").glob("*.png"))
    assert main(["chat", str(run), "--media", str(image), "--question", "What is it?"]) == 0
    assert f"Trained on sets for evaluation alone: {SAYS_SO}." in capsys.readouterr().err
    adapter = f"model.adapter={run / 'checkpoints' / 'adapter'}"
    for number, weights in enumerate((f"model.checkpoint={best}", f"model.weights={tmp_path / 'model'}", adapter)):
        again = tmp_path / f"again_{number}"
        capsys.readouterr()
        assert nano.here("eval", again, *quick, weights, extra=("--limit", "8")) == 0
        assert f"Trained on sets for evaluation alone: {SAYS_SO}." in capsys.readouterr().out
        assert_labelled(read(again / "results.json"), is_part=True)
    assert nano.here("eval", tmp_path / "untouched", *quick, extra=("--limit", "8")) == 0
    assert "unofficial_training" not in read(tmp_path / "untouched" / "results.json")


def test_validate_says_it_before_anything_is_learnt(divided: Path, shown: Told) -> None:
    settings = [f"data.root={divided}", "data.benchmark=u2_bench", *QUICK, *QUICKER]
    assert "unofficial split by patient" in shown(main(["validate", "nano_busi_lora", "--set", *settings]))


@pytest.mark.parametrize("is_part", [False, True], ids=["data.root", "data.mixture"])
def test_a_set_for_evaluation_alone_is_refused_with_what_to_do(
    *, is_part: bool, prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    write_example("u2_bench", tmp_path / "raw")
    whole = tmp_path / "whole"
    assert main(["prepare", "u2_bench", "--from", str(tmp_path / "raw"), "--out", str(whole)]) == 0
    parts = f"data.mixture=[{{benchmark: u2_bench, root: {whole}}}]"
    root, settings = (prepared_tiny, parts) if is_part else (whole, "data.benchmark=u2_bench")
    assert Nano(root).here("train", tmp_path / "run", settings) == 1
    said = capsys.readouterr().err
    assert "u2_bench is for evaluation alone" in said
    assert "medtune prepare u2_bench --source u2_bench --from ... --out ... --unofficial-split patient" in said
    assert ("medtune eval" in said) is not is_part


def test_an_audit_of_the_folder_says_it(divided: Path, capsys: Capture) -> None:
    assert main(["audit", "u2_bench", "--questions", str(divided)]) == 0
    assert "Unofficial split by patient: not comparable" in capsys.readouterr().out


def read(path: Path) -> Any:
    return json_of(path)


def plain(path: Path) -> str:
    return path.read_text("utf-8").replace("\\", "")


def run_label_of(run: Path) -> Any:
    return RunFolder(run).recorded_label()


def assert_labelled(found: Any, *, is_part: bool) -> None:
    assert found["unofficial_training"] == SAYS_SO
    assert found.get("unofficial_split") == (None if is_part else "patient")
    assert found["provenance"] == ("reconstruction" if is_part else "released")
    assert found["prompts"] == "ours"


def assert_run(run: Path, *, is_part: bool) -> None:
    for file in ("results.json", "zero_shot/scores.json", "final/scores.json", "environment.json", "audit.json"):
        assert_labelled(read(run / file), is_part=is_part)
    assert "u2_bench (p): " in read(run / "results.json")["trained_on"]
    assert "unofficial split by patient" in read(run / "results.json")["trained_on"]
    assert_page(run, is_part=is_part)


def assert_page(folder: Path, *, is_part: bool) -> None:
    for file in ("report.html", "report.md"):
        text = plain(folder / file)
        assert BANNER in text
        assert SAYS_SO in text
        assert ("Unofficial split" in text) is not is_part
        assert ("Reconstructed questions" in text) is is_part


BY_FLAG = "pairs in two splits by --split-lookalikes"
BANNER_OF_LOOKALIKES = "Look-alikes in training and test"


def test_prepare_counts_groups_and_says_what_was_split(tiny_busi: Path, tmp_path: Path, shown: Told) -> None:
    raw = prepared_twins(tiny_busi, tmp_path, split_lookalikes=False).root.with_name("raw")
    asked = ["prepare", "busi", "--from", str(raw), "--out", str(tmp_path / "out")]
    said = shown(main(asked))
    assert "look-alikes: 30 images form 24 groups (perceptual hashes differ in at most 8 of 64 bits); 6 pairs" in said
    assert "look-alikes: no pair within 8 of 64 bits or of such a correlation is in two splits" in said
    assert BY_FLAG not in said
    said = shown(main([*asked, "--split-lookalikes"]))
    assert "of 6 " + BY_FLAG in said
    assert "val and test questions have a look-alike in train" in said
    assert json_of(tmp_path / "out" / "manifest.json")["lookalikes"]["kept_together"] is False


def test_validate_and_audit_say_it_before_anything_is_learnt(tiny_busi: Path, tmp_path: Path, shown: Told) -> None:
    root = prepared_twins(tiny_busi, tmp_path, split_lookalikes=True).root
    said = shown(main(["validate", "nano_busi_lora", "--no-weights", "--set", f"data.root={root}", *QUICK]))
    assert "look-alikes: 30 images form 24 groups" in said
    assert BY_FLAG in said
    assert BY_FLAG in shown(main(["audit", "busi", "--questions", str(root), "--out", str(tmp_path / "findings.json")]))
    assert_labelled_of_lookalikes(read(tmp_path / "findings.json"))


@pytest.mark.slow
def test_a_run_says_that_look_alikes_were_split_and_scores_the_others_apart(
    tiny_busi: Path, tmp_path: Path, shown: Told
) -> None:
    root, run = prepared_twins(tiny_busi, tmp_path / "data", split_lookalikes=True).root, tmp_path / "run"
    assert BY_FLAG in shown(Nano(root).here("run", run, *QUICKER))
    results = read(run / "results.json")
    assert_labelled_of_lookalikes(results)
    by = results["phases"]["final"]["by"][TRAIN_TWIN]
    assert set(by) == set(results["gain"]["by"][TRAIN_TWIN]) == {"yes", "no"}
    assert by["no"]["ci95"]
    predictions = str(run / "final" / "predictions.jsonl")
    said = shown(main(["score", "busi", "--predictions", predictions, "--questions", str(root)]))
    assert BY_FLAG in said
    assert "no look-alike in train" in said
    for page in ("report.html", "report.md"):
        text = (run / page).read_text("utf-8").replace("\\", "")
        assert BANNER_OF_LOOKALIKES in text
        assert BY_FLAG in text


@pytest.mark.slow
def test_a_run_says_that_it_learnt_look_alikes_of_the_test(
    tiny_busi: Path, prepared_tiny: Path, tmp_path: Path, capsys: Capture, shown: Told
) -> None:
    raw = write_twins(tiny_busi, tmp_path / "raw")
    larger = tmp_path / "larger"
    assert main(["prepare", "busi", "--from", str(raw), "--out", str(larger)]) == 0
    parts = f"data.mixture=[{{benchmark: busi, root: {larger}}}]"
    assert Nano(prepared_tiny).here("run", tmp_path / "refused", parts, *QUICKER) == 1
    assert "images look like images of its train split" in capsys.readouterr().err
    run = tmp_path / "run"
    assert Nano(prepared_tiny).here("run", run, parts, "data.allow_lookalikes=true", *QUICKER) == 0
    said = "images look like images of larger that were trained on, by data.allow_lookalikes"
    assert capsys.readouterr().out.count(said) >= 2
    for file in ("results.json", "final/scores.json", "environment.json", "audit.json"):
        assert read(run / file)["learnt_lookalikes"].endswith(said)
    for file in ("report.html", "report.md"):
        assert said in (run / file).read_text("utf-8").replace("\\", "")
    assert said in shown(main(["audit", str(run)]))


def assert_labelled_of_lookalikes(found: Any) -> None:
    assert found["split_lookalikes"].endswith(BY_FLAG)
