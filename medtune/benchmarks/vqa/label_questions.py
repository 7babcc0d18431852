"""Several labels a picture: reads them from lists and from columns of 0 and 1, and asks for all at once or one by one.

A cell of a label's own column holds 1, yes or x where the label is there, 0 or no where it is not, and -1 where nobody
knows, as in CheXpert; an empty one says that it is not mentioned, which counts as no.

Source: Irvin et al. 2019, CheXpert (https://arxiv.org/abs/1901.07031), sections 2 and 3.1: -1 is uncertain and an empty
cell not mentioned; uncertain labels are left out ("U-Ignore"), or taken as 0 ("U-Zeroes") or as 1 ("U-Ones").
"""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from medtune.benchmarks.vqa.row_answers import SEPARATORS, cell_text
from medtune.benchmarks.vqa.spreadsheet_changes import made_a_date, made_dates
from medtune.data.json_text import json_value
from medtune.data.kept_rows import KeptRows
from medtune.data.languages import ENGLISH, LANGUAGES
from medtune.data.raw.rows import Row
from medtune.data.raw.source import TableOptions
from medtune.data.types import Prompt, Question
from medtune.eval.scoring.label_sets import BETWEEN, LABEL, LABELS, NOTHING, SET, joined_labels, labels_of

QUESTION = "Which of these findings does the picture show?"
"""The question about several labels where rows have none of their own."""
EACH = "Does the picture show this finding: {label}?"
"""The same about a single label."""
_UNSURE, _EMPTY = "unsure", "empty"
"""What `Question.printed` holds until the questions are made: labels that nobody knows, the number of empty cells."""
_WORDS = {
    **dict.fromkeys(("1", "yes", "true", "x", "+", "ja", "oui", "si", "sí", "sì", "sim", "да", "是", "有"), True),
    **dict.fromkeys(("0", "no", "false", "-", "nein", "non", "nee", "não", "нет", "否", "无"), False),
    **dict.fromkeys(("-1", "?", "u", "uncertain"), None),
}
_OF_LABELS = ("set", "labels", "multi_label", "multilabel", "multiple_labels", "multi_select")
_NOTHING = (
    *("no finding", "nothing", "[]", "keine", "keiner", "keines", "aucune", "ninguna", "nessuna", "nenhuma"),
    *(said.nothing for said in LANGUAGES.values()),
)


def is_of_labels(declared: str) -> bool:
    """Returns whether a row's words about its kind of answer say that there are several labels."""
    return declared.casefold().replace(" ", "_").replace("-", "_") in _OF_LABELS


def read_labels(
    row: Row, question: Question, columns: Sequence[str], options: Sequence[str], said: TableOptions
) -> Question:
    """Returns a row's question with its labels as the answer, for `asked_of_labels`.

    Args:
        columns: The columns of the labels, or the one with lists of them.
        options: All labels, where the row or the user states them.
    """
    printed: dict[str, str] = {}
    if len(columns) == 1:
        found = _listed(row, columns[0], options, said)
        printed[LABELS] = "\n".join(options)
    else:
        names = [_checked(row, said.renamed(name.strip()), name) for name in columns]
        found, unsure, empty = list[str](), list[str](), 0
        for name, label in zip(columns, names, strict=True):
            value = _cell(row.values.get(name), said)
            if value and value not in _WORDS:
                raise row.place.error(
                    "wanted 1 or 0 (yes or no), -1 for uncertain, or nothing.", field=name, cell=value
                )
            is_there = _WORDS[value] if value else False
            empty += not value
            unsure += [label] if is_there is None else []
            found += [label] if is_there else []
        printed = {LABELS: "\n".join(names), _UNSURE: "\n".join(unsure), _EMPTY: str(empty)}
    facets = question.facets or {"task": "labels"}
    return replace(question, answer=joined_labels(found), answer_kind="set", printed=printed, facets=facets)


def _cell(value: object, said: TableOptions) -> str:
    text = cell_text(value)
    number = re.sub(r"^([-+]?\d+)[.,]0+$", r"\1", text)
    return said.renamed(number).casefold().rstrip(".")


def _checked(row: Row, label: str, field: str) -> str:
    if not label or BETWEEN.strip() in label or "\n" in label:
        raise row.place.error("a label is empty, or has ; or a line break in it. Give it another name.", field=field)
    return label


def _listed(row: Row, column: str, options: Sequence[str], said: TableOptions) -> list[str]:
    value = row.values.get(column)
    if isinstance(value, str) and value.strip().startswith("["):
        with suppress(ValueError):
            value = json_value(value.replace("'", '"'))
    if isinstance(value, list):
        parts = [cell_text(each) for each in value]
    else:
        text = said.renamed(cell_text(value))
        if not text:
            raise row.place.error(
                f"the labels are empty. Write {NOTHING!r} where no label is there, or remove the row; "
                f"--answers ={NOTHING} reads every empty cell so.",
                field=column,
            )
        known = {each.casefold() for each in options}
        mark = next((mark for mark in SEPARATORS if mark in text), None) if text.casefold() not in known else None
        parts = [text] if mark is None else [part.strip() for part in text.split(mark)]
        parts = [] if text.casefold() in _NOTHING and text.casefold() not in known else parts
    spelt = {each.casefold(): each for each in options}
    found = [said.renamed(part) for part in parts if part]
    if options and (unknown := [part for part in found if part.casefold() not in spelt]):
        reason = (
            f"{len(unknown)} of {len(found)} labels are none of the {len(options)} options. Correct them, or add them."
        )
        raise row.place.error(reason, field=column, cell="; ".join(unknown))
    return list(dict.fromkeys(_checked(row, spelt.get(part.casefold(), part), column) for part in found))


def asked_of_labels(questions: KeptRows[Question], said: TableOptions) -> tuple[KeptRows[Question], list[str]]:
    """Returns the questions as they are asked, one for each label or one for all, and notes that say how."""
    counts = _LabelCounts()
    for question in questions:
        if question.answer_kind == "set":
            counts.add(question)
    if not counts.rows:
        return questions, []
    stated = counts.stated
    spelt: dict[str, str] = {}
    # Of labels that come equally often, the stated ones come first.
    for label in [*stated, *(label for label, _ in (stated + counts.listed).most_common())]:
        spelt.setdefault(label.casefold(), label)
    labels = list(spelt.values()) if stated else sorted(spelt.values(), key=str.casefold)
    column = said.columns.get("labels", "")
    if column and not stated and all(_cell(label, said) in _WORDS for label in labels):
        raise ValueError(
            f"the column {column!r} holds only {', '.join(reversed(labels))}; --labels wants lists of labels, or two "
            f"columns or more. A single finding is a question with two answers: --columns answer={column!r} --question "
            f"'Is there a {column}?'"
        )
    if dates := made_dates(labels):
        named = ", ".join(repr(labels[place]) for place in sorted(dates))
        raise ValueError(f"the labels {named}: {made_a_date('these labels', labels[min(dates)])}")
    if len(labels) < 2:
        raise ValueError(
            f"the rows have {len(labels)} different labels, wanted two or more. Name the column of the lists or those "
            "of the labels with --labels, or all labels with --options"
        )
    asked, left_out = KeptRows[Question](), 0
    for question in questions:
        if question.answer_kind != "set":
            asked.append(question)
            continue
        there = {spelt[label.casefold()] for label in question.answer.split(BETWEEN) if label.casefold() in spelt}
        unsure = {*question.printed.get(_UNSURE, "").split("\n")} & {*labels}
        there |= unsure if said.uncertain == "yes" else set()
        unknown = unsure if said.uncertain is None else set()
        own_labels = labels_of(question) if question.printed[LABELS] else tuple(labels)
        if said.ask_labels == "one":
            left_out += bool(unknown)
            made = [] if unknown else [_at_once(question, own_labels, there)]
        else:
            left_out += len(unknown)
            made = [_alone(question, label, label in there) for label in own_labels if label not in unknown]
        for each in made:
            asked.append(each)
    return asked, _notes(counts, labels, left_out, said)


@dataclass(slots=True)
class _LabelCounts:
    """What the rows of labels hold together."""

    rows: int = 0
    without: int = 0  # The rows that have none of the labels.
    empty: int = 0  # The cells that are empty.
    unsure: int = 0  # The cells of which nobody knows.
    stated: Counter[str] = field(default_factory=Counter)  # The labels that rows offer.
    listed: Counter[str] = field(default_factory=Counter)  # Those that are there.

    def add(self, question: Question) -> None:
        self.rows += 1
        self.without += question.answer == NOTHING
        self.empty += int(question.printed.get(_EMPTY, 0))
        self.unsure += len(list(filter(None, question.printed.get(_UNSURE, "").split("\n"))))
        if question.answer != NOTHING:
            self.listed.update(question.answer.split(BETWEEN))
        if question.printed[LABELS]:
            self.stated.update(labels_of(question))


def _at_once(question: Question, labels: Sequence[str], there: set[str]) -> Question:
    answer = joined_labels([label for label in labels if label in there])
    return replace(question, answer=answer, printed={LABELS: "\n".join(labels)})


def _alone(question: Question, label: str, is_there: bool) -> Question:
    asked = EACH if question.text == QUESTION else question.text
    text = asked.replace("{label}", label) if "{label}" in asked else f"{asked}\n{label}?"
    words = LANGUAGES[question.language].yes_no
    return replace(
        question,
        id=f"{question.id}, {label}",
        text=text,
        options=words,
        answer=words[not is_there],
        answer_kind="yes_no" if question.language == ENGLISH else "choice",
        facets={**question.facets, LABEL: label},
        printed={LABEL: label, SET: question.text},
    )


def _notes(counts: _LabelCounts, labels: Sequence[str], left_out: int, said: TableOptions) -> list[str]:
    other = "each asks one question for each label" if said.ask_labels == "one" else "one asks for all labels at once"
    how = "one question for all labels" if said.ask_labels == "one" else "one yes-or-no question for each label"
    notes = [f"labels: {len(labels)} ({', '.join(labels)[:200]}), {how} (--ask-labels {other})"]
    notes += [f"labels: {counts.without:,} of {counts.rows:,} rows have none of them"] if counts.without else []
    if counts.empty:
        notes.append(f"EMPTY CELLS: {counts.empty:,} cells of labels are empty, which counts as no")
    if counts.unsure:
        what = "rows" if said.ask_labels == "one" else "questions"
        done = f"{left_out:,} {what} with them are left out" if said.uncertain is None else f"taken as {said.uncertain}"
        notes.append(
            f"UNCERTAIN LABELS: {counts.unsure:,} cells are -1: {done} (--uncertain yes, no or leave-out says which)"
        )
    return notes


def render_labels(question: Question) -> Prompt:
    r"""Returns the question with its labels, which are answered by those that are there, or by none.

    Example:
        >>> asked = Question("q", "m", "Which?", (), "cyst; shadow", "set", "p", printed={LABELS: "cyst\nshadow"})
        >>> render_labels(asked).text
        'Which?\n- cyst\n- shadow\nAnswer with all that apply, separated by semicolons, or with none.'
    """
    listed, said = [f"- {label}" for label in labels_of(question)], LANGUAGES[question.language]
    target = said.nothing if question.answer == NOTHING else question.answer
    return Prompt("\n".join([question.text, *listed, said.labels]), choices=(), target=target)
