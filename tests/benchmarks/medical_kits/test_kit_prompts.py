"""Tests that the field's sets are asked in MedEvalKit's or MMMU's prompts, as a user writes them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.iu_xray.reports import FINDINGS
from medtune.benchmarks.mmmu_med import read
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import MEDIA_MARK, SPLITS, AnswerFormat, Prompt, Question
from medtune.eval.asking.official_prompts import OfficialPrompts, wording_name
from medtune.eval.asking.prepared_prompts import usable_templates, with_prepared_prompts
from medtune.eval.benchmark import nothing_missing
from medtune.eval.data_label import DataLabel
from medtune.eval.scoring.standing import why_unlike_published
from medtune.trainer.commands.cli import main
from tests.benchmarks.medical_kits.copied_kits import CONFIGURATION, MEDEVALKIT, mmmu
from tests.eval.asking.prompts_files import prompts_file
from tests.examples import write_example

SETS = ("vqa_rad", "slake", "path_vqa", "pmc_vqa", "omnimedvqa", "medxpertqa_mm", "iu_xray", "mmmu_med")
CHOICE_SETS = ("pmc_vqa", "omnimedvqa", "medxpertqa_mm", "mmmu_med")


def official(name: str) -> OfficialPrompts:
    found = find_benchmark(name).official
    assert found is not None
    return found


def templates(name: str) -> dict[str, str]:
    return {each: MEDEVALKIT[each] for each in official(name).names}


def written(name: str, root: Path) -> Path:
    """Returns the file of a set's prompts, which MMMU's code has as plain text."""
    file = root / "prompts.yaml"
    if name != "mmmu_med":
        return prompts_file(file, templates(name))
    assert main(["prompts", name, "--from", str(mmmu(root / "kit")), "--out", str(file)]) == 0
    return file


def prepare(name: str, source: str, root: Path) -> int:
    write_example(source, root / "raw")
    given = ["--from", str(root / "raw"), "--out", str(root / "prepared"), "--prompts", str(written(name, root))]
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
def test_other_sets_of_choices_list_letter_full_stop_and_text(name: str) -> None:
    prompts, question = official(name), find_benchmark(name).examples[0]
    assert prompts.names == official("pmc_vqa").names == {"choices": ("question", "options")}
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
    found = read(mmmu(tmp_path, CONFIGURATION.replace('- ""', '- "Look well. "')) / "mmmu" / "configs")
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
    some = usable_templates(benchmark, templates("iu_xray"), benchmark.examples)
    assert some.name.startswith("MedEvalKit's for 1 scenario, ours for 2: findings alone, impression alone; sha256 ")
    assert f"asked in our words, not MedEvalKit's ones: {FINDINGS} alone (there is no template: 1 questions)" in (
        some.notes
    )


@pytest.mark.parametrize("name", SETS)
def test_these_prompts_are_a_kits_and_no_condition_of_published_numbers(name: str) -> None:
    prompts, ours = official(name), DataLabel(provenance="released", prompts="ours")
    assert prompts.of == ("MMMU's" if name == "mmmu_med" else "MedEvalKit's")
    whole = replace(find_benchmark(name), missing=nothing_missing)
    assert why_unlike_published(ours, whole, whole.examples) == ""
    needing = replace(whole, official=prompts._replace(needed=lambda question: True))
    assert "asked in our words" in why_unlike_published(ours, needing, whole.examples)
    assert prompts.answer_format == ("letter" if name in CHOICE_SETS else "text")


def test_a_folder_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wanted \S+ of MMMU's code: give"):
        read(tmp_path)


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
        read(mmmu(tmp_path, CONFIGURATION.replace(before, after, 1)))
    assert "MMMU at bb0b95a: take that, or write the prompts yourself." in str(caught.value)


def test_the_real_file_is_the_version_that_is_known(shared_real: Path) -> None:
    kit = shared_real / "mmmu_code"
    if not kit.is_dir():
        pytest.skip(f"{kit} is not there: a clone of the kit at the known commit, or its file of prompts")
    assert wording_name(read(kit), of="MMMU's") == "MMMU's, sha256 a6e3a75b4b0f87a2"
