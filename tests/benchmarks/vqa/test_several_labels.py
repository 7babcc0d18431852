"""Tests several labels a picture: how tables hold them, how they are asked, read and scored."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, recall_score

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.vqa import KINDS
from medtune.benchmarks.vqa.label_questions import render_labels
from medtune.benchmarks.vqa.label_replies import read_set
from medtune.data.languages import LANGUAGES
from medtune.data.raw.source import TableOptions
from medtune.data.types import Question
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.label_sets import LABEL, LABELS, SET, joined_labels, label_table, macro_f1
from medtune.eval.scoring.score import score_phase
from medtune.trainer.experiment.predict import Known, read_questions
from medtune.trainer.recipe.read import read_recipe
from tests.benchmarks.vqa.own_data import pictures, read, read_text
from tests.eval.answers import generated

VQA = find_benchmark("vqa")
NAMES = ("cyst", "mass", "no finding", "shadow")
ONE_HOT = "image,cyst,shadow,patient\nus_0.png,1,-1,P0\nus_1.png,0,NaN,P1\nus_2.png,yes,1.0,P2\nus_3.png,,,P3\n"
LISTS = (
    'image,findings,patient\nus_0.png,"cyst; shadow",P0\nus_1.png,none,P1\nus_2.png,"[""Cyst""]",P2\nus_3.png,cyst,P3\n'
)


def _said(columns: str, ask: Literal["one", "each"] = "one", **said: Any) -> TableOptions:
    return TableOptions(columns={"labels": columns}, ask_labels=ask, **said)


@pytest.mark.parametrize(
    ("text", "said", "answers"),
    [
        (ONE_HOT, _said("cyst,shadow"), ["none", "cyst; shadow", "none"]),
        (ONE_HOT, _said("cyst,shadow", uncertain="yes"), ["cyst; shadow", "none", "cyst; shadow", "none"]),
        (ONE_HOT, _said("cyst,shadow", uncertain="no"), ["cyst", "none", "cyst; shadow", "none"]),
        (ONE_HOT, _said("cyst,shadow", "each"), ["yes", "no", "no", "yes", "yes", "no", "no"]),
        (LISTS, _said("findings"), ["cyst; shadow", "none", "cyst", "cyst"]),
        (LISTS, _said("findings", answers={"cyst": "Zyste"}), ["shadow; Zyste", "none", "Zyste", "Zyste"]),
        (LISTS, _said("findings", "each", options=("shadow", "cyst")), ["yes", "yes", "no", "no", "no", "yes"]),
        (
            ONE_HOT.replace(",", ";").replace("cyst", "Zyste").replace("yes", "ja"),
            _said("Zyste,shadow", answers={"Zyste": "cyst"}, uncertain="no"),
            ["cyst", "none", "cyst; shadow", "none"],
        ),
    ],
)
def test_labels_of_lists_and_of_columns(tmp_path: Path, text: str, said: TableOptions, answers: list[str]) -> None:
    table = read_text(tmp_path, text, said)
    assert not table.rejects
    assert [question.answer for question in table.questions][: len(answers)] == answers
    assert any("UNCERTAIN LABELS: 1 cells" in note for note in table.notes) == ("-1" in text)
    assert any("EMPTY CELLS: 3 cells" in note for note in table.notes) == ("-1" in text)
    for question in table.questions:
        prompt = VQA.render(question, "text")
        assert VQA.parsers["reply"](prompt.target, question) == question.answer
        assert all(
            label in prompt.text for label in question.printed.get(LABELS, question.printed.get(LABEL, "")).split("\n")
        )


@pytest.mark.parametrize(
    ("text", "said", "field", "reason"),
    [
        (ONE_HOT.replace("us_1.png,0", "us_1.png,Meier"), _said("cyst,shadow"), "cyst", "wanted 1 or 0"),
        (
            LISTS.replace("none", "Meier"),
            _said("findings", options=("cyst", "shadow")),
            "findings",
            "1 of 1 labels are",
        ),
        (LISTS.replace("none", ""), _said("findings"), "findings", "the labels are empty"),
        (LISTS.replace("none", "NaN"), _said("findings"), "findings", "the labels are empty"),
    ],
)
def test_a_cell_that_holds_no_labels_is_named_without_its_text(
    tmp_path: Path, text: str, said: TableOptions, field: str, reason: str
) -> None:
    (reject,) = read_text(tmp_path, text, said).rejects
    assert (reject.row, reject.field) == (3, field)
    assert reason in reject.reason
    assert "Meier" not in str(reject)


def test_one_column_of_1_and_0_is_no_list_of_labels(tmp_path: Path) -> None:
    text = "image,patient,cyst\nus_0.png,P0,1\nus_1.png,P0,0\nus_2.png,P1,\n"
    with pytest.raises(ValueError, match=r"'cyst' holds only 1, 0.*--columns answer='cyst' --question"):
        read_text(tmp_path, text, _said("cyst"))


def test_a_row_says_that_it_has_labels_and_single_answers_are_told_about_them(tmp_path: Path) -> None:
    text = 'image,question,answer,answer_type\nus_0.png,Which?,"cyst, mass",set\nus_1.png,Where?,left,open\n'
    found = read_text(tmp_path, text, TableOptions(ask_labels="one")).questions
    assert [(question.answer_kind, question.answer) for question in found] == [("set", "cyst; mass"), ("text", "left")]
    (reject,) = read_text(tmp_path, text.replace("left,open", '"[""a"", ""b""]",')).rejects
    assert "--labels answer" in reject.reason


def _asked(answer: str = "cyst") -> Question:
    return Question("q", "m", "Which?", (), answer, "set", "p", printed={LABELS: "\n".join(NAMES)})


def test_a_reply_is_read_as_a_set() -> None:
    """How the words of a reply name labels stands in tests/eval/scoring/parsers/replies/rules_of_labels.jsonl."""
    assert VQA.parsers["reply"]("**Cyst** and shadow.", _asked()) == "cyst; shadow"


_ROWS = st.lists(
    st.tuples(*(st.booleans() for _ in range(8)), st.sampled_from([False, False, True])), min_size=1, max_size=12
)


def _replies(drawn: list[tuple[bool, ...]], *, one: bool) -> list[ParsedReply]:
    found = []
    for number, row in enumerate(drawn):
        true, said, unread = row[:4], row[4:8], row[8]
        base = replace(_asked(), id=f"{number}", media_id=f"{number}", patient_id=f"{number // 2}")
        if one:
            asked = replace(
                base, answer=joined_labels([name for name, is_true in zip(NAMES, true, strict=True) if is_true])
            )
            answer = joined_labels([name for name, is_said in zip(NAMES, said, strict=True) if is_said])
            found.append(ParsedReply(asked, None, None if unread else answer))
            continue
        for name, is_true, is_said in zip(NAMES, true, said, strict=True):
            printed: Mapping[str, str] = {LABEL: name, SET: "Which?"}
            asked = replace(base, id=f"{number} {name}", options=("yes", "no"), answer=["no", "yes"][is_true])
            asked = replace(asked, answer_kind="yes_no", printed=printed)
            found.append(ParsedReply(asked, None, None if unread else ["no", "yes"][is_said]))
    return found


@given(_ROWS, st.booleans())
def test_scores_of_labels_equal_sklearn(drawn: list[tuple[bool, ...]], one: bool) -> None:
    true = np.array([row[:4] for row in drawn])
    said = np.array([[not each for each in row[:4]] if row[8] else row[4:8] for row in drawn])
    rows = _replies(drawn, one=one)
    found = {name: VQA.metrics[name].value(rows) for name in ("macro_f1", "micro_f1", "exact_set")}
    macro = f1_score(true, said, average="macro", zero_division=np.nan) if (true | said).any() else 0.0
    micro = f1_score(true, said, average="micro", zero_division=0)
    assert found == pytest.approx({"macro_f1": macro, "micro_f1": micro, "exact_set": accuracy_score(true, said)})
    for (name, number, with_it, _, sensitivity, *_, specificity, _, _, _), place in zip(
        label_table(rows).rows, range(4), strict=True
    ):
        column, by_model = true[:, place], said[:, place]
        assert (name, number, with_it) == (NAMES[place], len(drawn), column.sum())
        if 0 < column.sum() < len(drawn):
            assert sensitivity == pytest.approx(recall_score(column, by_model))
            assert specificity == pytest.approx(recall_score(~column, ~by_model))


def test_labels_have_scores_with_intervals_by_patient() -> None:
    rng = np.random.default_rng(0)
    rows = _replies([(*map(bool, rng.random(8) < 0.5), False) for _ in range(40)], one=True)
    questions = [row.question for row in rows]
    said = [generated(row.question, row.parsed) for row in rows]
    scores = score_phase(questions, said, VQA.for_part(questions))
    assert VQA.for_part(questions).primary == "macro_f1"
    (table,) = (each for each in scores.tables if each.title == "Labels")
    for row in table.rows:
        share, low, high = row[4:7]
        assert isinstance(share, float)
        assert isinstance(low, float)
        assert isinstance(high, float)
        assert low < share < high


def test_a_new_picture_is_asked_about_every_label_of_the_model_s_own_data(tmp_path: Path) -> None:
    known = {
        q.text: replace(q, answer="yes") for q in read_text(tmp_path, ONE_HOT, _said("cyst,shadow", "each")).questions
    }
    new = pictures(tmp_path / "new", 2)
    (tmp_path / "scratch").mkdir()
    model = read_recipe("nano_busi_lora").model
    own = Known([*known], [*known.values()])
    asked = read_questions(tmp_path / "new", TableOptions(), own, tmp_path / "scratch", model)
    assert len(asked.questions) == len({question.id for question in asked.questions}) == 2 * len(new)
    assert {question.printed[LABEL] for question in asked.questions} == {"cyst", "shadow"}


def test_labels_are_asked_and_answered_in_the_language_of_the_question(tmp_path: Path) -> None:
    said = replace(_said("cyst,shadow", "each"), question="Ist hier zu sehen: {label}?")
    questions = read_text(tmp_path, ONE_HOT, said).questions
    assert {question.options for question in questions} == {("ja", "nein")}
    rows = [ParsedReply(question, None, question.answer) for question in questions]
    assert macro_f1().value(rows) == 1
    assert [name for name, is_kind in KINDS.items() if is_kind(questions[0])] == ["labels: yes or no each"]


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_all_labels_at_once_are_asked_in_each_language_and_none_is_its_word(code: str) -> None:
    said = LANGUAGES[code]
    asked = Question("q", "m", "?", (), "none", "set", "p", printed={LABELS: "cyst\nshadow"}, language=code)
    prompt = render_labels(asked)
    assert prompt.target == said.nothing
    assert prompt.text.endswith(said.labels)
    assert said.nothing in said.labels
    assert [read_set(reply, asked) for reply in (said.nothing, f"{said.nothing}.", f"{said.nothing}。")] == ["none"] * 3
    assert read_set("cyst; shadow", asked) == "cyst; shadow"
    assert len({each.labels for each in LANGUAGES.values()}) == len(LANGUAGES)


def test_notes_count_labels_as_they_are_asked_and_what_an_earlier_try_left_is_no_table(tmp_path: Path) -> None:
    read_text(tmp_path, ONE_HOT, _said("cyst,shadow", "each"))
    (raw,) = {path.parent for path in tmp_path.rglob("data.csv")}
    (raw / "mine.rejects.jsonl").write_text('{"file": "data.csv", "row": 1, "field": null, "reason": "broken"}\n')
    (raw / "data.csv").write_text(ONE_HOT)
    notes = read(raw, _said("cyst,shadow", "each")).notes
    assert not any("kind" in note or "other tables" in note for note in notes)
    assert any("one yes-or-no question for each label" in note for note in notes)
