"""Tests that every number of a run is explained by the questions that it counts, and every answer by what read it."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from medtune.benchmarks import find_benchmark
from medtune.data.types import Question
from medtune.eval.evidence import Evidence
from medtune.eval.explaining.numbers import OTHER_LEVEL, Number, explained, numbers_of
from medtune.eval.metric import ParsedReply
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.report.run_data import read_run
from medtune.eval.scoring.counted import WAITS
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.noted_rules import with_rule
from medtune.trainer.commands.cli import main
from medtune.trainer.commands.explain.command import _phases
from medtune.trainer.runs.finished_run import open_finished
from tests.trainer.conftest import Capture, Nano, Told

EVERYTHING = ("eval.temperature=0.7", "eval.repeats=2", "eval.conditions=[image,text_only,other_image]")


@pytest.fixture(scope="module")
def run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert Nano(prepared_tiny).here("run", out, *EVERYTHING) == 0
    return out


@pytest.fixture
def question(run: Path) -> str:
    return str(json.loads((run / "final" / "predictions.jsonl").read_text().splitlines()[0])["question_id"])


def test_every_number_is_found_again_from_the_questions_that_it_is_said_to_count(run: Path) -> None:
    opened, results = open_finished(run), read_run(run).results
    phases, known = _phases(opened, results), numbers_of(results)
    for path, number in known.items():
        found = explained(number, phases, opened.benchmark)
        assert len(found.rows) == number.n, path
        assert found.again == pytest.approx(number.value, abs=1e-12), path
        named = {row.question.id for row in found.rows} | {id_ for ids in found.left_out.values() for id_ in ids}
        assert named == {each.id for each in phases["final"].questions}, path
        assert len(found.rows) + sum(map(len, found.left_out.values())) == len(named), path
        if number.ci95 is not None:
            assert found.limits is not None, path
            assert found.limits.interval == pytest.approx(number.ci95, abs=1e-12), path
        if number.gain is not None:
            assert found.test is not None, path
            assert found.test.p == number.gain.permutation_p, path
    kinds = {path.split(".")[2] for path in known if path.startswith("phases.final")}
    assert kinds == {"overall", "by", "metrics"}
    assert "gain" in known
    assert any(".text_only." in path for path in known)


def test_a_number_names_its_questions_and_how_they_are_joined(run: Path, shown: Told, capsys: Capture) -> None:
    said = shown(main(["explain", str(run)]))
    assert said.startswith("phases.final.overall: ")
    assert "counts     9 of 9 questions: " in said
    assert "computed from the answers in the folder" in said
    of_task = next(line for line in shown(main(["explain", str(run), "--numbers"])).splitlines() if ".by.task." in line)
    said = shown(main(["explain", str(run), of_task, "--all"]))
    assert "it is of another level: " in said
    assert "..." not in said
    said = shown(main(["explain", str(run), "gain"]))
    assert "after minus before, paired by question" in said
    assert re.search(r"interval   as many as [\d.]+ independent questions tell", said)
    assert re.search(r"test       p [=<>] [\d.]+ by swaps .* \(all \d+ arrangements of the \d+ patients", said)
    level = next(line for line in shown(main(["explain", str(run), "--numbers"])).splitlines() if "gain.by" in line)
    said = shown(main(["explain", str(run), f"{level}.permutation_p_holm"]))
    assert "after Holm's correction over all tasks and answers, which decides; McNemar's test" in said
    said = shown(main(["explain", str(run), "phases.final.metrics.image.robust.accuracy"]))
    assert "mean of 2 passes" in said
    assert main(["explain", str(run), "phases.final.metrics.image.robst.accuracy"]) == 1
    assert "Did you mean 'phases.final.metrics.image.robust.accuracy'?" in capsys.readouterr().err


def test_every_row_of_the_audit_is_found_again_from_the_questions_that_it_counts(
    run: Path, shown: Told, capsys: Capture, tmp_path: Path
) -> None:
    rows = {f"audit.{row['name']}": row for row in json.loads((run / "audit.json").read_text())["rows"]}
    listed = shown(main(["explain", str(run), "--numbers"])).splitlines()
    assert [line for line in listed if line.startswith("audit.")] == [*rows]
    for path, row in rows.items():
        said = shown(main(["explain", str(run), path, "--all"]))
        assert said.startswith(f"{path}: {row['value']:.6g}"), path
        counts = re.search(r"counts     (\d+) of \d+ questions: (.*)", said)
        assert counts, path
        assert (int(counts[1]), len(counts[2].split(", "))) == (row["n"],) * 2, path
        last = said.splitlines()[-1]
        assert "medtune audit RUN" in last if path == "audit.linear_probe" else "computed from the answers" in last, (
            said
        )
    assert {"audit.model", "audit.linear_probe", "audit.thumbnail_regression", "audit.text_only"} <= rows.keys()
    changed = shutil.copytree(run, tmp_path / "run")
    audit = json.loads((changed / "audit.json").read_text())
    audit["rows"][0]["value"] = 0.123
    (changed / "audit.json").write_text(json.dumps(audit))
    assert "which is another one" in shown(main(["explain", str(changed), "audit.model"]))
    assert main(["explain", str(run), "audit.text_onyl"]) == 1
    assert "Did you mean 'audit.text_only'?" in capsys.readouterr().err


def test_a_question_of_another_level_has_this_reason_alone_and_counts_once() -> None:
    asked = [
        Question(
            f"q{number}", f"m{number}", "Mass?", ("yes", "no"), "no", "yes_no", f"p{number}", facets={"task": task}
        )
        for number, task in enumerate(("mass", "mass", "organ", "organ"))
    ]
    right = [ParsedReply(each, None, "no") for each in asked]
    # One waits for a judge before training alone, on the other level.
    before = [*right[:3], replace(right[3], unscored=True)]
    benchmark = replace(find_benchmark("busi"), metrics={"accuracy": accuracy()})
    phases = {
        name: Evidence(asked, (), {"image": {"likelihood": rows}}, "likelihood")
        for name, rows in (("zero_shot", before), ("final", right))
    }
    number = Number("gain.by.task.mass", "", 0.0, 2, None, facet="task", level="mass")
    found = explained(number, phases, benchmark)
    assert found.left_out == {OTHER_LEVEL: ["q2", "q3"]}
    whole = explained(replace(number, facet="", level=""), phases, benchmark)
    assert whole.left_out == {WAITS: ["q3"]}
    assert [row.question.id for row in whole.rows] == ["q0", "q1", "q2"]


def test_an_answer_that_was_changed_behind_the_results_is_noticed(run: Path, tmp_path: Path, shown: Told) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    file = folder / "final" / "predictions.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if line["reading"] == "likelihood" and line["condition"] == "image":
            line["option_logprobs"] = line["option_logprobs"][::-1]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = shown(main(["explain", str(folder), "phases.final.overall"]))
    assert "which is another number" in said
    assert re.search(r"interval   .*, computed again [\d.]+ to [\d.]+, which is another one; Wilson", said)


def test_a_question_shows_its_prompt_its_tokens_its_replies_and_what_read_them(
    run: Path, question: str, shown: Told
) -> None:
    said = shown(main(["explain", str(run), question]))
    assert said.startswith(f"question   {question}")
    assert "(8 visual tokens)" in said
    assert "<|im_end|>]]" in said
    for words in ("prompt ", "learnt as ", "image, likelihood: ", "image, generation: ", ", pass 2: ", "text_only, "):
        assert words in said, words
    assert "the option with the highest log-probability, of equal ones the first" in said
    assert said.count("accuracy counts it: ") == 2
    assert "zero_shot\n" in said
    assert "final\n" in said


def test_an_unknown_question_is_told_the_nearest(run: Path, question: str, capsys: Capture) -> None:
    assert main(["explain", str(run), question[:-1]]) == 1
    assert f"Did you mean {question!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(("what", "phase"), [(None, "final"), ("gain", "zero_shot"), ("phases.final.overall", "final")])
def test_a_number_whose_answers_are_gone_names_their_file(
    run: Path, what: str | None, phase: str, tmp_path: Path, capsys: Capture
) -> None:
    copied = shutil.copytree(run, tmp_path / "run")
    (copied / phase / "predictions.jsonl").unlink()
    assert main(["explain", str(copied), *([what] if what else [])]) == 1
    said = f"{copied / phase / 'predictions.jsonl'}: the answers that this number counts are not here"
    assert said in capsys.readouterr().err


def test_a_moved_run_without_weights_says_what_is_missing(
    run: Path, question: str, tmp_path: Path, shown: Told, prepared_tiny: Path
) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(run, folder)
    shutil.rmtree(folder / "checkpoints")
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    recipe["data"]["root"] = "gone"
    recipe["model"]["name"] = "qwen25vl_7b"
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    said = shown(main(["explain", str(folder), question, "--questions", str(prepared_tiny)]))
    assert "not shown: the tokenizer is not here. weights: " in said
    assert "image, likelihood: " in said
    assert main(["explain", str(folder), question]) == 1


def test_the_report_says_which_questions_its_numbers_count(run: Path) -> None:
    for name in ("report.html", "report.md"):
        page = (run / name).read_text("utf-8")
        assert "Which questions the numbers count" in page
        assert "medtune explain RUN NUMBER" in page.replace("\\", "")


@pytest.mark.parametrize(
    ("reply", "read", "rule"),
    [
        ("benign", "benign", 1),
        ("**B**", "benign", 1),
        ("I think <answer>B</answer>", "benign", 2),
        ("Final answer: (B)", "benign", 3),
        ("The answer is B", "benign", 4),
        ("B. because of its margin", "benign", 5),
        ("I choose B", "benign", 6),
        ("Margins are smooth.\nB. benign\nNothing else", "benign", 7),
        ("Between them, option B fits", "benign", 8),
        ("The lesion is benign", "benign", 9),
        ("benign or malignant", None, 9),
        ("I do not know", None, None),
    ],
)
def test_a_choice_is_read_by_the_rule_that_is_named(reply: str, read: str | None, rule: int | None) -> None:
    asked = Question("q", "m", "Which?", ("malignant", "benign", "normal"), "benign", "choice", "p")
    # Read before, and so remembered, a reply still tells its rule.
    assert parse_choice(reply, asked) == read
    found, said = with_rule(lambda: parse_choice(reply, asked))
    assert found == read
    assert said.startswith(f"rule {rule}: ") if rule else not said


YES_NO = Question("q", "m", "Is there a mass?", ("yes", "no"), "no", "yes_no", "p")
WIDTH = Question("q", "m", "How wide is it?", (), "50", "number", "p", unit="mm")
ORGAN = Question("q", "m", "Which organ?", (), "left lung", "text", "p")


@pytest.mark.parametrize(
    ("question", "reply", "read", "said"),
    [
        (YES_NO, "No mass is seen.", "no", "it says no in words"),
        (YES_NO, "B", "no", "it says no by a letter"),
        (YES_NO, "A. no", None, "its words say one answer and its letter another"),
        (YES_NO, "perhaps", None, ""),
        (WIDTH, "about 5 cm", "50", "the one number that it states, in mm"),
        (ORGAN, "The left lung.", "left lung", "the true answer after normalisation"),
        (ORGAN, "liver", "liver", "the words of its answer"),
    ],
)
def test_an_answer_of_another_kind_is_read_by_the_way_that_is_named(
    question: Question, reply: str, read: str | None, said: str
) -> None:
    parser = find_benchmark("vqa").parsers["reply"]
    assert with_rule(lambda: parser(reply, question)) == (read, said)


def test_a_rule_that_found_nothing_is_not_said_of_what_another_way_found() -> None:
    asked = Question("q", "m", "How many?", ("2", "3"), "2", "choice", "p")
    found, said = with_rule(lambda: parse_choice("2 or 3", asked) or "read otherwise")
    assert (found, said) == ("read otherwise", "")
