"""Tests the comparison of two sets of answers against counts by hand, statsmodels and all sign flips."""

import itertools
import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.comparing.compare import About, ComparedSides, Side, compare
from medtune.eval.comparing.compare_file import CompareFile
from medtune.eval.comparing.compare_text import (
    ForestRow,
    comparison_plot,
    comparison_table,
    forest_svg,
    judgement,
    notes,
)
from medtune.eval.data_label import DataLabel
from medtune.eval.metric import ParsedReply
from medtune.eval.report.table import paper_table, table_lines
from medtune.eval.results.gain_schema import Changed
from medtune.eval.results.typed_json import json_bytes
from medtune.eval.scoring.tables import table_text
from medtune.eval.statistics.intervals import METHOD, gain_interval
from tests.eval.answers import generated

BUSI = find_benchmark("busi")
LABEL = DataLabel(provenance="released", prompts="ours")
SVG = "{http://www.w3.org/2000/svg}"
# task, patient, right for the first, right for the second; None: not answered.
ANSWERS: tuple[tuple[str, int, bool | None, bool | None], ...] = (
    ("diagnosis", 0, False, True),
    ("diagnosis", 0, False, True),
    ("diagnosis", 1, True, True),
    ("diagnosis", 2, False, True),
    ("diagnosis", 3, True, False),
    ("diagnosis", 4, False, True),
    ("diagnosis", 5, False, False),
    ("grounding", 0, False, False),
    ("grounding", 1, False, True),
    ("grounding", 2, True, True),
    ("grounding", 3, False, True),
    ("grounding", 4, True, None),
    ("grounding", 5, None, True),
    ("grounding", 6, None, True),
    ("grounding", 7, None, None),
)
BOTH = [row for row in ANSWERS if row[2] is not None and row[3] is not None]


def _question(number: int, task: str, patient: int) -> Question:
    return Question(
        id=f"q{number}",
        media_id=f"m{patient}",
        text="What is it?",
        options=("this", "that"),
        answer="this",
        answer_kind="choice",
        patient_id=f"p{patient}",
        facets={"task": task},
    )


def _side(name: str, column: int, *, prompt_hash: str | None = None) -> Side:
    rows = []
    for number, row in enumerate(ANSWERS):
        is_right = row[column]
        said = "this" if is_right else "that"
        key = PredictionKey(f"q{number}", "image", "generation", 0)
        asked = _question(number, row[0], row[1])
        prediction = None if is_right is None else Prediction(key, prompt_hash=prompt_hash, text=said)
        rows.append(ParsedReply(asked, prediction, None if is_right is None else said))
    return Side(About(name, "busi 1.0", "0" * 64, "test", "robust", LABEL), tuple(rows))


FIRST, SECOND = _side("one", 2), _side("two", 3)


@pytest.fixture(scope="module")
def found() -> ComparedSides:
    return compare(FIRST, SECOND, BUSI)


def test_only_questions_that_both_answered_count(found: ComparedSides) -> None:
    assert (found.both, found.only_first, found.only_second, found.neither) == (11, 1, 2, 1)
    assert found.overall.paired.n == 11
    assert {task: each.paired.n for task, each in found.by_task.items()} == {"diagnosis": 7, "grounding": 4}


def test_differences_are_counted_by_hand(found: ComparedSides) -> None:
    whole = found.overall
    assert whole.first == pytest.approx(3 / 11)
    assert whole.second == pytest.approx(8 / 11)
    assert whole.paired.value == pytest.approx(5 / 11)
    paired = whole.paired
    assert paired.counts == Changed(both_right=2, only_before=1, only_after=6, both_wrong=2)
    assert found.by_task["diagnosis"].paired.value == pytest.approx(3 / 7)


def test_equal_answers_are_said() -> None:
    same = compare(FIRST, replace(FIRST, about=replace(FIRST.about, name="again")), BUSI)
    assert judgement(same) == "one and again gave the same answer to each of the 12 questions."
    assert "the same answer to 4." in " ".join(notes(compare(FIRST, SECOND, BUSI)))


def test_mcnemar_is_the_two_sided_sign_test_of_what_changed(found: ComparedSides) -> None:
    # One of seven and one of five: twice the lower tail of the binomial with 1/2, 2 (1 + 7) / 2^7 and 2 (1 + 5) / 2^5.
    assert found.overall.mcnemar_p == pytest.approx(16 / 128)
    assert found.by_task["diagnosis"].mcnemar_p == pytest.approx(12 / 32)


def sides(answers: Sequence[tuple[str, int, bool, bool]]) -> tuple[Side, Side]:
    """Returns two sides that answered every question, given the task, the patient and who was right."""

    def side(name: str, column: int) -> Side:
        rows = []
        for number, row in enumerate(answers):
            said = "this" if row[column] else "that"
            prediction = generated(f"q{number}", said)
            rows.append(ParsedReply(_question(number, row[0], row[1]), prediction, said))
        return replace(FIRST, about=replace(FIRST.about, name=name), rows=tuple(rows))

    return side("one", 2), side("two", 3)


def test_no_p_value_is_printed_as_zero_and_one_question_each_is_said() -> None:
    one, two = sides([("diagnosis", number, False, True) for number in range(12)])
    better, worse = compare(one, two, BUSI), compare(two, one, BUSI)
    assert [row[-3:] for row in comparison_table(better).rows] == [
        ("< 0.001", None, "< 0.001"),
        ("< 0.001", "< 0.001", "< 0.001"),
    ]
    text = table_text(comparison_table(better))
    assert "two is better than one by more than chance explains. The 95 % interval excludes zero, and" in text
    assert "Each patient has one question, so that swaps of patients and of questions are the same." in text
    assert better.overall.paired.permutation_p == pytest.approx(better.overall.mcnemar_p)
    assert [each.overall.verdict for each in (better, worse)] == ["gain", "loss"]


def test_two_patients_with_many_questions_show_nothing_whatever_mcnemar_says() -> None:
    found = compare(*sides([("diagnosis", number % 2, False, True) for number in range(40)]), BUSI)
    assert found.overall.mcnemar_p is not None
    assert found.overall.mcnemar_p < 1e-9
    assert found.overall.paired.permutation_p == 0.5
    text = table_text(comparison_table(found))
    assert "The difference cannot be told from chance." in text
    assert "with 2 patients it cannot be below 0.50" in text
    assert "Each patient" not in text
    assert found.by_task["diagnosis"].verdict == "unclear"
    marks = [each.get("class") for each in ET.fromstring(comparison_plot(found)).iter(f"{SVG}rect")]
    assert "clear" not in marks


def test_interval_is_paired_and_by_patient(found: ComparedSides) -> None:
    columns = [float(bool(row[2])) for row in BOTH], [float(bool(row[3])) for row in BOTH]
    patients = [f"p{row[1]}" for row in BOTH]
    assert found.overall.paired.ci95 == gain_interval(*columns, patients)
    assert found.overall.paired.ci95.low < 5 / 11 < found.overall.paired.ci95.high


def _every_flip(rows: Sequence[tuple[str, int, bool | None, bool | None]]) -> float:
    """Returns the two-sided p value over all flips of whole patients: twice the smaller one-sided share, at most 1."""
    patients = sorted({row[1] for row in rows})
    sums = np.array([sum(bool(r[3]) - bool(r[2]) for r in rows if r[1] == patient) for patient in patients])
    flipped = np.array(list(itertools.product((1, -1), repeat=len(patients)))) @ sums
    return float(min(1.0, 2 * min((flipped >= sums.sum()).mean(), (flipped <= sums.sum()).mean())))


def test_permutation_flips_whole_patients_and_holm_corrects_over_tasks(found: ComparedSides) -> None:
    assert found.overall.paired.permutation_p == pytest.approx(_every_flip(BOTH))
    raw = [_every_flip([row for row in BOTH if row[0] == task]) for task in found.by_task]
    assert [each.paired.permutation_p for each in found.by_task.values()] == pytest.approx(raw)
    # Of two tests the smaller p counts twice, and the larger is no smaller than that.
    adjusted = [min(1.0, max(2 * min(raw), p) if p == max(raw) else 2 * p) for p in raw]
    assert [each.paired.permutation_p_holm for each in found.by_task.values()] == pytest.approx(adjusted)
    assert found.overall.paired.permutation_p_holm is None


def test_the_other_way_round_is_the_negative(found: ComparedSides) -> None:
    back = compare(SECOND, FIRST, BUSI)
    assert back.overall.paired.value == -found.overall.paired.value
    assert back.overall.paired.permutation_p == pytest.approx(found.overall.paired.permutation_p)
    assert (back.only_first, back.only_second) == (2, 1)


def test_different_prompts_are_counted() -> None:
    assert compare(_side("one", 2, prompt_hash="a"), _side("two", 3, prompt_hash="b"), BUSI).reworded == 11
    assert compare(_side("one", 2, prompt_hash="a"), _side("two", 3, prompt_hash="a"), BUSI).reworded == 0
    assert compare(_side("one", 2, prompt_hash="a"), _side("two", 3), BUSI).reworded == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"benchmark": "busi 2.0"}, "different benchmarks: busi 1.0 and busi 2.0"),
        ({"data_hash": "f" * 64}, "different data"),
        ({"split": "val"}, "different splits"),
        ({"parser": "strict"}, "--parser"),
        ({"name": "one"}, "two different runs"),
    ],
)
def test_sides_that_cannot_be_paired_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(FIRST, replace(SECOND, about=replace(SECOND.about, **change)), BUSI)


def test_other_questions_under_the_same_ids_are_refused() -> None:
    first, *others = SECOND.rows
    other = replace(first, question=replace(first.question, answer="that"))
    with pytest.raises(ValueError, match="'q0' is not the same for one and two"):
        compare(FIRST, replace(SECOND, rows=(other, *others)), BUSI)


def test_no_common_question_is_refused() -> None:
    silent = replace(SECOND, rows=tuple(ParsedReply(row.question, None, None) for row in SECOND.rows))
    with pytest.raises(ValueError, match="none in common"):
        compare(FIRST, silent, BUSI)


def test_table_json_and_markdown_say_the_same(found: ComparedSides) -> None:
    text = table_text(comparison_table(found))
    assert "1 that only one answered, 2 that only two answered" in text
    whole = json.loads(json_bytes(found, CompareFile), parse_constant=pytest.fail)
    assert whole["interval_method"] == METHOD
    assert any(METHOD in note for note in comparison_table(found).notes)
    assert whole["overall"]["difference"] == pytest.approx(5 / 11)
    assert whole["by_task"]["diagnosis"]["counts"]["only_second"] == 4
    row = next(line for line in table_lines(paper_table(comparison_table(found))) if line.startswith("| diagnosis"))
    assert row.count("|") == 11
    assert "0.429" in row


def test_names_of_data_become_no_markup(found: ComparedSides) -> None:
    evil = "<script>|[x](y)"
    named = replace(found, by_task={evil: found.by_task["diagnosis"]}, names=("<b>", "two"))
    markdown = "\n".join(table_lines(paper_table(comparison_table(named))))
    assert "<script" not in markdown
    assert "<b>" not in markdown
    assert r"\|\[x\](y)" in markdown, "neither a column nor a link"
    assert "<script" not in comparison_plot(named)
    ET.fromstring(comparison_plot(named))


def test_labels_are_said_once_where_they_agree_and_by_name_where_not() -> None:
    alike = compare(FIRST, SECOND, BUSI)
    assert comparison_table(alike).notes.count("Data: released. Prompts: ours.") == 1
    theirs = replace(SECOND, about=replace(SECOND.about, label=replace(LABEL, prompts="those of the tool")))
    differ = compare(FIRST, theirs, BUSI)
    labels = json.loads(json_bytes(differ, CompareFile))["labels"]
    assert [label["prompts"] for label in labels] == ["ours", "those of the tool"]
    for text in (comparison_plot(differ), table_text(comparison_table(differ))):
        assert "one: Data: released. Prompts: ours." in text
        assert "two: Data: released. Prompts: those of the tool." in text
    plot = ET.fromstring(comparison_plot(differ))
    lowest = max(float(text.get("y") or 0) for text in plot.iter(f"{SVG}text"))
    assert lowest < float(plot.get("height") or 0), "the notes stand inside the picture"


def test_plot_is_one_accessible_picture_with_marks_in_their_places() -> None:
    rows = [ForestRow("a", 10, 0.2, 0.1, 0.3, is_clear=True), ForestRow("b", 5, -0.1, -0.3, 0.1, is_clear=False)]
    drawn = forest_svg(rows, title="two minus one", left="one", right="two")
    svg = ET.fromstring(drawn)
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == "t d"
    assert svg.findtext(f"{SVG}title") == "two minus one"
    assert "a: +0.200, 95 % interval +0.100 to +0.300, n 10" in (svg.findtext(f"{SVG}desc") or "")
    assert drawn.count("http") == 1, "the name space alone: nothing is fetched"
    marks = [rect for group in svg.iter(f"{SVG}g") for rect in group.findall(f"{SVG}rect")]
    assert [mark.get("class") for mark in marks] == ["clear", "open"]
    centres = [float(mark.get("x", "nan")) + 5 for mark in marks]
    (zero,) = [float(line.get("x1", "nan")) for line in svg.findall(f"{SVG}line") if line.get("class") == "zero"]
    assert (centres[0] - zero) / (centres[1] - zero) == pytest.approx(0.2 / -0.1, rel=0.01)
    lines = [line for line in next(svg.iter(f"{SVG}g")).findall(f"{SVG}line") if line.get("y1") == line.get("y2")]
    ends = [float(lines[0].get(name, "nan")) for name in ("x1", "x2")]
    assert [(end - zero) / (centres[0] - zero) for end in ends] == pytest.approx([0.5, 1.5], rel=0.01)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1e-4, 350.0])
def test_plot_holds_any_difference(value: float) -> None:
    row = ForestRow("a", 1, value, value, value, is_clear=True)
    svg = ET.fromstring(forest_svg([row], title="t", left="l", right="r"))
    (mark,) = svg.findall(f"{SVG}g/{SVG}rect")
    assert 0 < float(mark.get("x", "nan")) < float(svg.get("width", "nan"))


def test_plot_refuses_what_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        forest_svg([], title="t", left="l", right="r")
    with pytest.raises(ValueError, match="finite"):
        forest_svg([ForestRow("a", 1, float("nan"), 0, 1, is_clear=False)], title="t", left="l", right="r")
