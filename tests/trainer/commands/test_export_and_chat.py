"""Tests of `medtune export`, `medtune predict` and `medtune chat` on a run of a tiny random model."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from huggingface_hub import ModelCard
from transformers.utils import logging

import medtune
from medtune.data.prepared.read import open_prepared
from medtune.data.types import MediaGroup, Prediction, Request
from medtune.eval.statistics.calibration import option_probabilities
from medtune.models.answering import LocalAnswerer
from medtune.trainer.commands.cli import main
from tests.data.media.videos.synthetic_videos import cine, counted
from tests.trainer.conftest import Capture, Nano, Told, json_of

pytestmark = pytest.mark.usefixtures("forked_readers")


@pytest.fixture(scope="module")
def run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    quick = ("eval.readings=[likelihood]", "eval.conditions=[image]", "model.tuning.language.lr=0.05")
    assert Nano(prepared_tiny).here("run", out, *quick) == 0
    return out


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    PIL.Image.new("RGB", (64, 48), (90, 10, 200)).save(path)
    return path


def answers(folder: Path) -> dict[str, list[float]]:
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    return {line["question_id"]: line["option_logprobs"] for line in lines}


def test_an_exported_run_evaluates_as_the_run_did(
    run: Path, prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "model"
    logging.enable_progress_bar()
    assert main(["export", str(run), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert f"model.weights={out}" in said.out
    assert said.err == ""
    again = tmp_path / "again"
    settings = (f"model.weights={out}", "eval.readings=[likelihood]", "eval.conditions=[image]")
    assert Nano(prepared_tiny).here("eval", again, *settings) == 0
    before, after = answers(run / "final"), answers(again / "zero_shot")
    assert before.keys() == after.keys()
    for question, logprobs in before.items():
        assert after[question] == pytest.approx(logprobs, abs=1e-3)
    assert before != answers(run / "zero_shot")
    weights = json_of(again / "weights.json")
    assert all("exported to model" in text for text in weights.values())


def test_the_model_card_has_results_origin_and_terms(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    assert main(["export", str(run), "--out", str(out), "--no-proof"]) == 0
    card = (out / "README.md").read_text("utf-8")
    results = json_of(run / "results.json")
    assert f"{results['phases']['final']['overall']['value']:.3f}" in card
    assert results["data_hash"] in card
    for words in (
        "no medical device",
        "Apache-2.0",
        "- projector: trained in this run, from random",
        "nano\\_busi\\_lora",
        "lora:",
    ):
        assert words in card
    known: Any = ModelCard(card).data
    (score,) = known.eval_results or []
    assert (known.license, known.library_name, known.model_name) == ("apache-2.0", "medtune", "model")
    assert (score.dataset_type, score.metric_type, score.dataset_split) == ("busi", "accuracy", "test")
    assert score.metric_value == pytest.approx(results["phases"]["final"]["overall"]["value"], abs=1e-4)
    assert score.dataset_name.endswith(f"({results['provenance']} data)")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert main(["export", str(run), "--out", str(out)]) == 1


def test_chat_answers_each_question_and_each_line(
    run: Path, picture: Path, capsys: Capture, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["chat", str(run), "--media", str(picture)]
    assert main([*asked, "--question", "What is it?", "--question", "Where?"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) >= 2
    assert "For research" in said.err
    monkeypatch.setattr("sys.stdin", io.StringIO("What is it?\nWhere?\n\nnever asked\n"))
    assert shown(main(asked)) == said.out
    assert shown(main([*asked, "--question", "What is it?", "--max-new-tokens", "1"])) != said.out


def test_chat_shows_several_pictures_together_or_none(
    run: Path, picture: Path, tmp_path: Path, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.png"
    PIL.Image.effect_noise((64, 48), 90).convert("RGB").save(other)
    asked: list[tuple[str, ...]] = []

    def watched(answerer: LocalAnswerer, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        asked.append(tuple(ref.path.name for ref in group.media))
        return answer(answerer, group, requests)

    answer = LocalAnswerer.answer
    monkeypatch.setattr(LocalAnswerer, "answer", watched)
    for paths in ([picture, other], []):
        media = [argument for path in paths for argument in ("--media", str(path))]
        assert shown(main(["chat", str(run), *media, "--question", "What is it?"]))
    assert asked == [(picture.name, "other.png"), ()]


def test_chat_says_what_is_missing(run: Path, picture: Path, tmp_path: Path, capsys: Capture, refused: Told) -> None:
    assert "none.png" in refused(main(["chat", str(run), "--media", str(tmp_path / "none.png"), "--question", "?"]))
    volume = tmp_path / "ct.nii.gz"
    volume.write_bytes(b"")
    assert main(["chat", str(run), "--media", str(volume), "--question", "?"]) == 1
    assert "taken for a volume; the model nano_pocket reads images only" in capsys.readouterr().err
    assert "the question is empty" in refused(main(["chat", str(run), "--media", str(picture), "--question", " "]))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_predict_gives_the_answers_of_the_run_and_goes_on_after_a_stop(
    run: Path, prepared_tiny: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["predict", str(run), "--from", str(prepared_tiny), "--out", str(tmp_path / "answers.jsonl")]
    asked, answer = [], LocalAnswerer.answer

    def stops(answerer: LocalAnswerer, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        asked.append(group.media_id)
        if len(asked) == 4:
            raise ValueError("stopped")
        return answer(answerer, group, requests)

    monkeypatch.setattr(LocalAnswerer, "answer", stops)
    assert main(command) == 1
    assert "The answers so far are kept in" in capsys.readouterr().err
    assert main(command) == 0
    assert len(asked) == len({*asked}) + 1
    said = capsys.readouterr()
    assert "For research only" in said.err
    assert "trained on busi" in said.out
    rows = {row["id"]: row for row in map(json.loads, (tmp_path / "answers.jsonl").read_text().splitlines())}
    for question, logprobs in answers(run / "final").items():
        assert [*rows[question]["probabilities"].values()] == pytest.approx(option_probabilities(logprobs), abs=2e-4)
        assert rows[question]["answer"] == max(rows[question]["probabilities"], key=rows[question]["probabilities"].get)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.jsonl"]
    assert main(command) == 1
    assert "exists and is left as it is" in capsys.readouterr().err


def test_predict_takes_tables_and_folders_for_runs_exports_and_recipes(
    run: Path, prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    (images := tmp_path / "images" / "deep").mkdir(parents=True)
    for number in range(3):
        PIL.Image.effect_noise((64, 48), 90).convert("RGB").save(images / f"{number}.png")
    (images / "broken.png").write_bytes(b"no picture")
    (tmp_path / "new.csv").write_text(
        "image,question,options,answer\n1.png,Is it so?,yes|no,kept\n9.png,Is it so?,yes|no,\n0.png,?,,\n2.png,,,\n"
    )
    exported, export = tmp_path / "exported", ["--no-proof", "--dtype", "float32"]
    assert main(["export", str(run), "--out", str(exported), *export]) == 0
    settings = ["--set", f"data.root={prepared_tiny}", "eval.max_new_tokens=4"]
    found = {}
    for name, model in (("run", [str(run)]), ("export", [str(exported)]), ("recipe", ["nano_busi_lora", *settings])):
        table = ["--from", str(tmp_path / "new.csv"), "--images", str(images), "--out", str(tmp_path / f"{name}.csv")]
        assert main(["predict", *model, *table]) == 0, capsys.readouterr().err
        assert "TRAINED ON" not in capsys.readouterr().out
        found[name] = _rows(tmp_path / f"{name}.csv")
        assert [row["media"] for row in found[name]] == ["1.png", "0.png", "", ""]
        assert "there is no such image file" in found[name][2]["error"]
        assert "the question is empty" in found[name][3]["error"]
        first, free, *_ = found[name]
        assert float(first["p: yes"]) + float(first["p: no"]) == pytest.approx(1, abs=1e-3)
        assert (free["probability"], free["answer"]) == ("", free["reply"].strip() and free["answer"])
    assert found["run"][0]["p: yes"] == found["export"][0]["p: yes"] != found["recipe"][0]["p: yes"]
    capsys.readouterr()
    assert main(["predict", str(exported), "--from", str(images.parent), "--out", str(tmp_path / "x.csv")]) == 1
    assert "the rows have no question" in capsys.readouterr().err
    with pytest.raises(ValueError, match="own data ask 3 different ones: 'What does this breast"):
        medtune.predict(run, images.parent)
    learnt = open_prepared(prepared_tiny).groups("train")[0].media[0].path
    PIL.Image.open(learnt).convert("RGB").save(images / "2.tif")
    (images / "2.png").unlink()
    for source in (run, exported):
        rows = medtune.predict(source, images.parent, question="Is it so?", options=["yes", "no"])
        assert "TRAINED ON: 1 of the 3 pictures" in capsys.readouterr().out
    assert [row.get("media") for row in rows] == ["deep/0.png", "deep/1.png", "deep/2.tif", None]
    assert rows[-1]["id"] == "images, 4"
    assert rows[1]["probabilities"]["yes"] == pytest.approx(float(found["run"][0]["p: yes"]), abs=1e-3)


def test_predict_is_told_how_fast_a_cine_runs(prepared_tiny: Path, tmp_path: Path, capsys: Capture) -> None:
    cine(tmp_path / "cine.dcm", counted(5)[..., 0], frame_time_ms=None)
    cine(tmp_path / "short.dcm", counted(3)[..., 0], frame_time_ms=None)
    (tmp_path / "new.csv").write_text("video,question,options\ncine.dcm,Is it so?,yes|no\nshort.dcm,Is it so?,yes|no\n")
    settings = ["--set", f"data.root={prepared_tiny}", "model.name=nano_pocket_video", "eval.max_new_tokens=2"]
    command = ["predict", "nano_busi_lora", *settings, "--from", str(tmp_path / "new.csv")]
    assert main([*command, "--out", str(tmp_path / "a.csv")]) == 1
    assert "the file does not say how fast its frames follow" in capsys.readouterr().err
    assert main([*command, "--frames-per-s", "20", "--out", str(tmp_path / "a.csv")]) == 0, capsys.readouterr().err
    first, second = _rows(tmp_path / "a.csv")
    assert (first["media"], first["error"]) == ("cine.dcm", "")
    assert second["error"].endswith("short.dcm: the clip has 3 frames where the model looks at 4; make it longer")
    with pytest.raises(SystemExit):
        main([*command, "--patient", "(", "--out", str(tmp_path / "b.csv")])
    assert "'(': no regular expression" in capsys.readouterr().err


@pytest.mark.parametrize(("rate", "abstains"), [("0.05", {"yes"}), ("0.99", {"no"})])
def test_predict_abstains_by_the_val_split(
    run: Path, prepared_tiny: Path, tmp_path: Path, shown: Told, rate: str, abstains: set[str]
) -> None:
    command = ["predict", str(run), "--from", str(prepared_tiny), "--out", str(tmp_path / "a.csv")]
    said = shown(main([*command, "--error-rate", rate]))
    rows = _rows(tmp_path / "a.csv")
    assert {row["abstains"] for row in rows} >= abstains
    assert ("no answer is given" in said) == (rate == "0.05")
    assert ("are given, so that at most 99.0%" in said) == (rate == "0.99")
    assert any(" | " in row["options_that_hold"] for row in rows) == (rate == "0.05")
