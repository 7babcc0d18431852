"""ReXSonoVQA's tables: the official report, the paper's models beside ours, and blind against video.

Compares the answers to each question without the video ("blind") and with it.

The official code prints no such comparison; the tables have the shape of the paper's Appendix C. The paper pairs the
video runs of all its models with a single blind run, that of Gemini 3 Pro.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from medtune.benchmarks import published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.official_letter import LETTERS
from medtune.benchmarks.rexsonovqa.official_report import report, report_tables
from medtune.benchmarks.rexsonovqa.published_tables import (
    FIGURES,
    FREE_OUTCOMES,
    MCQ_OUTCOMES,
    SETTINGS,
    Cells,
    Format,
    crossed,
    part_name,
    published_tables,
)
from medtune.benchmarks.rexsonovqa.rubric import (
    TYPES,
    ScoredItem,
    constant_letter,
    is_rubric,
    recode_zero_with_single_error,
    scored_items,
    tally,
)
from medtune.data.types import Question
from medtune.eval.evidence import Evidence
from medtune.eval.metric import ParsedReply
from medtune.eval.published import PublishedNumber
from medtune.eval.scoring.tables import Cell, Table, beside_published, rank
from medtune.eval.studies.one_run import answers_of, value_of
from medtune.eval.studies.published import PublishedTable

OURS = "ours"
_GEMINI = "Gemini 3 Pro"
_UNSCORED = "{} free responses wait for a judge (medtune judge) and are in none of these tables."
_NO_BLIND_RUN = "Blind columns are of the condition text_only, where it was asked; the paper has one blind run for all."

_FIGURES = {"figure6": "Figure 6: by type", "figure7": "Figure 7: by clip duration"}
_SCORED: dict[Format, str] = {"mcq": "multiple choice, % right", "free": "free response, 0 to 2"}
_GEMINI_GROUPS = {
    "multiple choice, all": "mcq_video_overall",
    "multiple choice, type 1": "mcq_video_type1",
    "multiple choice, type 2": "mcq_video_type2",
    "multiple choice, 0-5 s": "mcq_video_0_5s",
    "multiple choice, over 20 s": "mcq_video_gt20s",
    "free response, all": "fr_video_overall",
    "free response, type 2": "fr_video_type2",
    "free response, type 3": "fr_video_type3",
    "free response, 0-5 s": "fr_video_0_5s",
    "free response, over 20 s": "fr_video_gt20s",
}
"""For each group of section 5 with the video, the column of the published tables."""
_CROSSED: dict[Format, tuple[str, tuple[str, ...]]] = {
    "mcq": ("Multiple choice", MCQ_OUTCOMES),
    "free": ("Free response", FREE_OUTCOMES),
}


def tables(evidence: Evidence) -> list[Table]:
    """Returns the tables of one evaluation; tables about settings that were not evaluated are left out."""
    video = evidence.rows("image")
    found = report(scored_items(video))
    overall, *groups = report_tables(found)
    if waiting := sum(row.unscored for row in video):
        overall = replace(overall, notes=(*overall.notes, _UNSCORED.format(waiting)))
    made = [overall, *groups, _readings(evidence), _constant_letters(video)]
    made += [*_beside_the_paper(evidence), _gemini_by_group(evidence)]
    made += [_composition(evidence.questions), *_figures(evidence)]
    return [table for table in (*made, *_crossings(evidence)) if table.rows]


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


def _figures(evidence: Evidence) -> Iterator[Table]:
    """Yields the scores with the video and blind, and the gain, of the groups of Figures 6 and 7."""
    known, passes = {table.name: table for table in published_tables()}, answers_of(evidence)
    for name, title in _FIGURES.items():
        facet, levels = FIGURES[name]
        rows: list[tuple[Cell, ...]] = []
        for format_, scored in _SCORED.items():
            table = known[f"{name}_{format_}"]
            for level in levels:
                parts = [table.column(part_name(level, setting, format_)) for setting in SETTINGS]
                found = [value_of(part, passes) for part in parts]
                if (video := found[0]) is not None:
                    rows.append((scored, level, video.n, *(each.value if each else None for each in found)))
        columns = ("format", facet, "n", "with video", "blind", "gain")
        notes = ("Blind: the condition text_only, where it was asked. The gain is over questions with both answers.",)
        yield Table(f"{title}, with the video and blind", columns, tuple(rows), notes, digits=2)


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


def _beside_the_paper(evidence: Evidence) -> Sequence[Table]:
    numbers = published("rexsonovqa")
    rows: list[tuple[Cell, ...]] = []
    for model, cells in numbers["mcq"].items():
        right, _, n = cells[-1]
        free = numbers["free"][model]
        blind_free = _free_mean([row[-1] for row in free])
        rows.append((model, right / n, _free_mean(free[-1]), _blind_accuracy(cells), blind_free, *_changed(cells)))
    ours = _own_row(evidence)
    placed = [_rank(ours, rows, column) for column in (1, 2)]
    notes = [f"Rank of ours among {len(rows) + 1}: accuracy {placed[0] or '-'}, free mean {placed[1] or '-'}."]
    columns = ("model", "accuracy", "free mean", "blind accuracy", "blind free mean", "recovery", "loss")
    title = "The paper's models (Tables A1 to A8) and ours"
    notes = [_NO_BLIND_RUN] if evidence.unlike_published else [*notes, _NO_BLIND_RUN]
    return beside_published(
        Table(title, columns, tuple(rows), tuple(notes), digits=3), [ours], unlike_published=evidence.unlike_published
    )


def _rank(ours: Sequence[Cell], rows: Sequence[Sequence[Cell]], column: int) -> int | None:
    value = ours[column]
    return rank(value, [cast("float", row[column]) for row in rows]) if isinstance(value, float) else None


def _own_row(evidence: Evidence) -> tuple[Cell, ...]:
    items = scored_items(evidence.rows("image"))
    mcq, free = [item for item in items if item.is_mcq], [item for item in items if not item.is_mcq]
    cells = crossed(_crossing_table("mcq"), evidence)
    pairs = _free_pairs(evidence)
    return (
        OURS,
        tally(mcq).mean if mcq else None,
        tally(free).mean if free else None,
        _blind_accuracy(cells) if cells else None,
        tally([blind for blind, _ in pairs]).mean if pairs else None,
        *(_changed(cells) if cells else (None, None)),
    )


def _crossing_table(name: Format) -> PublishedTable:
    return next(table for table in published_tables() if table.name == name)


def _blind_accuracy(cells: Sequence[Sequence[int]]) -> float:
    """Returns the share of questions with options that were right blind."""
    return cells[0][-1] / cells[-1][-1]


def _changed(cells: Sequence[Sequence[int]]) -> tuple[float | None, float | None]:
    """Returns the recovery and the loss: of questions wrong blind those right with the video, and the other way.

    A share of no questions is None.

    >>> _changed(((1, 0, 1), (1, 1, 2), (2, 1, 3)))
    (0.5, 0.0)
    """
    (_, lost, blind_right), (recovered, _, blind_wrong), _ = cells
    return recovered / blind_wrong if blind_wrong else None, lost / blind_right if blind_right else None


def _free_mean(counts: Sequence[int]) -> float:
    full, conclusion, evidence, _, n = counts
    return (2 * full + conclusion + evidence) / n


def _gemini_by_group(evidence: Evidence) -> Table:
    columns = {column.name: column for table in published_tables() for column in table.columns}
    text, passes = published("rexsonovqa")["text"], answers_of(evidence)
    rows = []
    for name, key in _GEMINI_GROUPS.items():
        found = value_of(columns[key], passes)
        rows.append((name, float(text[key]), found.value if found else None, found.n if found else 0))
    title = f"{_GEMINI} as section 5 prints it, and ours (percent right; mean of 0 to 2)"
    note = "The paper's free-response numbers here are recoded; see the benchmark's README."
    return Table(title, ("group", _GEMINI, OURS, "n"), tuple(rows), (note,), digits=2)


def _crossings(evidence: Evidence) -> Iterator[Table]:
    for format_, (title, outcomes) in _CROSSED.items():
        cells = crossed(_crossing_table(format_), evidence)
        if cells is not None:
            columns = ("blind", *(f"video {name}" for name in outcomes), "total")
            notes = () if format_ == "mcq" else (_better_or_worse(_free_pairs(evidence)),)
            yield Table(f"{title}, blind against video", columns, crossing_rows(cells, outcomes), notes)


def _better_or_worse(pairs: Sequence[tuple[ScoredItem, ScoredItem]]) -> str:
    gains = [video.score - blind.score for blind, video in pairs]
    better, same, worse = (sum(is_so) for is_so in zip(*((g > 0, g == 0, g < 0) for g in gains), strict=True))
    return f"With video {better} better, {same} the same, {worse} worse."


def _free_pairs(evidence: Evidence) -> list[tuple[ScoredItem, ScoredItem]]:
    """Returns the scores of the free responses that have one both blind and with the video."""
    video = {row.question.id: row for row in evidence.rows("image") if not row.unscored}
    blind = [row for row in evidence.rows("text_only") if row.prediction is not None and is_rubric(row.question)]
    both = [row for row in blind if not row.unscored and row.question.id in video]
    seen = [video[row.question.id] for row in both]
    return list(zip(scored_items(both), scored_items(seen), strict=True))
