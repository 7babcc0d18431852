"""Official prompts: read from the benchmark's own files, sent verbatim, and named in every output."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from medtune.data.prepared import Prepared, open_prepared
from medtune.data.public_set import public_set
from medtune.data.types import SPLITS, Question
from medtune.eval.benchmark import benchmark
from medtune.eval.benchmarks.u2_bench.official_prompts import read, scenario
from medtune.eval.wording import OURS, check_official, name_of, worded
from medtune.trainer.cli import main
from tests.conftest import REPOSITORY

CODE = """
class Places:
    def build_prompt(self, line, task_type):
        hint = line["hint"]
        prompt = ""
        if hint is not None:
            prompt += f"{hint}."
        if self.dataset_name in ["04", "17", "23", "32", "64"]:
            prompt += f"Image of the {anatomy}.\\n"
            prompt += "Where is the lesion?"
        elif self.dataset_name == "48":
            prompt += f"Where is {kp}?"
        else:
            prompt += f"Where in the {anatomy} is {seg_channel_name}?"
        return prompt
"""


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """The evaluation kit's files, in words of our own."""
    folder = tmp_path / "kit" / "vlmeval" / "dataset"
    folder.mkdir(parents=True)
    (folder / "cla_prompt.json").write_text(
        json.dumps({"10": "Pose? {braces stay}", "23": "Finding?", "28": "Grade?", "28_class": "Side?"})
    )
    (folder / "mea_prompt.json").write_text(json.dumps({"31": "How large, at {pixelSizeMm}mm?"}))
    (folder / "image_seg.py").write_text(CODE)
    return tmp_path / "kit"


def _asked(task: str, dataset: str, text: str = "?", **facets: str) -> Question:
    return Question("q", "m", text, ("a", "b"), "a", "choice", "p", {"task": task, "dataset": dataset, **facets})


def test_kit_is_read_without_being_run(kit: Path) -> None:
    found = read(kit)
    assert (found["DD 28_1"], found["VRA 28"], found["DD 23"]) == ("Grade?", "Side?", "Finding?")
    assert found["LL 23"] == "Image of the {anatomy}.\nWhere is the lesion?"
    assert found["KD 48"] == "Where is {kp}?"
    assert found["OD 31"] == "Where in the {anatomy} is {seg_channel_name}?"
    assert "RG 39" not in found


def test_templates_that_do_not_fit_are_refused_with_counts(kit: Path) -> None:
    u2, templates = benchmark("u2_bench"), read(kit)
    check_official(u2, templates, [_asked("LL", "23", anatomy="breast")])
    with pytest.raises(
        ValueError, match=r"LL 23 \(nothing for \{anatomy\}\): 1 questions; RG 39 \(no template\): 2 questions"
    ):
        check_official(u2, templates, [_asked("RG", "39"), _asked("RG", "39"), _asked("LL", "23")])


def test_missing_and_broken_files(kit: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wanted cla_prompt\.json"):
        read(tmp_path)
    (kit / "vlmeval" / "dataset" / "mea_prompt.json").write_text("{")
    with pytest.raises(ValueError, match=r"mea_prompt\.json: broken JSON"):
        read(kit)


@pytest.fixture
def rebuilt(tmp_path: Path) -> Path:
    for name in ("hc18", "fpus23"):
        (tmp_path / "raw" / name).mkdir(parents=True)
        public_set(name).write_example(tmp_path / "raw" / name)
    return tmp_path / "raw"


def _prepare(raw: Path, out: Path, prompts: Path | None) -> int:
    given = [] if prompts is None else ["--prompts", str(prompts)]
    return main(["prepare", "u2_bench", "--source", "u2_bench_rebuilt", "--from", str(raw), "--out", str(out), *given])


def test_prepared_prompts_ask_every_question_and_every_output_says_so(
    kit: Path, rebuilt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rebuilt / "fpus23" / "Dataset_Plane").rename(tmp_path / "planes")
    out, run = tmp_path / "prepared", tmp_path / "run"
    assert main(["prepare", "busi", "--from", str(rebuilt), "--out", str(out), "--prompts", str(kit)]) == 1
    assert "has no official prompts" in capsys.readouterr().err
    places = kit / "vlmeval" / "dataset" / "image_seg.py"
    places.write_text(CODE.replace("{seg_channel_name}", "{unheard}"))
    assert _prepare(rebuilt, out, kit) == 1
    assert "OD 31 (nothing for {unheard}): 12 questions" in capsys.readouterr().err
    assert not out.exists()
    places.write_text(CODE)
    assert _prepare(rebuilt, out, kit) == 0
    prepared = open_prepared(out)
    name = prepared.manifest.prompts
    assert name.startswith("official, sha256 ")
    assert f"prompts: {name}" in capsys.readouterr().out
    u2 = worded(benchmark("u2_bench"), prepared)
    said = {scenario(q): u2.render(q, "text") for split in SPLITS for q in prepared.questions(split)}
    assert said["VRA 10"].text == "Pose? {braces stay}"
    assert set(said["VRA 10"].choices) == {"hdvb", "hdvf", "huvb", "huvf"}
    assert said["OD 31"].text == "Where in the fetal head is head?"
    assert said["CVE 31"].text == "How large, at 0.5mm?"
    settings = ["data.benchmark=u2_bench", f"data.root={out}", "log.wandb=disabled", "eval.max_new_tokens=4"]
    arguments = [
        "eval",
        "nano_busi_lora",
        "--out",
        str(run),
        "--limit",
        "6",
        "--set",
        "eval.conditions=[image]",
        *settings,
    ]
    assert main([*arguments, "model.answer_format=letter"]) == 1
    assert "official prompts, which ask for an answer as text" in capsys.readouterr().err
    assert main(arguments) == 0
    assert f"Prompts: {name}." in capsys.readouterr().out
    assert json.loads((run / "results.json").read_text())["prompts"] == name
    assert name in (run / "report.html").read_text("utf-8")


def test_our_wording_is_named_too(rebuilt: Path, tmp_path: Path) -> None:
    assert _prepare(rebuilt, tmp_path / "prepared", None) == 0
    prepared: Prepared = open_prepared(tmp_path / "prepared")
    assert prepared.manifest.prompts == name_of(None) == OURS
    assert prepared.templates is None
    assert worded(benchmark("u2_bench"), prepared).wording == OURS


def test_the_papers_prompts_are_sent_verbatim(shared_real: Path) -> None:
    folder = shared_real.parent / "published" / "prompts"
    found = read(folder)
    wanted = (
        "VRA 10, VRA 18, DD 28_1, DD 40, VRA 50, DD 23, DD 70, DD 25, DD 42, DD 74is_normal, VRA 74is_visible, VRA 03, "
        "VRA 37, VRA 53, VRA 69, VRA anatomy, VRA 28, CG 10, RG 39"
    )
    assert set(wanted.split(", ")) <= set(found)
    assert not any(key.startswith(("LL", "OD", "KD")) for key in found)
    u2 = benchmark("u2_bench")
    assert u2.official is not None
    question = _asked("VRA", "03")
    assert found[scenario(question)] == (folder / "u2_12_fetal_plane_dataset03.txt").read_text("utf-8").strip()
    assert "{anatomy_location}" in found["CG 10"]


def test_no_sentence_of_the_official_prompts_is_in_the_project(shared_real: Path) -> None:
    sentences = {
        sentence.strip()
        for path in (shared_real.parent / "published" / "prompts").glob("*.txt")
        for sentence in path.read_text("utf-8").replace("\n", ". ").split(". ")
        if len(sentence.strip()) > 60
    }
    assert len(sentences) > 40
    for root, _, files in os.walk(REPOSITORY / "medtune"):
        for name in files:
            if name.endswith((".py", ".yaml", ".json")):
                text = (Path(root) / name).read_text("utf-8")
                assert not [sentence for sentence in sentences if sentence in text], name
