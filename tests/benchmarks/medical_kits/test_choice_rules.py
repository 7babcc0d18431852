"""Tests that a right answer scores 1 and a wrong one 0, however it is worded, on real and on made rows."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.medical_kits.choice_rules import are_other_letters
from medtune.data.types import Question
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.reply_rules import TITLE
from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.soak import sample_and_all

REASONING = (
    "The picture was looked at from the left to the right. Several findings were weighed against one another, and the "
    "history of the patient was taken into account."
)
Wording = Callable[[str, str], str]
"""A function of (letter, text) that returns a reply."""

LETTERED: Mapping[str, Wording] = {
    "letter": lambda letter, text: letter,
    "letter in brackets": lambda letter, text: f"({letter})",
    "letter with a full stop": lambda letter, text: f"{letter}.",
    "letter and text": lambda letter, text: f"{letter}. {text}",
    "letter and text with a full stop": lambda letter, text: f"{letter}. {text}.",
    "Answer:": lambda letter, text: f"Answer: {letter}",
    "boxed": lambda letter, text: rf"\boxed{{{letter}}}",
    "boxed in text": lambda letter, text: rf"{REASONING} Hence \boxed{{\text{{{letter}}}}}.",
    "answer tags": lambda letter, text: f"<answer>{letter}</answer>",
    "answer tags with text": lambda letter, text: f"<think>{REASONING}</think><answer>{letter}. {text}</answer>",
    "The answer is": lambda letter, text: f"The answer is {letter}.",
    "The answer is, with text": lambda letter, text: f"The answer is ({letter}) {text}.",
    "bold": lambda letter, text: f"**Answer: {letter}**",
    "after reasoning": lambda letter, text: f"{REASONING}\n\n{letter}",
    "after reasoning, stated": lambda letter, text: f"{REASONING}\n\nThe answer is {letter}.",
    "after reasoning, with text": lambda letter, text: f"{REASONING}\n\nAnswer: {letter}. {text}",
}
"""Replies that name an option by its letter."""

IN_WORDS: Mapping[str, Wording] = {
    "text": lambda letter, text: text,
    "text with a full stop": lambda letter, text: f"{text}.",
    "text in tags": lambda letter, text: f"<answer>{text}</answer>",
    "text boxed": lambda letter, text: rf"\boxed{{{text}}}",
    "text stated": lambda letter, text: f"The answer is {text}.",
    "text behind Answer:": lambda letter, text: f"{REASONING}\n\nAnswer: {text}",
}
"""Replies that say an answer in its words."""

WORDINGS: Mapping[str, Wording] = {**LETTERED, **IN_WORDS}


NAMES = ("pmc_vqa", "omnimedvqa", "medxpertqa_mm", "mmmu_med")
OPTIONS_THAT_ARE_LETTERS = {"MM-1157", "validation_Basic_Medical_Science_17"}
OPEN = {"C": ("A", "D"), "Transformation": ("Translation",), "2": ("3", "20", "12"), "B": ("C",), "A": ("B",)}
"""The answers of the real open questions, each with answers that are wrong."""
SINGLE_WORDS = {"text after reasoning": lambda letter, text: f"{REASONING}\n\n{text}."}


PARSERS = {name: find_benchmark(name).parsers["robust"] for name in NAMES}


def scores_1(name: str, question: Question, reply: str) -> bool:
    return ParsedReply(question, None, PARSERS[name](reply, question)).correct


def real_choices(real: Path) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Yields the id, the options and the place of the right one, of every real row with options."""
    for line in (real / "medxpertqa_mm" / "excerpt_43_hub_layout.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        yield row["id"], tuple(row["options"].values()), ascii_uppercase.index(row["label"])
    for file in sorted((real / "mmmu_med" / "qwen_vl").glob("*.json")):
        for row in json.loads(file.read_text("utf-8")):
            if row["question_type"] == "multiple-choice":
                yield row["id"], tuple(row["index2ans"].values()), ascii_uppercase.index(row["answer"])


def asked(options: Sequence[str], place: int) -> Question:
    return Question("q", "m", "Which?", tuple(options), options[place], "choice", "p")


@pytest.mark.parametrize("every", sample_and_all(3, 1))
def test_every_option_of_real_rows_is_read_however_it_is_worded(every: int, shared_real: Path) -> None:
    """Each option has every third wording, in turn, so that all wordings meet all rows and all letters."""
    rows = list(real_choices(shared_real))
    assert len(rows) == 43 + 145
    letters_alone = {number for number, options, _ in rows if are_other_letters(options)}
    assert letters_alone == OPTIONS_THAT_ARE_LETTERS
    for row, (number, options, place) in enumerate(rows):
        question = asked(options, place)
        # The text "E" of option B is the letter of another option, so that it says nothing alone.
        wordings = [*(LETTERED if number in letters_alone else WORDINGS).items()]
        for other, (letter, text) in enumerate(zip(ascii_uppercase, options, strict=False)):
            for wording, write in wordings[(row + other) % every :: every]:
                is_right = scores_1("medxpertqa_mm", question, write(letter, text))
                assert is_right == (other == place), (number, wording, write(letter, text))


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_reads_its_examples_however_they_are_worded(name: str) -> None:
    for question in find_benchmark(name).examples:
        for write in WORDINGS.values():
            if question.options:
                for letter, text in zip(ascii_uppercase, question.options, strict=False):
                    reply = write(letter, text)
                    assert scores_1(name, question, reply) == (text == question.answer), (question.id, reply)


@pytest.mark.parametrize("truth", OPEN)
def test_open_answers_are_read_however_they_are_worded(truth: str) -> None:
    question = Question("q", "m", "Which?", (), truth, "text", "p", {"task": "Pharmacy"})
    wordings: dict[str, Wording] = {**IN_WORDS, **SINGLE_WORDS}
    if len(truth) == 1 and truth.isalpha():
        wordings |= {name: write for name, write in LETTERED.items() if "text" not in name}
    wordings |= {"small": lambda letter, text: text.lower(), "introduced": lambda letter, text: f"It is {text}."}
    wordings |= {"bold": lambda letter, text: f"**{text}**", "concluded": lambda letter, text: f"Final answer: {text}"}
    assert len(wordings) >= 8
    for name, write in wordings.items():
        assert scores_1("mmmu_med", question, write(truth, truth)), (name, write(truth, truth))
        for wrong in OPEN[truth]:
            assert not scores_1("mmmu_med", question, write(wrong, wrong)), (name, write(wrong, wrong))
    for reply in (f"not {truth}", f"{truth} or {OPEN[truth][0]}", f"The answer is not {truth}.", "", "I cannot tell."):
        assert not scores_1("mmmu_med", question, reply), reply


def test_a_number_in_words_and_a_second_right_answer_count() -> None:
    number = Question("q", "m", "How many?", (), "2", "text", "p", {"task": "Pharmacy"})
    for reply in ("two", "Two.", "2.0", "There are 2.", "The answer is two."):
        assert scores_1("mmmu_med", number, reply), reply
    both = replace(number, answer="left lung", printed={"other answers": '["left"]'})
    assert scores_1("mmmu_med", both, "The left.")
    assert scores_1("mmmu_med", both, "left lung")
    assert not scores_1("mmmu_med", both, "right lung")


def test_a_question_whose_options_are_letters_asks_for_the_letter() -> None:
    question = asked(("C", "E", "D", "B", "A"), 1)
    for name in NAMES:
        prompt = find_benchmark(name).render(question, "text")
        assert prompt.target == "B"
        assert "B. E" in prompt.text
        assert find_benchmark(name).render(replace(question, options=("x", "y"), answer="y"), "text").target == "y"


EVERY = (
    ("pmc_vqa", "pmc_vqa_2", 24), ("omnimedvqa", "omnimedvqa", 18), ("pmc_vqa", "pmc_vqa_clean", 24),
    ("medxpertqa_mm", "medxpertqa_mm", 12), ("mmmu_med", "mmmu_med", 25), ("mmmu_med", "mmmu_med_test", 25),
)  # fmt: skip


@pytest.mark.parametrize(
    ("benchmark", "source", "questions"),
    [EVERY[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in EVERY[1:])],
)
def test_from_released_files_to_scores(
    benchmark: str, source: str, questions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, out, run = tmp_path / "raw", tmp_path / "prepared", tmp_path / "run"
    write_example(source, raw)
    assert main(["prepare", benchmark, "--source", source, "--from", str(raw), "--out", str(out)]) == 0
    settings = [
        f"data.benchmark={benchmark}", f"data.root={out}", "log.wandb=disabled", "eval.readings=[generation]",
        "eval.conditions=[image,text_only]", "eval.max_new_tokens=4", "model.answer_format=letter",
    ]  # fmt: skip
    # A set for evaluation alone has no training questions, which `validate` says.
    is_trainable = not find_source(source).test_only
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", *settings]) == (0 if is_trainable else 1)
    assert ("is for evaluation alone" in capsys.readouterr().err) != is_trainable
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    found = json.loads((run / "results.json").read_text("utf-8"))["phases"]["zero_shot"]
    assert found["overall"]["n"] == questions
    assert set(found["metrics"]) == {"image", "text_only"}
    scores = json.loads((run / "zero_shot" / "scores.json").read_text("utf-8"))
    (rules,) = (table for table in scores["tables"] if table["title"] == TITLE)
    assert len(rules["rows"]) >= 2
    assert all(0 <= row[1] <= 1 for row in rules["rows"])
