"""The user's own questions: with options, with yes or no, with a number, or with an answer in free words.

Which metrics there are, and which is primary, follows from the questions of the split (`Benchmark.for_part`). Nothing
is known about the pictures, so training never changes them (`allowed_changes` keeps its default, which allows no
change). docs/scores.md says how answers are read and compared.

Source: tables, and the formats of ms-swift and LLaMA-Factory; see the modules of `sources`. This is no published
benchmark.

The primary metric is the first one that is about any question of the split:

1. `closed_accuracy`, where there are questions with options or with yes and no that are not about labels;
2. `macro_f1` of labels, where there are questions about several labels a picture, in one question or one by one;
3. `within_tolerance`, where there are numbers with a stated tolerance;
4. `exact_match`, where most true answers are short;
5. `rouge_l`, where they are longer texts.

Closed and open questions are never mixed in one number.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from medtune.benchmarks import example
from medtune.benchmarks.vqa.free_text import is_free_text, judge_task
from medtune.benchmarks.vqa.label_questions import render_labels
from medtune.benchmarks.vqa.label_replies import read_set
from medtune.data.languages import LANGUAGES
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import MAX_LEVELS, Benchmark
from medtune.eval.evidence import Evidence
from medtune.eval.judge.extra_verdicts import verdict_table
from medtune.eval.metric import Metric, ParsedReply, mean_of_rows
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.bleu import corpus_bleu
from medtune.eval.metrics.closed_and_open import closed_accuracy, exact_match, open_recall, token_f1
from medtune.eval.metrics.rouge_l import mean_rouge_l
from medtune.eval.scoring import label_sets
from medtune.eval.scoring.bertscore import BertModel, bert_scores
from medtune.eval.scoring.label_sets import LABEL, LABELS, SET, is_about_labels, label_table
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.number_errors import TOLERANCE, is_measured, number_tables, within_tolerance
from medtune.eval.scoring.parse_replies import MAX_SHORT_WORDS, is_open, is_short, num_words
from medtune.eval.scoring.parsers.answer_in_reply import is_answer, read_answer
from medtune.eval.scoring.parsers.choice_parsers import parse_choice_strict
from medtune.eval.scoring.parsers.closed_parser import parse_closed
from medtune.eval.scoring.parsers.measures import read_measure
from medtune.eval.scoring.parsers.noted_rules import note
from medtune.eval.scoring.tables import Cell, Table

KINDS: Mapping[str, Callable[[Question], bool]] = {
    "closed: options": lambda question: (
        bool(question.options) and question.answer_kind != "yes_no" and not is_about_labels(question)
    ),
    "closed: yes or no": lambda question: question.answer_kind == "yes_no" and not is_about_labels(question),
    "labels: yes or no each": lambda question: LABEL in question.printed,
    "labels: all in one": lambda question: LABELS in question.printed,
    "open: number": lambda question: not question.options and question.answer_kind == "number",
    "open: short answer": lambda question: is_free_text(question) and is_short(question),
    "open: longer text": lambda question: is_free_text(question) and not is_short(question),
}
_COLUMNS = ("kind", "questions", "unreadable", "accuracy", "exact match", "token F1", "ROUGE-L", "BERTScore F1")
_EXAMPLES = (
    example(1, "Which plane of the fetus is this?", "thorax", "abdomen", "thorax", "femur", task="choice"),
    example(2, "Is a nodule visible?", "no", "yes", "no", task="yes_no"),
    replace(
        example(3, "How long is the femur?", "41.5", kind="number", unit="mm", task="number"),
        printed={TOLERANCE: "10%"},
    ),
    example(4, "Where does the catheter end?", "The right atrium of the heart", task="text"),
    replace(
        example(6, "Which findings are there?", "cyst; shadow", kind="set", task="labels"),
        printed={LABELS: "cyst\nmass\nshadow"},
    ),
    replace(
        example(7, "Is there a cyst?", "yes", "yes", "no", kind="yes_no", task="labels"),
        printed={LABEL: "cyst", SET: "Is there a {label}?"},
    ),
    example(5, "Describe the image.", "A transverse view of the liver without a focal lesion. No fluid.", task="text"),
)


def metrics() -> Mapping[str, Metric]:
    """Returns the metrics by name; all of open answers but `verbatim_match` are of texts after normalisation."""
    return {
        "closed_accuracy": closed_accuracy().only(
            lambda question: bool(question.options) and not is_about_labels(question)
        ),
        "macro_f1": label_sets.macro_f1(),
        "micro_f1": label_sets.micro_f1(),
        "exact_set": label_sets.exact_set(),
        "within_tolerance": within_tolerance(),
        "exact_match": replace(exact_match(), is_defined_on=_are_mostly_short),
        "rouge_l": mean_rouge_l(form=normalised).only(_is_text_of(1)),
        "token_f1": token_f1(),
        "open_recall": open_recall(),
        **{f"bleu{order}": corpus_bleu(order, form=normalised).only(_is_text_of(order)) for order in (1, 2, 3, 4)},
        "verbatim_match": verbatim(),
    }


def reply_score(row: ParsedReply) -> float:
    """Returns what one reply is worth, 0 to 1: the F1 of its labels, within the tolerance or not, the F1 of its words.

    Where options, labels or numbers without a tolerance are asked, it is right or not.
    """
    question = row.question
    if question.answer_kind == "set" and not row.correct:
        return label_sets.micro_f1().value([row])
    if question.answer_kind == "number" and within_tolerance().covers(question):
        return within_tolerance().value([row])
    return float(row.correct) if question.answer_kind != "text" else token_f1().value([row])


def verbatim() -> Metric:
    """Returns the share of open replies that are the true answer character by character, but for blanks at the ends.

    The whole reply counts, whatever the parser read from it, so that a full stop or a capital makes it wrong.

    >>> from medtune.data.types import Question
    >>> asked = Question("q", "m", "Where?", (), "left lobe", "text", "p")
    >>> verbatim().value([ParsedReply(asked, None, said) for said in ("left lobe ", "Left lobe", "left lobe.")])
    0.3333333333333333

    Source: Our definition: equal texts.
    """
    return Metric(mean_of_rows(_is_verbatim), covers=is_open)


def _is_verbatim(row: ParsedReply) -> float:
    said = row.parsed if row.prediction is None else row.prediction.text
    return float(said is not None and said.strip() == row.question.answer.strip())


def _are_mostly_short(questions: Sequence[Question]) -> bool:
    asked = [question for question in questions if is_open(question)]
    return 2 * sum(map(is_short, asked)) >= len(asked)


def _is_text_of(words: int) -> Callable[[Question], bool]:
    return lambda question: is_open(question) and question.answer_kind != "number" and num_words(question) >= words


def parse(reply: str, question: Question) -> str | None:
    """Returns the answer that a reply gives, in the words of the true answer where both are the same; else None.

    Example:
        >>> asked = Question("q", "m", "How wide?", (), "50", "number", "p", unit="mm")
        >>> [parse(reply, asked) for reply in ("The answer is 5 cm.", "51 mm", "wide")]
        ['50', '51', None]
    """
    if question.options:
        return parse_closed(reply, question)
    if question.answer_kind == "number":
        return _number(reply, question)
    if question.answer_kind == "set":
        return read_set(reply, question)
    answer = read_answer(reply)
    is_true = answer is not None and is_answer(answer, question.answer)
    note("the true answer after normalisation" if is_true else "the words of its answer")
    return question.answer if is_true else answer


def parse_verbatim(reply: str, question: Question) -> str | None:
    """Returns the whole reply without blanks at its ends, or the option that it is character by character; else None.

    Example:
        >>> asked = Question("q", "m", "Is it so?", ("yes", "no"), "no", "yes_no", "p")
        >>> [parse_verbatim(reply, asked) for reply in ("no", "B", "No", "no.")]
        ['no', 'no', None, None]
    """
    said = reply.strip()
    if question.answer_kind == "set":
        return said if read_set(said, question) == said else None
    return parse_choice_strict(said, question) if question.options else said or None


def _number(reply: str, question: Question) -> str | None:
    found = read_measure(reply, question.unit, asked=question.text)
    truth = read_measure(question.answer, question.unit)
    if found is None:
        return None
    is_equal = truth is not None and math.isclose(found, truth, rel_tol=1e-9, abs_tol=1e-12)
    note(f"the one number that it states{f', in {question.unit}' if question.unit else ''}")
    return question.answer if is_equal else f"{found:.12g}"


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
    about = [row for row in rows if is_about_labels(row.question)]
    numbers = [row for row in rows if is_measured(row.question)]
    labels = [label_table(about)] if about else []
    return [table, *labels, *(number_tables(numbers) if numbers else []), *by_kind]


def _row(name: str, rows: Sequence[ParsedReply], model: BertModel | None) -> tuple[Cell, ...]:
    unreadable = sum(row.prediction is not None and row.parsed is None for row in rows)
    bert = () if model is None else (_bert_f1(rows, model),)
    if rows[0].question.options or is_about_labels(rows[0].question):
        return (name, len(rows), unreadable, accuracy().value(rows), None, None, None, *(None for _ in bert))
    rouge = mean_rouge_l(form=normalised).value(rows) if is_free_text(rows[0].question) else None
    return (name, len(rows), unreadable, None, exact_match().value(rows), token_f1().value(rows), rouge, *bert)


def _bert_f1(rows: Sequence[ParsedReply], model: BertModel) -> float | None:
    if not is_free_text(rows[0].question):
        return None
    found = bert_scores([row.parsed or "" for row in rows], [row.question.answer for row in rows], model)
    return sum(each.f1 for each in found) / len(found)


def _kind(question: Question) -> str:
    return next(name for name, is_kind in KINDS.items() if is_kind(question))


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


def benchmark() -> Benchmark:
    """Returns the benchmark, whose prompts are the questions as they were written, with their options."""
    return Benchmark(
        title="Your own questions",
        version="2.0",
        licence="of the data set's owner",
        url="https://github.com/modelscope/ms-swift",
        citation="The data are the user's own. Other tools' forms of a table are read as this one writes them:",
        sources=("hf", "llama_factory", "ms_swift", "table", "image_folder"),
        facets=("task",),
        any_facet=True,
        render=render,
        parsers={"reply": parse, "verbatim": parse_verbatim},
        metrics=metrics(),
        examples=_EXAMPLES,
        tables=tables,
        judging=judge_task(),
        reply_score=reply_score,
    )


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    r"""Returns the question as it was written, with its options or the unit of its number, in its own language.

    Example:
        >>> render(_EXAMPLES[2], "text").text
        'How long is the femur?\nAnswer with a number in mm.'
    """
    if question.options:
        return render_choice(question, answer_format)
    if question.answer_kind == "set":
        return render_labels(question)
    text = question.text
    if question.answer_kind == "number":
        said = LANGUAGES[question.language]
        text += "\n" + (said.number_in.format(unit=question.unit) if question.unit else said.number)
    return Prompt(text=text, choices=(), target=question.answer)
