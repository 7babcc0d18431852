"""Tests the scores of anybody's own questions: the primary metric, the tables, the facets and the judge's points."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.raw.source import TableOptions
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import MAX_LEVELS
from medtune.eval.scoring.parse_replies import parse_replies
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.tables import Table
from tests.benchmarks.vqa.own_data import pictures, read, read_text
from tests.eval.answers import generated
from tests.own_questions import KINDS, Kind, own_question

VQA = find_benchmark("vqa")


def asked(*kinds: Kind, each: int = 4) -> list[Question]:
    return [own_question(kind, number) for kind in kinds for number in range(each)]


def said(questions: Sequence[Question], *, likelihood: bool = False) -> list[Prediction]:
    """Returns the right reply to every question, and the likelihoods of options where they are asked for."""
    replies = [generated(q, q.answer) for q in questions]
    read = [
        Prediction(
            PredictionKey(q.id, "image", "likelihood", 0),
            option_logprobs=tuple(0.0 if option == q.answer else -5.0 for option in q.options),
        )
        for q in questions
        if q.options
    ]
    return [*replies, *(read if likelihood else ())]


def scored(questions: Sequence[Question], predictions: Sequence[Prediction], parser: str | None = None) -> PhaseScores:
    return score_phase(questions, predictions, VQA.for_part(questions), parser=parser)


def table(scores: PhaseScores, title: str) -> Table:
    (found,) = (each for each in scores.tables if each.title == title)
    return found


@pytest.mark.parametrize(
    ("kinds", "primary"),
    [
        (KINDS, "closed_accuracy"), (("yes_no", "report"), "closed_accuracy"), (("short",), "exact_match"),
        (("number",), "exact_match"), (("short", "report"), "exact_match"), (("report",), "rouge_l"),
    ],
)  # fmt: skip
def test_the_primary_metric_follows_the_questions(kinds: Sequence[Kind], primary: str) -> None:
    questions = asked(*kinds)
    assert VQA.for_part(questions).primary == primary
    assert scored(questions, said(questions)).overall.value == pytest.approx(1)


def test_mostly_reports_have_no_exact_match() -> None:
    metrics = VQA.for_part([*asked("short", each=1), *asked("report")]).metrics
    assert next(iter(metrics)) == "rouge_l"
    assert "exact_match" not in metrics


def test_closed_and_open_questions_are_never_mixed_in_one_number() -> None:
    questions = asked(*KINDS)
    wrong_open = [replace(each, text="x") if "yes_no" not in each.key.question_id else each for each in said(questions)]
    found = scored(questions, wrong_open).metrics["image"]["reply"]
    assert (found["closed_accuracy"].value, found["closed_accuracy"].n) == (0.5, 8)
    assert (found["exact_match"].value, found["exact_match"].n) == (0.0, 12)


def test_the_table_shows_each_kind_with_its_number_of_questions() -> None:
    questions = asked(*KINDS, each=2)
    for parser in ("reply", "likelihood"):
        found = table(scored(questions, said(questions, likelihood=True), parser), "Scores by kind of question")
        rows = {row[0]: row[1:] for row in found.rows}
        assert {name: row[0] for name, row in rows.items()} == {
            "closed: options": 2,
            "closed: yes or no": 2,
            "open: number": 2,
            "open: short answer": 2,
            "open: longer text": 2,
        }
        assert all(1.0 in row for row in rows.values())


def test_scores_are_broken_down_by_every_facet_of_the_data() -> None:
    questions = [
        replace(each, facets={**each.facets, "scanner": "A", "row": str(number)})
        for number, each in enumerate(asked("yes_no", each=MAX_LEVELS + 1))
    ]
    scores = scored(questions, said(questions))
    assert set(scores.by) == {"task", "side", "scanner"}
    assert set(scores.by["side"]) == {"left", "right"}
    notes = " ".join(table(scores, "Scores by kind of question").notes)
    assert f"There are no scores by row: it has {MAX_LEVELS + 1} different values, more than {MAX_LEVELS}." in notes


def test_a_judge_gives_points_to_free_answers_beside_the_scores() -> None:
    questions, task = asked("short", "report", "yes_no", each=2), VQA.judging
    assert task is not None
    assert [task.covers(question) for question in questions] == [True] * 4 + [False] * 2
    assert not any(map(task.is_needed, questions))
    predictions = said(questions)
    points = dict(zip((each.key for each in predictions[:4]), (2, 1, 2, 0), strict=True))
    replies = {key: json.dumps({"points": number, "explanation": "."}) for key, number in points.items()}
    assert all(map(task.is_usable, replies.values()))
    judged = scored(questions, task.applied(predictions, replies))
    rows = {row[0]: row[1] for row in table(judged, "Free answers, by a judge").rows}
    assert rows == {"open: short answer": 0.75, "open: longer text": 0.5, "all": 0.625}
    assert judged.overall == scored(questions, predictions).overall
    shown = task.user(questions[0], "the lung")
    assert all(text in shown for text in (questions[0].text, questions[0].answer, "the lung"))


def test_unanswered_questions_are_wrong_in_every_metric() -> None:
    questions = asked(*KINDS)
    found = scored(questions, []).metrics["image"]["reply"]
    assert all(score.value == pytest.approx(0, abs=1e-8) for score in found.values())


FILES = {
    "vqa_rad": ("vqa_rad/testset.json", 451),
    "slake_en": ("slake/test.json", 1061),
    "slake_zh": ("slake/test.json", 1033),
}
PLAIN = "The answer is {}."
SLOW = ("{}", "{}.", "<think>Yes or no?</think>\n**{}**", r"It follows that \boxed{{{}}}", "CAPITALS")


def asked_of_perfect_model(real: Path, name: str) -> list[Question]:
    """Returns the test questions of a set; yes and no are options, as `medtune prepare vqa` makes them."""
    file, _ = FILES[name]
    found = []
    for number, row in enumerate(json.loads((real / file).read_text("utf-8"))):
        answer, is_yes_no = str(row["answer"]).strip(), str(row["answer"]).strip().casefold() in ("yes", "no")
        if row.get("q_lang", "") in name:
            base = Question(f"q{number}", "m", row["question"], (), answer, "text", "p")
            closed = Question(f"q{number}", "m", row["question"], ("yes", "no"), answer.casefold(), "yes_no", "p")
            found.append(closed if is_yes_no else base)
    return found


def values(questions: Sequence[Question], replies: Sequence[str]) -> dict[str, float]:
    said = [generated(question, text) for question, text in zip(questions, replies, strict=True)]
    rows, metrics = parse_replies(questions, said, VQA, reading="generation")["reply"], VQA.for_part(questions).metrics
    return {name: metric.value(covered) for name, metric in metrics.items() if (covered := metric.covered(rows))}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("style", [PLAIN, *(pytest.param(style, marks=pytest.mark.slow) for style in SLOW)])
def test_a_perfect_model_is_perfect_in_every_style(shared_real: Path, name: str, style: str) -> None:
    questions = asked_of_perfect_model(shared_real, name)
    assert len(questions) == FILES[name][1]
    replies = [each.answer.upper() if style == "CAPITALS" else style.format(each.answer) for each in questions]
    found = values(questions, replies)
    right = {"closed_accuracy", "exact_match", "token_f1", "open_recall", "rouge_l"} & found.keys()
    assert {metric: found[metric] for metric in right} == pytest.approx(dict.fromkeys(right, 1.0))


@pytest.mark.parametrize("name", FILES)
def test_the_answers_of_other_questions_are_right_only_where_they_are_the_same(shared_real: Path, name: str) -> None:
    questions = asked_of_perfect_model(shared_real, name)
    others = [each.answer for each in questions[1:] + questions[:1]]
    equal = [said.casefold() == each.answer.casefold() for said, each in zip(others, questions, strict=True)]
    found = values(questions, others)
    opened = [same for same, each in zip(equal, questions, strict=True) if not each.options]
    # Spelling and blanks beside the letters' case make at most one in a hundred more answers equal.
    assert sum(opened) / len(opened) <= found["exact_match"] <= sum(opened) / len(opened) + 0.01


_ROW = "question,answer\nq,a\n"
_TURNS = json.dumps({"query": "q", "response": "a"})


@pytest.mark.parametrize("name", ["test", "exam", "TRAIN"])
def test_a_name_of_a_split_that_the_data_do_not_have(tmp_path: Path, name: str) -> None:
    text = "question,answer,split\nq,a,Test\nr,b,train\n"
    with pytest.raises(ValueError, match=rf"--splits {name}=none: .* The names are: 'Test', 'data', 'train'\."):
        read_text(tmp_path, text, TableOptions(splits={name: "none"}))
    kept = read_text(tmp_path, text, TableOptions(splits={"Test": "none"}))
    assert [question.text for question in kept.questions] == ["r"]
    assert "rows left out, of the split 'Test': 1" in kept.notes


def test_a_name_of_a_split_that_no_class_folder_and_no_file_has(tmp_path: Path) -> None:
    for name in ("benign", "malignant"):
        pictures(tmp_path / "raw" / "train" / name, 1)
        pictures(tmp_path / "raw" / "Test" / name, 1)
    with pytest.raises(ValueError, match=r"--splits test=none: .*Did you mean 'Test'\?"):
        read(tmp_path / "raw", TableOptions(splits={"test": "none"}), name="image_folder")
    (tmp_path / "swift").mkdir()
    (tmp_path / "swift" / "a.jsonl").write_text(_TURNS)
    with pytest.raises(ValueError, match=r"--splits b=test: .*The names are: 'a'\."):
        read(tmp_path / "swift", TableOptions(splits={"b": "test"}), name="ms_swift")


def test_data_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    (raw := tmp_path / "raw").mkdir()
    (raw / "conv.jsonl").write_text(_TURNS)
    for name in ("data.csv", "one/more.json", ".hidden/x.csv", "a/b/c.TSV", "a/b/d.xlsx"):
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_text(_ROW)
    assert read(raw, name="ms_swift").notes[0] == (
        "data files that were not read: a/b/c.TSV, a/b/d.xlsx, data.csv and 1 more"
    )
    (raw / "dataset_info.json").write_text(json.dumps({"conv": {"file_name": "conv.jsonl", "columns": _ALPACA}}))
    said = "data files that were not read: a/b/c.TSV, a/b/d.xlsx, data.csv and 1 more"
    assert read(raw, name="llama_factory").notes[0] == said
    for name in ("benign", "malignant"):
        pictures(raw / name, 1)
    said = "data files that were not read: a/b/c.TSV, a/b/d.xlsx, conv.jsonl and 3 more"
    assert said in read(raw, name="image_folder").notes


_ALPACA = {"prompt": "query", "query": "input", "response": "response"}


@pytest.mark.parametrize(
    ("source", "data", "name"),
    [
        ("table", "data.csv", "deep/er/test.csv"),
        ("table", "train.csv", "test.xls"),
        ("ms_swift", "conv.jsonl", "test/data.jsonl"),
        ("ms_swift", "conv.jsonl", "val.csv"),
    ],
)
def test_a_test_file_that_would_not_be_read_is_refused(tmp_path: Path, source: str, data: str, name: str) -> None:
    (raw := tmp_path / "raw").mkdir()
    (raw / data).write_text(_TURNS if source == "ms_swift" else _ROW)
    (raw / name).parent.mkdir(parents=True, exist_ok=True)
    (raw / name).write_text(_ROW)
    with pytest.raises(ValueError, match=rf"{name} would not be read, although the name states test or val"):
        read(raw, name=source)
    stem = Path(name).stem
    assert len(read(raw, TableOptions(splits={stem: "none"}), name=source).questions) == 1


def test_a_single_file_is_read_whatever_lies_in_deeper_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "test.csv").write_text(_ROW)
    assert not any("not read" in note for note in read_text(tmp_path, _ROW).notes)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"file_name": "./conv.jsonl", "columns": _ALPACA}, None),
        ({"file_name": "conv.jsonl", "columns": {**_ALPACA, "system": "s"}}, "'conv' and 'other' both name conv.jsonl"),
        ({"file_name": "conv.jsonl", "columns": _ALPACA, "split": "test"}, "'conv' and 'other' both name conv.jsonl"),
    ],
)
def test_two_entries_that_name_one_file(tmp_path: Path, other: dict[str, object], message: str | None) -> None:
    (tmp_path / "conv.jsonl").write_text(_TURNS)
    info = {
        "conv": {"file_name": "conv.jsonl", "columns": _ALPACA, "split": "train"},
        "other": {"split": "train", **other},
    }
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    if message is not None:
        with pytest.raises(ValueError, match=message):
            read(tmp_path, name="llama_factory")
        return
    table = read(tmp_path, name="llama_factory")
    assert len(table.questions) == 1
    assert "'conv' and 'other' both name conv.jsonl, which is read once" in table.notes


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"q,a, and more\n", r"data\.csv: line 4 has 3 cells, the header 2\. Quote the cell that contains ','"),
        (b"q,a,\n", r"data\.csv: line 4 has 3 cells, the header 2\."),
        (b"Gr\xf6\xdfe,a\n", r"data\.csv: line 4 holds the byte 0xF6, which is no UTF-8\..* \"CSV UTF-8\""),
    ],
)
@pytest.mark.parametrize("rows_before", [0, 1000])
def test_a_row_that_breaks_a_csv_file_is_named(tmp_path: Path, row: bytes, message: str, rows_before: int) -> None:
    before = b"a longer question,answer\n" * rows_before
    (tmp_path / "data.csv").write_bytes(b'question,answer\n"two\nlines",\xc3\xa4\xc3\xb6\xc3\xbc\n' + before + row)
    if not rows_before and b"\xf6" in row:
        message = "no table of UTF-8 text"
    with pytest.raises(ValueError, match=message.replace("line 4", f"line {4 + rows_before}")):
        read(tmp_path / "data.csv")


def test_a_line_of_json_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(f"{_TURNS}\n".encode() * 3 + b'{"query": "Gr\xf6\xdfe?", "response": "a"}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl: .*line 4 holds the byte 0xF6; write that line as UTF-8"):
        read(tmp_path / "rows.jsonl", name="ms_swift")
