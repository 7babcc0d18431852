"""ReXSonoVQA's tables: the official report, the paper's models beside ours, and blind against video."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from medtune.benchmarks import published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.blind_against_video import (
    FREE_OUTCOMES,
    MCQ_OUTCOMES,
    Cells,
    FreeOutcome,
    cross_free,
    cross_mcq,
)
from medtune.benchmarks.rexsonovqa.letter_parsers import LETTERS
from medtune.benchmarks.rexsonovqa.official_report import Report, report, report_tables
from medtune.benchmarks.rexsonovqa.rubric import is_rubric, scored_items
from medtune.benchmarks.rexsonovqa.scored_items import TYPES, constant_letter, recode_zero_with_single_error, tally
from medtune.data.types import Question
from medtune.eval.benchmark import Evidence
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.published_numbers import Reference
from medtune.eval.scoring.tables import Cell, Table, beside_published, rank

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
    return [table for table in (*made, *_crossings(video, blind)) if table.rows]


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


def references() -> Sequence[Reference]:
    """Returns the paper's accuracies of multiple choice with video, computed from the published counts."""
    found = []
    for model, (_, _, (right, _, n)) in published("rexsonovqa")["mcq"].items():
        found.append(Reference(model, right / n))
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


_GEMINI_GROUPS: tuple[tuple[str, str, Callable[[Report], tuple[float, int]]], ...] = (
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


def _share(found: Report, group: str) -> tuple[float, int]:
    each = {**found.mcq_by_type, **found.mcq_by_duration}.get(group)
    return (100 * each.mean, each.n) if each else (0.0, 0)


def _mean(found: Report, group: str) -> tuple[float, int]:
    each = {**found.free_by_type, **found.free_by_duration}.get(group)
    return (each.mean, each.n) if each else (0.0, 0)


def _gemini_by_group(found: Report) -> Table:
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
