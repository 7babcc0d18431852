"""Makes the table of scores by kind of question, and that of a judge's points."""

from collections.abc import Callable, Mapping, Sequence

from medtune.benchmarks.vqa.judge_task import judge_task
from medtune.data.types import Question
from medtune.eval.benchmark import MAX_LEVELS, Evidence
from medtune.eval.judge.extra_verdicts import verdict_table
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.exact_match import metric as exact_match
from medtune.eval.metrics.rouge_l import mean_rouge_l
from medtune.eval.metrics.token_f1 import metric as token_f1
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.answer_kinds import MAX_SHORT_WORDS, is_short
from medtune.eval.scoring.bertscore import BertModel, bert_scores
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.tables import Cell, Table

KINDS: Mapping[str, Callable[[Question], bool]] = {
    "closed: options": lambda question: bool(question.options) and question.answer_kind != "yes_no",
    "closed: yes or no": lambda question: bool(question.options) and question.answer_kind == "yes_no",
    "open: number": lambda question: not question.options and question.answer_kind == "number",
    "open: short answer": lambda question: _is_text(question) and is_short(question),
    "open: longer text": lambda question: _is_text(question) and not is_short(question),
}
_COLUMNS = ("kind", "questions", "unreadable", "accuracy", "exact match", "token F1", "ROUGE-L", "BERTScore F1")


def tables(evidence: Evidence) -> Sequence[Table]:
    """Returns the scores by kind of question, and the points of a judge where there are verdicts."""
    rows = evidence.rows("image")
    found = [(name, [row for row in rows if is_kind(row.question)]) for name, is_kind in KINDS.items()]
    notes = [
        f"A short answer has at most {MAX_SHORT_WORDS} words. Open answers are compared after normalisation "
        "(docs/scores.md); verbatim_match among the metrics is without it.",
        *_too_many_levels(evidence.questions),
    ]
    table = Table(
        "Scores by kind of question",
        _COLUMNS if evidence.text_model else _COLUMNS[:-1],
        tuple(_row(name, members, evidence.text_model) for name, members in found if members),
        tuple(notes),
    )
    by_kind = verdict_table(evidence, judge_task(), by="kind", level=_kind, title="Free answers, by a judge")
    return [table, *by_kind]


def _row(name: str, rows: Sequence[ParsedReply], model: BertModel | None) -> tuple[Cell, ...]:
    unreadable = sum(row.prediction is not None and row.parsed is None for row in rows)
    bert = () if model is None else (_bert_f1(rows, model),)
    if rows[0].question.options:
        return (name, len(rows), unreadable, accuracy().value(rows), None, None, None, *(None for _ in bert))
    rouge = mean_rouge_l(form=normalised).value(rows) if _is_text(rows[0].question) else None
    return (name, len(rows), unreadable, None, exact_match().value(rows), token_f1().value(rows), rouge, *bert)


def _bert_f1(rows: Sequence[ParsedReply], model: BertModel) -> float | None:
    if not _is_text(rows[0].question):
        return None
    found = bert_scores([row.parsed or "" for row in rows], [row.question.answer for row in rows], model)
    return sum(each.f1 for each in found) / len(found)


def _kind(question: Question) -> str:
    return next(name for name, is_kind in KINDS.items() if is_kind(question))


def _is_text(question: Question) -> bool:
    return not question.options and question.answer_kind != "number"


def _too_many_levels(questions: Sequence[Question]) -> list[str]:
    values: dict[str, set[str]] = {}
    for question in questions:
        for facet, value in question.facets.items():
            values.setdefault(facet, set()).add(value)
    return [
        f"There are no scores by {facet}: it has {len(found):,} different values, more than {MAX_LEVELS}."
        for facet, found in values.items()
        if len(found) > MAX_LEVELS and facet != "task"
    ]
