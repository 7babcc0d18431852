"""ReXSonoVQA's tables: the official report, the paper's models beside ours, and blind against video.

Compares the answers to each question without the video ("blind") and with it.

The official code prints no such comparison; the tables have the shape of the paper's Appendix C. The paper pairs the
video runs of all its models with a single blind run, that of Gemini 3 Pro.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from medtune.benchmarks import published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.official_report import LETTERS, OfficialFigures, report, report_tables
from medtune.benchmarks.rexsonovqa.rubric import (
    FULL_POINTS,
    TYPES,
    WRONG_CONCLUSION,
    WRONG_EVIDENCE,
    constant_letter,
    is_rubric,
    recode_zero_with_single_error,
    scored_items,
    tally,
)
from medtune.data.types import Question
from medtune.eval.benchmark import Evidence, PublishedNumber
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.tables import Cell, Table, beside_published, rank

MCQ_OUTCOMES = ("correct", "incorrect")
FREE_OUTCOMES = ("2", "1_wrong_conclusion", "1_wrong_visual", "0")

_SINGLE = {WRONG_CONCLUSION: 1, WRONG_EVIDENCE: 2}

Cells = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class FreeOutcome:
    """The points of a free response, 0 to 2, and the type of error that the judge found; None if it named none."""

    score: float
    error_type: str | None


@dataclass(frozen=True, slots=True)
class McqCrossing:
    """The outcomes of the same multiple-choice questions without the video (blind) and with it."""

    # The number of questions by outcome. Rows are for blind answers, columns for answers with video, in the order
    # right, wrong, total.
    cells: Cells
    # The share of the questions answered wrong blind that were right with video; None if there are none.
    recovery: float | None
    # The share of the questions answered right blind that were wrong with video; None if there are none.
    loss: float | None
    blind_accuracy: float  # The share of right answers without the video, 0 to 1.
    video_accuracy: float  # The share of right answers with the video, 0 to 1.


@dataclass(frozen=True, slots=True)
class FreeCrossing:
    """The outcomes of the same free-response questions without the video (blind) and with it."""

    # The number of questions by outcome. Rows are for blind answers, columns for answers with video, in the order 2
    # points, 1 point (wrong conclusion), 1 point (wrong visual evidence), 0 points, total.
    cells: Cells
    blind_mean: float  # The mean points without the video.
    video_mean: float  # The mean points with the video.
    improved: int  # The number of questions that have more points with the video than blind.
    same: int  # The number of questions that have equal points in both; the type of error does not matter.
    worse: int  # The number of questions that have fewer points with the video than blind.


def cross_mcq(blind: Sequence[bool], video: Sequence[bool]) -> McqCrossing:
    """Returns the 2 x 2 table of the same questions in two settings; without questions it is all zeros.

    >>> found = cross_mcq([True, False, False], [True, True, False])
    >>> found.cells, found.recovery
    (((1, 0, 1), (1, 1, 2), (2, 1, 3)), 0.5)

    Source: ReXSonoVQA (arXiv 2604.10916), Appendix C, Tables A1, A3, A5, A7.
    """
    cells = _with_totals([int(not right) for right in blind], [int(not right) for right in video], 2)
    (_, lost, blind_right), (recovered, _, blind_wrong), (video_right, _, n) = cells
    return McqCrossing(
        cells=cells,
        recovery=recovered / blind_wrong if blind_wrong else None,
        loss=lost / blind_right if blind_right else None,
        blind_accuracy=blind_right / n if n else 0.0,
        video_accuracy=video_right / n if n else 0.0,
    )


def cross_free(blind: Sequence[FreeOutcome], video: Sequence[FreeOutcome]) -> FreeCrossing:
    """Returns the 4 x 4 table of the same questions in two settings; without questions it is all zeros.

    Source: ReXSonoVQA (arXiv 2604.10916), Appendix C, Tables A2, A4, A6, A8.
    """
    cells = _with_totals([free_outcome(each) for each in blind], [free_outcome(each) for each in video], 4)
    gains = [after.score - before.score for before, after in zip(blind, video, strict=True)]
    n = max(len(gains), 1)
    return FreeCrossing(
        cells=cells,
        blind_mean=sum(each.score for each in blind) / n,
        video_mean=sum(each.score for each in video) / n,
        improved=sum(gain > 0 for gain in gains),
        same=sum(gain == 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
    )


def free_outcome(each: FreeOutcome) -> int:
    """Returns the position of an outcome in `FREE_OUTCOMES`.

    An outcome that is neither 2 points nor 1 point with a single error counts as 0 points, both wrong.
    """
    if each.score == FULL_POINTS:
        return 0
    return _SINGLE.get(each.error_type or "", 3) if each.score == 1 else 3


def _with_totals(rows: Sequence[int], columns: Sequence[int], size: int) -> Cells:
    cells = [[0] * (size + 1) for _ in range(size + 1)]
    for row, column in zip(rows, columns, strict=True):
        for down in (row, size):
            for across in (column, size):
                cells[down][across] += 1
    return tuple(tuple(row) for row in cells)


OURS = "ours"
_GEMINI = "Gemini 3 Pro"
_UNSCORED = "{} free responses wait for a judge (medtune judge) and are in none of these tables."
_NO_BLIND_RUN = "Blind columns are of the condition text_only, where it was asked; the paper has one blind run for all."


def tables(evidence: Evidence) -> list[Table]:
    """Returns the tables of one evaluation; tables about settings that were not evaluated are left out."""
    video, blind = evidence.rows("image"), _answered(evidence.rows("text_only"))
    found = report(scored_items(video))
    overall, *groups = report_tables(found)
    if waiting := sum(row.unscored for row in video):
        overall = replace(overall, notes=(*overall.notes, _UNSCORED.format(waiting)))
    made = [overall, *groups, _readings(evidence), _constant_letters(video)]
    made += [*_beside_the_paper(video, blind, evidence.unlike_published), _gemini_by_group(found)]
    made += [
        _composition(evidence.questions),
        *(_figure(title, facet, levels, video, blind) for title, facet, levels in _FIGURES),
    ]
    return [table for table in (*made, *_crossings(video, blind)) if table.rows]


_FIGURES = (("Figure 6: by type", "task", TYPES), ("Figure 7: by clip duration", "duration", DURATION_BINS))


def _composition(questions: Sequence[Question]) -> Table:
    """Returns the number of questions by type, format and duration; the release names no clinical category."""
    kinds = [("task", TYPES), ("duration", DURATION_BINS)]
    rows: list[tuple[Cell, ...]] = []
    for facet, levels in kinds:
        for level in levels:
            free = [is_rubric(question) for question in questions if question.facets.get(facet) == level]
            if free:
                rows.append((level, len(free) - sum(free), sum(free), len(free)))
    columns = ("type or duration", "multiple choice", "free response", "total")
    return Table("Figure 5: the questions by type and clip duration", columns, tuple(rows))


def _figure(
    title: str, facet: str, levels: Sequence[str], video: Sequence[ParsedReply], blind: Sequence[ParsedReply]
) -> Table:
    """Returns the scores with the video and blind, and the gain, of the groups of a figure, over answers to both."""
    pairs = _paired(video, blind) if blind else None
    rows: list[tuple[Cell, ...]] = []
    for place, (format_, scale) in enumerate((("multiple choice, % right", 100.0), ("free response, 0 to 2", 1.0))):
        seen = [row for row in video if is_rubric(row.question) == bool(place) and not row.unscored]
        for level in levels:
            chosen = [row for row in seen if row.question.facets.get(facet) == level]
            both = (
                []
                if pairs is None
                else [[row for row in side if row.question.facets.get(facet) == level] for side in pairs[place]]
            )
            without, with_ = (_mean_points(side, scale) for side in both) if both else (None, None)
            gain = None if without is None or with_ is None else with_ - without
            if chosen:
                rows.append((format_, level, len(chosen), _mean_points(chosen, scale), without, gain))
    columns = ("format", facet, "n", "with video", "blind", "gain")
    notes = ("Blind: the condition text_only, where it was asked. The gain is over questions with both answers.",)
    return Table(f"{title}, with the video and blind", columns, tuple(rows), notes, digits=2)


def _mean_points(rows: Sequence[ParsedReply], scale: float) -> float | None:
    return scale * tally(scored_items(rows)).mean if rows else None


def crossing_rows(cells: Cells, outcomes: Sequence[str]) -> tuple[tuple[Cell, ...], ...]:
    """Returns the rows of a table that compares two settings; each begins with the blind outcome, totals come last."""
    return tuple((name, *row) for name, row in zip((*outcomes, "total"), cells, strict=True))


def _readings(evidence: Evidence) -> Table:
    rows = []
    for name, parsed in evidence.parsed["image"].items():
        items = scored_items(parsed)
        mcq, free = [item for item in items if item.is_mcq], [item for item in items if not item.is_mcq]
        unread = [row for row in parsed if row.prediction is not None and row.parsed is None]
        rows.append(
            (
                name,
                tally(mcq).mean if mcq else None,
                sum(not is_rubric(row.question) for row in unread),
                tally(free).mean if free else None,
                tally(recode_zero_with_single_error(free)).mean if free else None,
                sum(row.unscored for row in parsed),
            )
        )
    columns = ("parser", "accuracy", "unread letters", "free mean", "free mean recoded", "unscored")
    note = "Recoded: 1 point for 0 with a single error, as the paper's numbers of Gemini 3 Pro alone."
    return Table("How answers are read", columns, tuple(rows), (note,), digits=4)


def references() -> Sequence[PublishedNumber]:
    """Returns the paper's accuracies of multiple choice with video, computed from the published counts."""
    found = []
    for model, (_, _, (right, _, n)) in published("rexsonovqa")["mcq"].items():
        found.append(PublishedNumber(model, right / n))
    return found


def missing(questions: Sequence[Question]) -> str:
    """Returns how many of the published questions of a format these are; "" if they are all of each format asked."""
    free = sum(map(is_rubric, questions))
    text = published("rexsonovqa")["text"]
    for number, all_of_them, name in (
        (len(questions) - free, text["mcq"], "multiple-choice questions"),
        (free, text["free_response"], "free responses"),
    ):
        if 0 < number < all_of_them:
            return f"{number} of its {all_of_them} {name}"
    return ""


def _constant_letters(video: Sequence[ParsedReply]) -> Table:
    keys = [_key(row) for row in video if row.question.options]
    rows = tuple((letter, each.n, each.mean) for letter, each in constant_letter(keys).items())
    return Table("Always the same letter", ("letter", "n", "accuracy"), rows, digits=4)


def _key(row: ParsedReply) -> str:
    shown = (row.prediction and row.prediction.options_shown) or row.question.options
    place = shown.index(row.question.answer)
    return LETTERS[place] if place < len(LETTERS) else "later"


def _beside_the_paper(
    video: Sequence[ParsedReply], blind: Sequence[ParsedReply], unlike_published: str
) -> Sequence[Table]:
    numbers = published("rexsonovqa")
    rows: list[tuple[Cell, ...]] = []
    for model, cells in numbers["mcq"].items():
        (_, lost, blind_right), (recovered, _, blind_wrong), (right, _, n) = cells
        rows.append(
            (
                model,
                right / n,
                _free_mean(numbers["free"][model][-1]),
                blind_right / n,
                _free_mean([row[-1] for row in numbers["free"][model]]),
                recovered / blind_wrong,
                lost / blind_right,
            )
        )
    ours = _own_row(video, blind)
    placed = [_rank(ours, rows, column) for column in (1, 2)]
    notes = [f"Rank of ours among {len(rows) + 1}: accuracy {placed[0] or '-'}, free mean {placed[1] or '-'}."]
    columns = ("model", "accuracy", "free mean", "blind accuracy", "blind free mean", "recovery", "loss")
    title = "The paper's models (Tables A1 to A8) and ours"
    notes = [_NO_BLIND_RUN] if unlike_published else [*notes, _NO_BLIND_RUN]
    return beside_published(
        Table(title, columns, tuple(rows), tuple(notes), digits=3), [ours], unlike_published=unlike_published
    )


def _rank(ours: Sequence[Cell], rows: Sequence[Sequence[Cell]], column: int) -> int | None:
    value = ours[column]
    return rank(value, [cast("float", row[column]) for row in rows]) if isinstance(value, float) else None


def _own_row(video: Sequence[ParsedReply], blind: Sequence[ParsedReply]) -> tuple[Cell, ...]:
    (mcq_blind, mcq_video), (free_blind, free_video) = _paired(video, blind)
    items = scored_items(video)
    mcq, free = [item for item in items if item.is_mcq], [item for item in items if not item.is_mcq]
    cells: list[Cell] = [OURS, tally(mcq).mean if mcq else None, tally(free).mean if free else None]
    crossed = cross_mcq([row.correct for row in mcq_blind], [row.correct for row in mcq_video]) if mcq_blind else None
    cells.append(crossed.blind_accuracy if crossed else None)
    cells.append(cross_free(_outcomes(free_blind), _outcomes(free_video)).blind_mean if free_blind else None)
    return (*cells, crossed.recovery if crossed else None, crossed.loss if crossed else None)


def _free_mean(counts: Sequence[int]) -> float:
    full, conclusion, evidence, _, n = counts
    return (2 * full + conclusion + evidence) / n


_GEMINI_GROUPS: tuple[tuple[str, str, Callable[[OfficialFigures], tuple[float, int]]], ...] = (
    ("multiple choice, all", "mcq_video_overall", lambda found: (100 * found.mcq.mean, found.mcq.n)),
    ("multiple choice, type 1", "mcq_video_type1", lambda found: _share(found, TYPES[0])),
    ("multiple choice, type 2", "mcq_video_type2", lambda found: _share(found, TYPES[1])),
    ("multiple choice, 0-5 s", "mcq_video_0_5s", lambda found: _share(found, DURATION_BINS[0])),
    ("multiple choice, over 20 s", "mcq_video_gt20s", lambda found: _share(found, DURATION_BINS[-1])),
    ("free response, all", "fr_video_overall", lambda found: (found.free.mean, found.free.n)),
    ("free response, type 2", "fr_video_type2", lambda found: _mean(found, TYPES[1])),
    ("free response, type 3", "fr_video_type3", lambda found: _mean(found, TYPES[2])),
    ("free response, 0-5 s", "fr_video_0_5s", lambda found: _mean(found, DURATION_BINS[0])),
    ("free response, over 20 s", "fr_video_gt20s", lambda found: _mean(found, DURATION_BINS[-1])),
)


def _share(found: OfficialFigures, group: str) -> tuple[float, int]:
    each = {**found.mcq_by_type, **found.mcq_by_duration}.get(group)
    return (100 * each.mean, each.n) if each else (0.0, 0)


def _mean(found: OfficialFigures, group: str) -> tuple[float, int]:
    each = {**found.free_by_type, **found.free_by_duration}.get(group)
    return (each.mean, each.n) if each else (0.0, 0)


def _gemini_by_group(found: OfficialFigures) -> Table:
    text = published("rexsonovqa")["text"]
    rows = []
    for name, key, read in _GEMINI_GROUPS:
        value, n = read(found)
        rows.append((name, float(text[key]), value if n else None, n))
    title = f"{_GEMINI} as section 5 prints it, and ours (percent right; mean of 0 to 2)"
    note = "The paper's free-response numbers here are recoded; see the benchmark's README."
    return Table(title, ("group", _GEMINI, OURS, "n"), tuple(rows), (note,), digits=2)


def _crossings(video: Sequence[ParsedReply], blind: Sequence[ParsedReply]) -> list[Table]:
    (mcq_blind, mcq_video), (free_blind, free_video) = _paired(video, blind)
    found = []
    if mcq_blind:
        mcq = cross_mcq([row.correct for row in mcq_blind], [row.correct for row in mcq_video])
        columns = ("blind", *(f"video {name}" for name in MCQ_OUTCOMES), "total")
        found.append(Table("Multiple choice, blind against video", columns, crossing_rows(mcq.cells, MCQ_OUTCOMES)))
    if free_blind:
        free = cross_free(_outcomes(free_blind), _outcomes(free_video))
        columns = ("blind", *(f"video {name}" for name in FREE_OUTCOMES), "total")
        note = f"With video {free.improved} better, {free.same} the same, {free.worse} worse."
        rows = crossing_rows(free.cells, FREE_OUTCOMES)
        found.append(Table("Free response, blind against video", columns, rows, (note,)))
    return found


Pairing = tuple[Sequence[ParsedReply], Sequence[ParsedReply]]


def _paired(video: Sequence[ParsedReply], blind: Sequence[ParsedReply]) -> tuple[Pairing, Pairing]:
    with_video = {row.question.id: row for row in video}
    blind = [row for row in blind if not (row.unscored or with_video[row.question.id].unscored)]
    mcq = [row for row in blind if not is_rubric(row.question)]
    free = [row for row in blind if is_rubric(row.question)]
    return (mcq, [with_video[row.question.id] for row in mcq]), (free, [with_video[row.question.id] for row in free])


def _answered(rows: Sequence[ParsedReply]) -> list[ParsedReply]:
    return [row for row in rows if row.prediction is not None]


def _outcomes(rows: Sequence[ParsedReply]) -> list[FreeOutcome]:
    return [FreeOutcome(item.score, item.error_type) for item in scored_items(rows)]
