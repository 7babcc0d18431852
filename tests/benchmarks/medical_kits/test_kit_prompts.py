"""Tests that the field's sets are asked in MedEvalKit's or MMMU's prompts, read from the user's copy of the kit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.iu_xray.report_text import FINDINGS
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import MEDIA_MARK, SPLITS, AnswerFormat, Prompt, Question
from medtune.eval.asking.official_prompts import OfficialPrompts, wording_name
from medtune.eval.asking.prepared_prompts import usable_templates, with_prepared_prompts
from medtune.eval.benchmark import nothing_missing
from medtune.eval.data_label import DataLabel
from medtune.eval.published_protocol import why_unlike_published
from medtune.trainer.commands.cli import main
from tests.benchmarks.medical_kits.copied_kits import CONFIGURATION, FORMATS, medevalkit, mmmu
from tests.examples import write_example

SETS = ("vqa_rad", "slake", "path_vqa", "pmc_vqa", "omnimedvqa", "medxpertqa_mm", "iu_xray", "mmmu_med")
CHOICE_SETS = ("pmc_vqa", "omnimedvqa", "medxpertqa_mm", "mmmu_med")
REAL = {
    "vqa_rad": "639d8c2dd4a9f3ae",
    "slake": "0abb3519ccdd6672",
    "path_vqa": "639d8c2dd4a9f3ae",
    "pmc_vqa": "77507f2f926c71d9",
    "omnimedvqa": "77507f2f926c71d9",
    "medxpertqa_mm": "77507f2f926c71d9",
    "iu_xray": "b37cff7a2e9339b2",
    "mmmu_med": "a6e3a75b4b0f87a2",
}
"""The beginning of the SHA-256 over the templates of MedEvalKit@9b12e3b and MMMU@bb0b95a."""


def official(name: str) -> OfficialPrompts:
    found = find_benchmark(name).official
    assert found is not None
    return found


def copied(name: str, root: Path) -> Path:
    return mmmu(root) if name == "mmmu_med" else medevalkit(root)


def prepare(name: str, source: str, root: Path) -> int:
    write_example(source, root / "raw")
    given = ["--from", str(root / "raw"), "--out", str(root / "prepared"), "--prompts", str(copied(name, root / "kit"))]
    return main(["prepare", name, "--source", source, *given])


def prepared_prompts(name: str, source: str, root: Path) -> tuple[Prepared, list[tuple[Question, Prompt]]]:
    """Returns a prepared folder of a set's example, and its questions with the prompts that a model sees."""
    assert prepare(name, source, root) == 0
    prepared = open_prepared(root / "prepared")
    benchmark = with_prepared_prompts(find_benchmark(name), prepared)
    form: AnswerFormat = "letter" if name in CHOICE_SETS else "text"
    asked = [question for split in SPLITS for question in prepared.questions(split)]
    return prepared, [(question, benchmark.render(question, form)) for question in asked]


def test_vqa_rad_is_asked_for_yes_or_no_or_shortly_and_every_output_names_the_kit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared, asked = prepared_prompts("vqa_rad", "vqa_rad", tmp_path)
    name, run = prepared.manifest.prompts, tmp_path / "run"
    assert name.startswith("MedEvalKit's, sha256 ")
    assert f"prompts: {name}" in capsys.readouterr().out
    assert {question.facets["task"] for question, _ in asked} == {"yes_no", "closed", "open"}
    for question, prompt in asked:
        is_judged = question.answer in ("yes", "no")
        assert prompt.text == f"{question.text}\n{'Is it so?' if is_judged else 'Say it shortly.'}"
        assert prompt.target == question.answer
        assert prompt.choices == question.options == (("yes", "no") if is_judged else ())
    settings = [
        "data.benchmark=vqa_rad", f"data.root={prepared.root}", "log.wandb=disabled", "eval.conditions=[image]",
        "eval.readings=[generation]", "eval.max_new_tokens=4",
    ]  # fmt: skip
    validate = ["validate", "nano_busi_lora", "--no-weights", "--set", *settings]
    assert main([*validate, "model.answer_format=letter"]) == 1
    assert "holds MedEvalKit's prompts, which ask for an answer as text" in capsys.readouterr().err
    assert main(validate) == 0
    assert f"prompts    {name}" in capsys.readouterr().out
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    assert f"Prompts: {name}." in capsys.readouterr().out
    assert json.loads((run / "results.json").read_text("utf-8"))["prompts"] == name
    predictions = run / "zero_shot" / "predictions.jsonl"
    score = ["score", "vqa_rad", "--predictions", str(predictions), "--questions", str(prepared.root)]
    assert main(score) == 0
    assert json.loads((predictions.parent / "scores.json").read_text("utf-8"))["prompts"] == name


def test_slake_is_asked_by_the_type_of_answer_in_the_language_of_the_question(tmp_path: Path) -> None:
    _, asked = prepared_prompts("slake", "slake", tmp_path)
    said = {("en", True): "Say it shortly.", ("en", False): "One word will do."}
    said |= {("zh", True): "说短一点。", ("zh", False): "一个词就够。"}
    kinds = {(question.facets["language"], question.facets["task"] == "open") for question, _ in asked}
    assert kinds == set(said)
    for question, prompt in asked:
        how = said[question.facets["language"], question.facets["task"] == "open"]
        assert (prompt.text, prompt.target) == (f"{question.text}\n{how}", question.answer)


def test_pmc_vqa_lists_the_cells_as_the_file_has_them_and_asks_for_a_letter(tmp_path: Path) -> None:
    _, asked = prepared_prompts("pmc_vqa", "pmc_vqa_2", tmp_path)
    for question, prompt in asked:
        cells = "\n".join(question.printed[f"Choice {letter}"] for letter in "ABCD")
        assert cells.startswith(" A:")
        assert prompt.text == f"\nAsked: {question.text}\nOne of:\n{cells}\nName it by its letter."
        assert prompt.choices == ("A", "B", "C", "D")
        assert prompt.target == question.printed["letter"]


@pytest.mark.parametrize("name", ["omnimedvqa", "medxpertqa_mm"])
def test_other_sets_of_choices_list_letter_full_stop_and_text(name: str, tmp_path: Path) -> None:
    prompts, question = official(name), find_benchmark(name).examples[0]
    assert prompts.read(medevalkit(tmp_path)) == official("pmc_vqa").read(tmp_path / "utils")
    lines = (prompts.gaps(question)["options"] or "").split("\n")
    assert lines == [f"{letter}. {option}" for letter, option in zip("ABCDE", question.options, strict=False)]
    assert prompts.answer(question, question.options[1]) == "B"


def test_mmmu_med_has_the_format_of_its_configuration_and_keeps_the_places_of_images(tmp_path: Path) -> None:
    prepared, asked = prepared_prompts("mmmu_med", "mmmu_med", tmp_path)
    assert prepared.manifest.prompts.startswith("MMMU's, sha256 ")
    assert {question.facets["form"] for question, _ in asked} == {"choice", "open"}
    assert any(MEDIA_MARK in prompt.text for _, prompt in asked)
    for question, prompt in asked:
        # In YAML, one empty line inside of a quoted text is one line break.
        if question.options:
            options = "".join(f"({letter}) {each}\n" for letter, each in zip("ABCDEFG", question.options, strict=False))
            assert prompt.text == f"Asked: {question.text}\n{options}\nWhich letter?"
            assert prompt.target == "ABCDEFG"[question.options.index(question.answer)]
        else:
            assert (prompt.text, prompt.target) == (f"{question.text}\nShortly, please.", question.answer)


def test_instructions_of_mmmus_configuration_come_first(tmp_path: Path) -> None:
    prompts = official("mmmu_med")
    found = prompts.read(mmmu(tmp_path, CONFIGURATION.replace('- ""', '- "Look well. "')) / "mmmu" / "configs")
    assert found["open"] == "Look well.\n\n{question}\nShortly, please."


def test_reports_are_asked_in_the_kits_words_only_where_both_parts_are_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, asked = prepared_prompts("iu_xray", "iu_xray_medevalkit", tmp_path / "both")
    assert {prompt.text for _, prompt in asked} == {"Write both parts. Findings: {} Impression: {}."}
    assert all(prompt.target == question.answer for question, prompt in asked)
    assert prepare("iu_xray", "iu_xray", tmp_path / "findings") == 1
    assert "MedEvalKit's prompts in --prompts ask none of the scenarios: findings alone" in capsys.readouterr().err
    benchmark = find_benchmark("iu_xray")
    templates = official("iu_xray").read(tmp_path / "both" / "kit")
    some = usable_templates(benchmark, templates, benchmark.examples)
    assert some.name.startswith("MedEvalKit's for 1 scenario, ours for 2: findings alone, impression alone; sha256 ")
    assert f"asked in our words, not MedEvalKit's ones: {FINDINGS} alone (there is no template: 1 questions)" in (
        some.notes
    )


@pytest.mark.parametrize("name", SETS)
def test_these_prompts_are_a_kits_and_no_condition_of_published_numbers(name: str) -> None:
    prompts, ours = official(name), DataLabel("released", "ours")
    assert prompts.of == ("MMMU's" if name == "mmmu_med" else "MedEvalKit's")
    whole = replace(find_benchmark(name), missing=nothing_missing)
    assert why_unlike_published(ours, whole, whole.examples) == ""
    needing = replace(whole, official=prompts._replace(needed=True))
    assert "asked in our words" in why_unlike_published(ours, needing, whole.examples)
    assert prompts.answer_format == ("letter" if name in CHOICE_SETS else "text")


@pytest.mark.parametrize("name", SETS)
def test_a_folder_without_the_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wanted \S+ of MedEvalKit: give|wanted \S+ of MMMU's code: give"):
        official(name).read(tmp_path)


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("vqa_rad", "def get_judgement_prompt", "def judge", "wanted a function get_judgement_prompt, there is none"),
        ("slake", 'question + "\\n" + "说短一点。"', "translated(question)", r"line \d+ is not understood: translated"),
        ("slake", 'lang == "zh"', 'lang == "cn"', r"line \d+ is not understood"),
        ("path_vqa", 'question + "\\n" + "Is it so?"', '"Is it so?"', r"to return a text that holds \{question\} once"),
        ("pmc_vqa", "{options}", "", r"to return a text that holds \{question\} and \{options\} once"),
        ("omnimedvqa", "is_reasoning = False,lang", "seed,is_reasoning = False,lang", "is not understood"),
        ("iu_xray", '"Write both parts. Findings: {} Impression: {}."', '" "', "to return a text, it does not"),
    ],
)
def test_another_version_of_medevalkit_is_refused(
    name: str, before: str, after: str, message: str, tmp_path: Path
) -> None:
    assert before in FORMATS
    kit = medevalkit(tmp_path, FORMATS.replace(before, after))
    with pytest.raises(ValueError, match=message) as caught:
        official(name).read(kit)
    assert str(caught.value).startswith(str(kit / "utils" / "question_formats.py"))
    assert "MedEvalKit at 9b12e3b: take that, or leave --prompts out." in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("multi_choice", "choice", "wanted multi_choice_example_format to be a list of one text"),
        ('- ""', '- ""\n- ""', "wanted task_instructions to be a list of one text"),
        ("Asked: {}", "Asked:", r"wanted multi_choice_example_format to have 2 gaps \{\} and no other braces"),
        ("Asked: {}", "Asked: {name}{}", "and no other braces"),
        ('- ""', '- "', r"broken YAML \(\w+\)"),
    ],
)
def test_another_version_of_mmmus_configuration_is_refused(
    before: str, after: str, message: str, tmp_path: Path
) -> None:
    assert before in CONFIGURATION
    with pytest.raises(ValueError, match=message) as caught:
        official("mmmu_med").read(mmmu(tmp_path, CONFIGURATION.replace(before, after, 1)))
    assert "MMMU at bb0b95a: take that, or leave --prompts out." in str(caught.value)


@pytest.mark.parametrize("name", SETS)
def test_the_real_files_are_the_version_that_is_known(name: str, shared_real: Path) -> None:
    kit = shared_real / ("mmmu_code" if name == "mmmu_med" else "medevalkit")
    if not kit.is_dir():
        pytest.skip(f"{kit} is not there: a clone of the kit at the known commit, or its file of prompts")
    prompts = official(name)
    templates: Mapping[str, str] = prompts.read(kit)
    assert wording_name(templates, of=prompts.of) == f"{prompts.of}, sha256 {REAL[name]}"
