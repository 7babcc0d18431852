"""Shows that every robust parser, which is the default of its benchmark, reads at least what the official one reads.

Each reply at hand that the official code reads otherwise stands here by name, with what it means. The score files of
ReXSonoVQA, which have their own test, are the largest record.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import find_benchmark, names
from medtune.benchmarks.ctlesionvqa.reply_parsers import (
    official_letter,
    official_number,
    official_yes_no,
    robust_yes_no,
)
from medtune.benchmarks.u2_bench.official.labels import extract_number
from medtune.benchmarks.u2_bench.tasks_and_sets import OPTIONS_SEEN
from medtune.data.media.masks import LOCATIONS
from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.choice_statements import without_thinking
from medtune.eval.scoring.parsers.measures import read_measure
from tests.eval.golden import recorded
from tests.golden.files import golden_file

ROBUST = [name for name in names() if next(iter(find_benchmark(name).parsers)) == "robust"]
# Replies of two models to MMMU that name several options; MMMU's code takes the last, which happens to be right here.
MMMU_LUCK = {
    "llava1.5_13b": {"validation_Pharmacy_27"},
    "qwen_vl": {
        "validation_Basic_Medical_Science_9",
        "validation_Clinical_Medicine_5",
        "validation_Clinical_Medicine_6",
    },
}
CT_LETTERS = ("turn it", "lower it", "press it", "end it")
CT_LETTER_ERRORS = {
    "Answer: C": "C", "Based on the scan, A": "A", "Cannot say": None, "All of the above": None,
    "a lesion is seen": None, "It is a cyst": None, "Because of B": None, "BD": None, "A or C": None,
    "Dose is low": None,
}  # fmt: skip
CT_NUMBER_ERRORS = {
    "The volume is 1,123.3 cc": 1123.3, "minus 35": -35.0, "1e3": 1000.0, "1.2e-2": 0.012, ".5": 0.5,
    "about .75 cm": 0.75, "12/5": None, "10-12": None, "L1 vertebra, 14 mm": 14.0, "between 4 and 6": None,
    "2.5.1": None, "−9": -9.0, "I see 2 lesions of 3.1 cm": 2.0, "1 123": 1123.0,
}  # fmt: skip
CT_WORD_ERRORS = (
    "not visible", "none", "Nope", "Yesterday", "maybe yes, maybe no", "no, yes", "Normal liver", "Nodule present",
    "notably enlarged",
)  # fmt: skip
U2_CLASS_ERRORS = {"Other or Fetal femur": None}
U2_PLACE_ERRORS = {
    "it sits between lower right and not visible": None,
    "not visible, not upper left": "not visible",
    "center upper right": None,
    "lower right, not lower left": "lower right",
    "The organ is not clearly visible.": None,
}
U2_NUMBER_ERRORS = {"1,200": 1200.0, "-84": -84.0}


def mmmu(real: Path, model: str) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yields id, reply, options and letter of the truth."""
    for file in sorted((real / "mmmu_med" / model).glob("*.json")):
        for row in json.loads(file.read_text("utf-8")):
            if row["question_type"] == "multiple-choice":
                yield row["id"], row["response"], tuple(row["index2ans"].values()), row["answer"]


def mmmu_letters(model: str) -> dict[str, str | None]:
    """Returns the letter that MMMU's code reads from each reply, None where it guesses at random."""
    golden = golden_file("medical_vqa/mmmu_real_outputs.json")
    found: dict[str, str | None] = {}
    for subject in json.loads(golden.read_text("utf-8"))["expected"][model].values():
        found |= {id_: None if id_ in subject["ids_random"] else read for id_, read in subject["parsed"].items()}
    return found


def choice_of(name: str) -> Question:
    return next(each for each in find_benchmark(name).examples if each.answer_kind == "choice" and each.options)


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("model", MMMU_LUCK)
def test_robust_reads_at_least_what_mmmus_code_reads_of_real_replies(shared_real: Path, name: str, model: str) -> None:
    official = mmmu_letters(model)
    robust = find_benchmark(name).parsers["robust"]
    right = {"robust": 0, "official": 0}
    for id_, reply, options, letter in mmmu(shared_real, model):
        truth = options[ord(letter) - ord("A")]
        question = replace(choice_of(name), options=options, answer=truth)
        is_right = robust(reply, question) == truth
        right["robust"] += is_right
        right["official"] += official[id_] == letter
        assert is_right or official[id_] != letter or id_ in MMMU_LUCK[model], reply
    assert right["robust"] >= right["official"] - len(MMMU_LUCK[model])
    assert right["official"] > 40


def test_robust_reads_what_official_reads_of_golden_replies_of_ctlesionvqa_except_its_errors() -> None:
    texts = recorded("ctlesionvqa_extraction.json")["rows"]
    question = Question("q", "m", "?", CT_LETTERS, CT_LETTERS[0], "choice", "p")
    assert_as_official(
        texts["letters"], lambda text: letter(parse_choice(text, question)), official_letter, CT_LETTER_ERRORS
    )
    numbers = [text for text in texts["numbers"] if official_number(without_thinking(text)) is not None]
    assert_as_official(numbers, read_measure, lambda text: official_number(without_thinking(text)), CT_NUMBER_ERRORS)
    words = dict.fromkeys(CT_WORD_ERRORS)
    assert_as_official(texts["binary"], robust_yes_no, lambda text: official_yes_no(without_thinking(text)), words)


def letter(option: str | None) -> str | None:
    return None if option is None else "ABCD"[CT_LETTERS.index(option)]


def assert_as_official(
    texts: list[str], robust: Callable[[str], object], official: Callable[[str], object], errors: dict[str, Any]
) -> None:
    for text in texts:
        read = robust(text)
        wanted = errors[text] if text in errors else official(text)
        assert read == wanted or (text not in errors and not wanted), (text, read, wanted)


def test_robust_reads_what_is_right_by_official_reading_of_golden_classes_of_u2_bench() -> None:
    golden = recorded("u2bench_classification.json")
    robust = find_benchmark("u2_bench").parsers["robust"]
    num_right = 0
    for row, expected in zip(golden["rows"], golden["expected"]["rows"], strict=True):
        options = tuple(option.strip() for option in OPTIONS_SEEN[row["dataset"]])
        truth = next((each for each in options if each.lower() == str(expected["strict"].get("truth"))), None)
        readings = [each for each in expected.values() if isinstance(each, dict) and each.get("correct")]
        if truth is None or not readings:
            continue
        num_right += 1
        facets = {"task": "DD", "dataset": row["dataset"]}
        read = robust(row["reply"], Question("q", "m", "?", options, truth, "choice", "p", facets=facets))
        assert read == U2_CLASS_ERRORS.get(row["reply"], truth), row["reply"]
    assert num_right > 40


def test_robust_reads_what_is_right_by_official_reading_of_golden_places_of_u2_bench() -> None:
    golden = recorded("u2bench_detection.json")
    robust = find_benchmark("u2_bench").parsers["robust"]
    num_right = 0
    for row, expected in zip(golden["rows"], golden["expected"]["rows"], strict=True):
        truth = expected["truth_label_strict"]
        if truth not in LOCATIONS or not any(expected[mode].get("correct") for mode in ("strict", "lenient")):
            continue
        num_right += 1
        facets = {"task": "LL", "dataset": "04"}
        read = robust(row["reply"], Question("q", "m", "?", LOCATIONS, truth, "choice", "p", facets=facets))
        assert read == U2_PLACE_ERRORS.get(row["reply"], truth), row["reply"]
    assert num_right > 20


def test_robust_reads_what_official_reads_of_golden_numbers_of_u2_bench_except_its_errors() -> None:
    golden = recorded("u2bench_cve.json")
    robust = find_benchmark("u2_bench").parsers["robust"]
    for row in golden["rows"]:
        reply, facets = row["reply"] or "", {"task": "CVE", "dataset": row["dataset"]}
        read = robust(reply, Question("q", "m", "?", (), "1", "number", "p", facets=facets))
        official = extract_number(reply, dataset=row["dataset"])
        if reply.startswith("between "):
            assert read is None, reply
        elif reply.startswith("image 2 suggests "):
            assert read == f"{float(reply.rpartition(' ')[2]):.12g}", reply
        elif official != "null":
            assert read is not None, reply
            assert float(read) == U2_NUMBER_ERRORS.get(reply, float(official)), reply
