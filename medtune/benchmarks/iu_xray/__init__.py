"""IU X-ray, chest X-ray images with their reports: a model writes the findings, the impression or both.

The prompts, the parser and the scores are ours; the rules of R2Gen and of MedEvalKit stand beside them.

Source: Demner-Fushman et al. 2016, doi:10.1093/jamia/ocv080; the split: Chen et al. 2020, arXiv 2010.16056.
"""

from collections.abc import Iterable, Mapping, Sequence

from medtune.benchmarks import example, published
from medtune.benchmarks.iu_xray.constant_reports import constant_reports
from medtune.benchmarks.iu_xray.kit_rules import RULES, TASK_OF, by_r2gen
from medtune.benchmarks.iu_xray.reports import FINDINGS, IMPRESSION, REPORT, metrics, parse_report
from medtune.benchmarks.iu_xray.studies import IN_TRAIN, LICENCE, MEDEVALKIT, OPEN_I, OPEN_I_FILES, R2GEN, TEXTS
from medtune.benchmarks.medical_kits import choice_rules
from medtune.data.media.augment import Change
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.evidence import Evidence
from medtune.eval.scoring.bertscore import bert_scores
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.studies.measures import of_rule
from medtune.eval.studies.one_run import answers_of, tables_of_run
from medtune.eval.studies.published import PublishedColumn, PublishedTable

_COLUMNS = ("bleu1", "bleu2", "bleu3", "bleu4", "meteor", "rouge_l")
_FORMS = {
    FINDINGS: "Answer with the findings section of the radiology report alone, in plain sentences.",
    IMPRESSION: "Answer with the impression of the radiology report alone, in plain sentences.",
    REPORT: 'Answer with the radiology report in plain sentences: first "Findings:", then "Impression:".',
}
_ALLOWED: frozenset[Change] = frozenset({"move", "grey"})
_ENLARGED = "The heart is enlarged. There is no pleural effusion."
_BLUNTED = "Findings: The left costophrenic angle is blunted. Impression: Small pleural effusion on the left."
_EXAMPLES = tuple(
    example(task, TEXTS[task], answer, task=task, **facets)
    for task, answer, facets in (
        (FINDINGS, _ENLARGED, {"release": R2GEN, IN_TRAIN: "no"}),
        (REPORT, _BLUNTED, {"release": MEDEVALKIT}),
        (IMPRESSION, "There is no acute disease of the chest.", {"release": OPEN_I_FILES, "finding": "normal"}),
    )
)


def tables(evidence: Evidence) -> Sequence[Table]:
    """Returns the tables; that of the published rows is only made where findings were asked for."""
    replies = [(row.prediction.text or "") if row.prediction is not None else "" for row in evidence.rows("image")]
    return (
        *_beside_published(evidence),
        *_constant_reports(evidence),
        _repeats(evidence, replies),
        *_bertscore(evidence),
    )


def missing(questions: Sequence[Question]) -> str:
    """Returns in what way the questions are not R2Gen's 590 test studies; "" if they are."""
    releases = sorted({question.facets["release"] for question in questions})
    if releases != [R2GEN]:
        return f"of another release, {' and '.join(releases)}, and not R2Gen's"
    wanted = published("iu_xray")["counts"]["studies"]["test"]
    return "" if len(questions) == wanted else f"{len(questions):,} of the {wanted:,} test studies of R2Gen"


def published_tables() -> Sequence[PublishedTable]:
    """Returns the table of published rows, by R2Gen's rule; METEOR of ours is not there."""
    printed = published("iu_xray")["main"]
    names = printed["columns"][1:]
    columns = [
        # BLEU is counted over all reports together.
        PublishedColumn(name, of_rule(RULES["r2gen"], ours, None, is_mean=ours == "rouge_l"), ("final",))
        for name, ours in zip(names, _COLUMNS, strict=True)
    ]
    return (
        PublishedTable(
            "r2gen",
            "IU X-ray, R2Gen's split: findings by R2Gen's rule",
            published("iu_xray")["source"],
            tuple(columns),
            {model: dict(zip(names, values, strict=True)) for model, *values in printed["rows"]},
            (RULES["r2gen"].differs, "METEOR of our rows is not computed: its reference program needs Java."),
        ),
    )


def _beside_published(evidence: Evidence) -> Sequence[Table]:
    if not any(question.facets["task"] == FINDINGS for question in evidence.questions):
        return ()
    (table,) = published_tables()
    constant = {
        f"always {name}": _values([(row.question, report) for row in evidence.rows("image")])
        for name, report in _constant(evidence, FINDINGS).items()
    }
    return tables_of_run(
        table, {"ours": answers_of(evidence)}, unlike_published=evidence.unlike_published, more=constant
    )


def _values(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float | None]:
    found = by_r2gen(replies)
    names = published("iu_xray")["main"]["columns"][1:]
    return {name: found.get(ours) for name, ours in zip(names, _COLUMNS, strict=True)}


def _constant_reports(evidence: Evidence) -> Sequence[Table]:
    rows: list[tuple[str, str, Mapping[str, float]]] = []
    notes: list[str] = []
    origin = "train" if evidence.train else "these questions themselves, which flatters it"
    for name, rule in RULES.items():
        for called, report in _constant(evidence, TASK_OF[name]).items():
            rows.append((called, rule.title, rule.score([(question, report) for question in evidence.questions])))
            notes.append(f"{called[0].upper()}{called[1:]} of {origin}: {report}")
    columns = [*dict.fromkeys(column for *_, numbers in rows for column in numbers)]
    cells = [(called, rule, *(numbers.get(name) for name in columns)) for called, rule, numbers in rows]
    title = "IU X-ray: a constant report as the answer to every question"
    return (Table(title, ("always", "rule", *columns), tuple(cells), tuple(notes)),) if rows else ()


def _constant(evidence: Evidence, task: str) -> Mapping[str, str]:
    if not any(question.facets["task"] == task for question in evidence.questions):
        return {}
    known = evidence.train or evidence.questions
    return constant_reports([question.answer for question in known if question.facets["task"] == task])


def _repeats(evidence: Evidence, replies: Sequence[str]) -> Table:
    true, learnt = [question.answer for question in evidence.questions], {each.answer for each in evidence.train}
    rows: list[tuple[Cell, ...]] = [("true reports", len(true), len(set(true)), _in(true, learnt))]
    if replies:
        rows.append(("replies", len(replies), len(set(replies)), _in(replies, learnt)))
    return Table(
        title="IU X-ray: reports that repeat word for word",
        columns=("texts", "number", "different ones", "stand in train"),
        rows=tuple(rows),
        notes=("A true report that stands in train can be remembered; few different replies can still score high.",),
    )


def _bertscore(evidence: Evidence) -> Sequence[Table]:
    model, rows = evidence.text_model, evidence.rows("image")
    if model is None or not rows:
        return ()
    found = bert_scores([row.parsed or "" for row in rows], [row.question.answer for row in rows], model)
    means = (sum(column) / len(rows) for column in zip(*found, strict=True))
    return (
        Table(
            title=f"IU X-ray: BERTScore with {model.name}",
            columns=("texts", "number", "precision", "recall", "F1"),
            rows=(("replies", len(rows), *means),),
        ),
    )


def _in(texts: Iterable[str], learnt: set[str]) -> int | None:
    return sum(text.strip() in learnt for text in texts) if learnt else None


def benchmark() -> Benchmark:
    """Returns the benchmark, whose primary metric is ROUGE-L of the words of the asked part."""
    return Benchmark(
        title="IU X-ray",
        version="1.0",
        licence=LICENCE,
        url=OPEN_I,
        citation="Demner-Fushman et al. Preparing a collection of radiology examinations. JAMIA 23 (2016), 304-310.",
        sources=("iu_xray", "iu_xray_medevalkit", "iu_xray_open_i"),
        facets=("task", "release", IN_TRAIN, "finding"),
        render=_render,
        parsers={"report": parse_report},
        metrics=metrics(),
        examples=_EXAMPLES,
        official=choice_rules.medevalkit_prompts((choice_rules.REPORT,), _kit_form),
        tables=tables,
        published_tables=published_tables,
        missing=missing,
        rules=RULES,
        allowed_changes=_allowed_changes,
    )


def _render(question: Question, answer_format: AnswerFormat) -> Prompt:
    return Prompt(f"{question.text}\n{_FORMS[question.facets['task']]}", (), question.answer)


def _kit_form(question: Question) -> str:
    task = question.facets["task"]
    return choice_rules.REPORT.name if task == REPORT else f"{task} alone"


def _allowed_changes(question: Question) -> frozenset[Change]:
    return _ALLOWED
