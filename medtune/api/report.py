"""`medtune.Report`: an evaluation, a comparison or a run as one HTML page that loads nothing from elsewhere."""

import base64
import html
import tempfile
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from medtune.api.compare import Comparison
from medtune.api.evaluation import Evaluation, NamedScore
from medtune.benchmarks import paper_of
from medtune.data.files import replace_file
from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.readable import spoken
from medtune.data.types import Question
from medtune.eval.comparing.compare_text import comparison_table
from medtune.eval.comparing.verdict import Verdict
from medtune.eval.data_label import PATIENT, several
from medtune.eval.report.answers import AnsweredQuestion, answer_to, chosen
from medtune.eval.report.gallery import MAX_IMAGE_BYTES, MAX_ITEMS, NO_PICTURE, Picture, asked_text, picture
from medtune.eval.report.headline import wrong_text
from medtune.eval.report.html import render
from medtune.eval.report.report import run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.report.table import Cell, ReportTable, count, interval, number, paper_table, plain, signed, span, word
from medtune.eval.report.write import HTML, run_html
from medtune.eval.results.phase_schema import Measured, counted_text
from medtune.eval.scoring.parse_replies import read_by
from medtune.eval.statistics.intervals import METHOD, method_for
from medtune.eval.statistics.patient_swaps import p_equals

FRAME_HEIGHT_PX = 800

LAST = "final"
"""The key under which the report's parts look for the only answer to a question."""


class Report:
    """A report, which is made when it is first shown or written. A notebook shows it where it is the last expression.

    Its images, questions and replies are from the data: look at it before you forward it.
    """

    def __init__(self, of: Evaluation | Comparison | str | Path) -> None:
        """Takes what `medtune.evaluate`, `medtune.score` or `medtune.compare` returned, or the folder of a run.

        Raises:
            TypeError: It is something else.
        """
        if not isinstance(of, Evaluation | Comparison | str | Path):
            raise TypeError(
                f"medtune.Report: a {type(of).__name__} has no report; give what medtune.evaluate, medtune.score or "
                "medtune.compare returned, or the folder of a run"
            )
        self._of = of

    @cached_property
    def html(self) -> str:
        """The page.

        Raises:
            FileNotFoundError: An image, the run folder or one of its files is missing.
            ValueError: One of these is broken.
        """
        if isinstance(self._of, str | Path):
            return run_html(run_report(read_run(Path(self._of).expanduser()), paper_of))
        page = evaluation_page(self._of) if isinstance(self._of, Evaluation) else comparison_page(self._of)
        parts = {"answers": ("Answers", page.cards), "metrics": ("All metrics", page.metrics)}
        filled = [(id_, name) for id_, (name, part) in parts.items() if part]
        return render(
            "evaluation.html.j2",
            page=page,
            sections=[("result", "Result"), *filled, ("reading", "Notes")],
            limits={"megabytes": MAX_IMAGE_BYTES // 1_000_000},
        )

    def write(self, path: str | Path) -> Path:
        """Writes the page and returns its path; into a folder, as report.html.

        Raises:
            FileNotFoundError: The folder is missing.
            OSError: The file cannot be written; an earlier one is unchanged.
        """
        file = Path(path).expanduser()
        if file.is_dir():
            file = file / HTML
        if not file.parent.is_dir():
            raise FileNotFoundError(f"{file.parent}: there is no such folder; make it, or write the report elsewhere")
        replace_file(file, [self.html.encode()])
        return file

    def show(self) -> Path:
        """Opens the page in a browser and returns its path, which is a temporary file."""
        path = self.write(Path(tempfile.mkdtemp(prefix="medtune-")))
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        """Returns the page in a frame of its own, for a notebook."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" title="medtune report" '
            f'style="width:100%;height:{FRAME_HEIGHT_PX}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"a report of {self._of!r}; show it with .show(), or write it with .write(PATH)"


@dataclass(frozen=True, slots=True)
class Card:
    """A question with its answer."""

    question: Question  # The question.
    text: str  # Its text, behind the earlier turns of its conversation.
    task: str  # Its task in words.
    outcome: str  # "right", "wrong", "graded" or "unscored".
    reply: str  # The generated text, or the option that was read.
    note: str  # Why the reply does not count as an answer; "" if it does.
    picture: Picture  # The images that it is about, as one.


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a page."""

    title: str  # The title.
    subtitle: str  # The benchmark, and what was asked.
    banners: tuple[tuple[str, str], ...]  # Reasons why the numbers are not a benchmark's own, each with its meaning.
    # The marking of the figure: that of a verdict (`comparing.verdict`), or "" for none.
    verdict: Verdict | Literal[""]
    figure_name: str  # The name of the most important number.
    figure: str  # This number.
    reach: str  # Its interval and its number of questions.
    sentences: tuple[str, ...]  # What the number says.
    result: tuple[ReportTable, ...]  # The tables of the result.
    notes: tuple[str, ...]  # How the numbers were made, as sentences.
    metrics: tuple[ReportTable, ...] = ()  # The tables of all metrics.
    cards: tuple[Card, ...] = ()  # Questions with their answers.
    num_questions: int = 0  # The number of all questions.
    plot: str = ""  # A forest plot as a data: URI; "" for none.


def evaluation_page(found: Evaluation) -> Page:
    """Returns the page of an evaluation: scores, every facet and metric, and questions with their replies.

    Raises:
        FileNotFoundError: An image is missing.
        ValueError: An image cannot be decoded.
    """
    score, scores = found.score, found.scores
    wrong = wrong_text(score.score.unparsable, scores.overall.unanswered)
    return Page(
        title=f"{found.benchmark.title}: {found.name}",
        subtitle=f"version {found.benchmark.version}, split {found.split}",
        banners=found.label.banners(),
        verdict="",
        figure_name=spoken(score.metric),
        figure="no score yet" if score.score.value is None else plain(score.score.value),
        reach=_reach(score.score, asked=scores.asked),
        sentences=(
            f"{len(found.questions):,} questions{_patients(found)}, read by "
            f"{read_by(scores.parser, found.questions, found.benchmark)}.",
            *([wrong] if wrong else []),
            *_left_out(found),
            *found.remarks,
        ),
        result=(_score_table(found), *(_facet_table(found, facet) for facet in found.by if len(found.by[facet]) > 1)),
        notes=(f"95 % intervals: {method_for([row.question.patient_id for row in found.rows])}.", *found.label.notes()),
        metrics=(_metrics_table(found), *map(paper_table, scores.tables)),
        cards=_cards(found),
        num_questions=len(found.questions),
    )


def comparison_page(found: Comparison) -> Page:
    """Returns the page of a comparison: the gain with its interval and test, by task, and the forest plot."""
    table, compared = comparison_table(found.found), found.found
    first, second = compared.names
    return Page(
        title=f"{second} minus {first}",
        subtitle=f"{compared.benchmark}, read by {compared.parser!r}",
        banners=tuple(dict.fromkeys(banner for label in compared.labels for banner in label.banners())),
        verdict=compared.overall.verdict,
        figure_name=f"difference of {spoken(compared.metric)}",
        figure=signed(found.gain),
        reach=f"95 % interval {span(found.ci95, sign=True)}, {p_equals(found.p)}, {found.n:,} questions",
        sentences=(found.judgement,),
        result=(paper_table(table),),
        notes=(f"95 % intervals: {METHOD}.",),
        plot="data:image/svg+xml;base64," + base64.b64encode(found.plot.encode()).decode("ascii"),
    )


def _patients(found: Evaluation) -> str:
    unit = found.label.stands_for_patient
    number = len({question.patient_id for question in found.questions})
    if not unit:
        return ""
    return f" about {number:,} {several(unit, number)}" + ("" if unit == PATIENT else ", which stand for patients")


def _left_out(found: Evaluation) -> tuple[str, ...]:
    scores = found.scores
    said = list(filter(None, [scores.outside_text]))
    if scores.unscored:
        said.append(f"{scores.unscored} free answers wait for a judge and are in no score.")
    return tuple(said)


def _score_table(found: Evaluation) -> ReportTable:
    parts: dict[str, NamedScore | None] = {"all questions": found.score}
    if found.closed and found.open:
        parts |= {"closed questions": found.closed, "open questions": found.open}
    rows = [
        (word(name), word(spoken(part.metric)), number(part.value), interval(part.ci95), count(part.n))
        for name, part in parts.items()
        if part is not None
    ]
    if without := found.by.get(TRAIN_TWIN, {}).get("no"):
        name = word("no look-alike in train")
        rows.append((name, word(spoken(found.score.metric)), *_value_cells(without)))
    baselines = found.scores.overall.baselines
    rows += [
        (word(spoken(name), "muted"), word(spoken(found.score.metric)), number(value), interval(None), count(None))
        for name, value in baselines.items()
        if value is not None
    ]
    columns = ("score of", "metric", "value", "95 % interval", "number")
    return ReportTable("The score, and what answers that see no image would reach", columns, tuple(rows))


def _facet_table(found: Evaluation, facet: str) -> ReportTable:
    rows = tuple((word(spoken(level)), *_value_cells(score)) for level, score in found.by[facet].items())
    caption = f"{spoken(found.benchmark.level_metric).capitalize()} by {spoken(facet)}"
    return ReportTable(caption, (spoken(facet), "value", "95 % interval", "number"), rows)


def _metrics_table(found: Evaluation) -> ReportTable:
    rows = tuple(
        (word(spoken(name)), word(spoken(condition)), word(spoken(parser)), *_value_cells(score))
        for condition, parsers in found.scores.metrics.items()
        for parser, scores in parsers.items()
        for name, score in scores.items()
    )
    columns = ("metric", "what the model saw", "answers read by", "value", "95 % interval", "number")
    return ReportTable("Every metric of every reading", columns, rows)


def _value_cells(score: Measured) -> tuple[Cell, Cell, Cell]:
    return (number(score.value), interval(score.ci95), count(score.n))


def _reach(score: Measured, *, asked: int) -> str:
    counted = f"{counted_text(score.n, asked)} questions"
    return f"95 % interval {span(score.ci95)}, {counted}" if score.ci95 else counted


def _cards(found: Evaluation) -> tuple[Card, ...]:
    rows = {row.question.id: row for row in found.rows}
    answered = [
        AnsweredQuestion(question, found.media(question), {LAST: answer_to(question, row.parsed, row.unscored)})
        for question in found.questions
        if (row := rows.get(question.id)) is not None
    ]
    shown, left = dict[str, Picture](), MAX_IMAGE_BYTES
    cards = []
    for one in chosen(answered, at_most=MAX_ITEMS):
        known = shown.get(one.question.media_id) or (picture(one.media) if one.media else NO_PICTURE)
        shown[one.question.media_id] = known
        if len(known.uri or "") > left:
            known = Picture(None, known.width, known.height, known.alt)
        left -= len(known.uri or "")
        cards.append(_card(one, found.replies, known))
    return tuple(cards)


def _card(one: AnsweredQuestion, replies: Mapping[str, str], shown: Picture) -> Card:
    outcome = one.last.outcome
    return Card(
        question=one.question,
        text=asked_text(one.question),
        task=spoken(one.question.facets.get("task", "")) or "Question",
        outcome="wrong" if outcome == "unreadable" else outcome,
        reply=replies.get(one.question.id, one.last.said or ""),
        note={"unreadable": "could not be read", "unscored": "waits for a judge"}.get(outcome, ""),
        picture=shown,
    )
