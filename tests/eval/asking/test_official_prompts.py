"""Tests that official prompts are read from the benchmark's files, sent verbatim, and named in every output."""

import json
import os
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.u2_bench.official.prompts import read, scenario
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import SPLITS, Prompt, Question
from medtune.eval.asking.official_prompts import OUR_WORDING, wording_name
from medtune.eval.asking.prepared_prompts import read_official_templates, usable_templates, with_prepared_prompts
from medtune.eval.benchmark import Benchmark
from medtune.trainer.commands.cli import main
from tests.conftest import REPOSITORY
from tests.eval.asking.prompts_files import prompts_file
from tests.examples import OF_SETS

PLACES = {
    "LL 23": "Image of the {anatomy}.\nWhere is the lesion?",
    "KD 48": "Where is {kp||some valve}?",
    "OD 31": "Where in the {anatomy} is {seg_channel_name}?",
}
"""What a user writes by hand, because the kit has it in code."""


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Writes the files of the evaluation kit with texts of our own."""
    folder = tmp_path / "kit" / "vlmeval" / "dataset"
    folder.mkdir(parents=True)
    (folder / "cla_prompt.json").write_text(
        json.dumps({"10": "Pose? {braces stay}", "23": "Finding?", "28": "Grade?", "28_class": "Side?"})
    )
    (folder / "mea_prompt.json").write_text(json.dumps({"31": "How large, at {pixelSizeMm}mm?"}))
    return tmp_path / "kit"


@pytest.fixture
def templates(kit: Path) -> dict[str, str]:
    return {**read(kit), **PLACES}


@pytest.fixture
def file(templates: dict[str, str], tmp_path: Path) -> Path:
    return prompts_file(tmp_path / "prompts.yaml", templates)


def _asked(task: str, dataset: str, text: str = "?", **facets: str) -> Question:
    return Question("q", "m", text, ("a", "b"), "a", "choice", "p", {"task": task, "dataset": dataset, **facets})


def test_the_file_is_made_of_the_kits_texts_and_names_what_is_missing(
    kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made.yaml"
    arguments = ["prompts", "u2_bench", "--from", str(kit), "--out", str(out)]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert f"{out}: 5 of " in said
    assert "asked in our words until you add them: " in said
    assert "RG 39" in said
    found = read_official_templates(find_benchmark("u2_bench"), out)
    assert found == read(kit)
    assert (found["DD 28_1"], found["VRA 28"], found["DD 23"]) == ("Grade?", "Side?", "Finding?")
    assert main(arguments) == 1
    assert "name another file with --out" in capsys.readouterr().err
    for name, message in (("busi", "has no prompts in files of plain text"), ("slake", "a line for each of closed, ")):
        assert main(["prompts", name, "--from", str(kit), "--out", str(tmp_path / "no.yaml")]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("benchmark", "text", "message"),
    [
        ("u2_bench", "DD 32x: Finding?", r"there is no template 'DD 32x'. Did you mean 'DD 32'\? There are: DD 21"),
        ("u2_bench", "DD 23:", "'DD 23' is no text"),
        ("u2_bench", "DD 23: '  '", "'DD 23' is no text"),
        ("u2_bench", "DD 23: [Finding]", "'DD 23' is no text"),
        ("u2_bench", "- DD 23", "wanted lines like NAME: TEXT"),
        ("u2_bench", "", "wanted lines like NAME: TEXT"),
        ("u2_bench", "DD 23: 'Finding?", "broken YAML"),
        ("vqa_rad", "open: Say it shortly.", r"wanted 'open' to hold \{question\}"),
        ("pmc_vqa", "choices: '{question}'", r"wanted 'choices' to hold \{options\}"),
        ("rexsonovqa", "frames: 'Look. {user}{question}'", r"wanted 'frames' to hold \{pictures\}"),
        ("ctlesionvqa", "numeric + sex: '{shown}'", r"wanted 'numeric \+ sex' to hold \{question\}"),
        (
            "ctlesionvqa",
            "numeric + age + sex: '{shown}{question}'",
            r"no template 'numeric \+ age \+ sex'. Did you mean",
        ),
        ("mmmu_med", "open: Shortly, please.", r"wanted 'open' to hold \{question\}"),
        ("busi", "a: b", "has no official prompts that medtune reads"),
    ],
)
def test_a_wrong_file_is_refused_by_line(benchmark: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "prompts.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_official_templates(find_benchmark(benchmark), tmp_path / "prompts.yaml")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file of prompts; check --prompts\.$"):
        read_official_templates(find_benchmark("u2_bench"), tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="which `medtune prompts` makes or you write"):
        read_official_templates(find_benchmark("u2_bench"), tmp_path)


def test_scenarios_that_templates_cannot_ask_are_left_to_ours_and_named(templates: dict[str, str]) -> None:
    u2 = find_benchmark("u2_bench")
    breast, anywhere, report = _asked("LL", "23", anatomy="breast"), _asked("LL", "23"), _asked("RG", "39")
    every = usable_templates(u2, templates, [breast])
    assert (every.name, every.templates, every.notes) == (wording_name(templates), templates, ())
    some = usable_templates(u2, templates, [_asked("DD", "23"), breast, anywhere, report, report])
    without = {scenario: template for scenario, template in templates.items() if scenario != "LL 23"}
    digest = wording_name(without).removeprefix("official, ")
    assert some.templates == without
    assert some.name == f"official for 1 scenario, ours for 2: LL 23, RG 39; {digest}"
    assert some.notes == (
        "asked in our words, not the official ones: LL 23 (nothing for {anatomy}: 1 questions)",
        "asked in our words, not the official ones: RG 39 (there is no template: 2 questions)",
    )
    with pytest.raises(ValueError, match=r"none of the scenarios: LL 23 \(nothing for .*\), RG 39 \(there is no"):
        usable_templates(u2, templates, [anywhere, report])


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
        OF_SETS[name](tmp_path / "raw" / name)
    return tmp_path / "raw"


def _prepare(raw: Path, out: Path, prompts: Path | None) -> int:
    given = [] if prompts is None else ["--prompts", str(prompts)]
    return main(["prepare", "u2_bench", "--source", "u2_bench_rebuilt", "--from", str(raw), "--out", str(out), *given])


def _prompts(worded_as: Benchmark, prepared: Prepared) -> dict[str, Prompt]:
    return {scenario(q): worded_as.render(q, "text") for split in SPLITS for q in prepared.questions(split)}


def test_prepared_prompts_ask_every_question_and_every_output_says_so(
    templates: dict[str, str], rebuilt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rebuilt / "fpus23" / "Dataset_Plane").rename(tmp_path / "planes")
    out, run = tmp_path / "prepared", tmp_path / "run"
    file = prompts_file(tmp_path / "prompts.yaml", {**templates, "OD 31": "Where is {unheard}?"})
    assert main(["prepare", "busi", "--from", str(rebuilt), "--out", str(out), "--prompts", str(file)]) == 1
    assert "has no official prompts" in capsys.readouterr().err
    assert _prepare(rebuilt, out, file) == 0
    shown = capsys.readouterr().out
    assert "prompts: official for 2 scenarios, ours for 1: OD 31; sha256 " in shown
    assert "asked in our words, not the official ones: OD 31 (nothing for {unheard}: 12 questions)" in shown
    partly = with_prepared_prompts(find_benchmark("u2_bench"), open_prepared(out))
    assert partly.wording == open_prepared(out).manifest.prompts
    said = _prompts(partly, open_prepared(out))
    assert said["VRA 10"].text == "Pose? {braces stay}"
    ours = find_benchmark("u2_bench").render
    asked = {scenario(q): q for split in SPLITS for q in open_prepared(out).questions(split)}
    assert said["OD 31"] == ours(asked["OD 31"], "text")
    assert _prepare(rebuilt, out, prompts_file(file, templates)) == 0
    prepared = open_prepared(out)
    name = prepared.manifest.prompts
    assert name.startswith("official, sha256 ")
    assert f"prompts: {name}" in capsys.readouterr().out
    u2 = with_prepared_prompts(find_benchmark("u2_bench"), prepared)
    said = _prompts(u2, prepared)
    assert said["VRA 10"].text == "Pose? {braces stay}"
    assert set(said["VRA 10"].choices) == {"hdvb", "hdvf", "huvb", "huvf"}
    assert said["OD 31"].text == "Where in the fetal head is head?"
    assert said["CVE 31"].text == "How large, at {pixelSizeMm}mm?"
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


def test_other_prompts_than_the_manifest_names_are_refused(file: Path, rebuilt: Path, tmp_path: Path) -> None:
    assert _prepare(rebuilt, tmp_path / "prepared", file) == 0
    kept = tmp_path / "prepared" / "prompts.json"
    kept.write_text(kept.read_text("utf-8").replace("Pose?", "Which pose?"), "utf-8")
    with pytest.raises(ValueError, match=r"its prompts\.json is not the one that its manifest names"):
        with_prepared_prompts(find_benchmark("u2_bench"), open_prepared(tmp_path / "prepared"))
    kept.unlink()
    with pytest.raises(ValueError, match=r"its prompts\.json, which its manifest names, is missing"):
        with_prepared_prompts(find_benchmark("u2_bench"), open_prepared(tmp_path / "prepared"))


def test_our_wording_is_named_too(rebuilt: Path, tmp_path: Path) -> None:
    assert _prepare(rebuilt, tmp_path / "prepared", None) == 0
    prepared: Prepared = open_prepared(tmp_path / "prepared")
    assert prepared.manifest.prompts == OUR_WORDING
    assert prepared.templates is None
    assert with_prepared_prompts(find_benchmark("u2_bench"), prepared).wording == OUR_WORDING


def test_no_sentence_of_the_official_prompts_is_in_the_project(shared_published: Path) -> None:
    sentences = {
        sentence.strip()
        for path in (shared_published / "prompts").glob("*.txt")
        for sentence in path.read_text("utf-8").replace("\n", ". ").split(". ")
        if len(sentence.strip()) > 60
    }
    assert len(sentences) > 40
    for root, _, files in os.walk(REPOSITORY / "medtune"):
        for name in files:
            if name.endswith((".py", ".yaml", ".json")):
                text = (Path(root) / name).read_text("utf-8")
                assert not [sentence for sentence in sentences if sentence in text], name
