"""Says which questions a number of results.json counts, which it does not and why, and how they are joined."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from medtune.data.catalog import nearest
from medtune.eval.benchmark import Benchmark, Evidence
from medtune.eval.metric import Metric, ParsedReply, passes_text, scored_everywhere
from medtune.eval.results.phase_schema import Measured
from medtune.eval.results.schema import ResultsFile
from medtune.eval.scoring.counted import NOT_ABOUT, CountedRows, counted, reads_replies_alone
from medtune.eval.scoring.score import folds_of, parts
from medtune.eval.statistics.column_sums import Recomputed

PHASES, GAIN = "phases", "gain"
OTHER_LEVEL = "it is of another level"
NOT_ASKED = "it was not asked, or not read, in this way"
WITHIN = 1e-9
"""The largest difference between a number and the same number computed again."""
Held = TypeVar("Held")


@dataclass(frozen=True, slots=True)
class Number:
    """A number of results.json."""

    path: str  # Its keys there, joined by dots.
    phase: str  # The evaluation; "" for the gain.
    value: float | None
    n: int
    ci95: tuple[float, float] | None
    condition: str = "image"
    parser: str = ""
    metric: str = ""  # Name of the metric; "" is the primary one.
    facet: str = ""
    level: str = ""
    is_outside: bool = False


def numbers_of(results: ResultsFile) -> dict[str, Number]:
    """Returns every number that can be explained, by its path in results.json."""
    return {number.path: number for number in _numbers(results)}


def find_number(path: str, results: ResultsFile) -> Number:
    """Returns the number at a path; an ending ".value" may be left out."""
    known = numbers_of(results)
    named = path.removesuffix(".value")
    if named not in known:
        raise ValueError(
            f"results.json has no number {path!r} that could be explained.{nearest(named, known)} "
            "`medtune explain RUN --numbers` lists all"
        )
    return known[named]


def _numbers(results: ResultsFile) -> Iterator[Number]:
    for name, phase in results.phases.items():
        top = f"{PHASES}.{name}"

        def at(path: str, score: Measured, name: str = name, parser: str = phase.parser) -> Number:
            return Number(path, name, score.value, score.n, score.ci95, parser=parser)

        yield at(f"{top}.overall", phase.overall)
        for facet, level, score in _levels(phase.by):
            yield replace(at(f"{top}.by.{facet}.{level}", score), facet=facet, level=level)
        for metric, outside in phase.outside.items():
            yield replace(at(f"{top}.outside.{metric}", outside), metric=metric, is_outside=True)
        for found in phase.every_metric():
            path = f"{top}.metrics.{found.condition}.{found.parser}.{found.metric}"
            number = at(path, found.score, parser=found.parser)
            yield replace(number, condition=found.condition, metric=found.metric)
    if results.gain is not None:
        gain = results.gain
        yield Number(GAIN, "", gain.value, gain.n, gain.ci95)
        for facet, level, each in _levels(gain.by):
            number = Number(f"{GAIN}.by.{facet}.{level}", "", each.value, each.n, each.ci95)
            yield replace(number, facet=facet, level=level)


def _levels(by: Mapping[str, Mapping[str, Held]]) -> Iterator[tuple[str, str, Held]]:
    return ((facet, level, each) for facet, found in by.items() for level, each in found.items())


@dataclass(frozen=True, slots=True)
class Explained:
    """What a number counts.

    Attributes:
        rows: The rows that count; of the gain those after training.
        before: Of the gain, the same questions before training; else ().
        left_out: The reasons in words -> the ids of the questions that do not count for this reason.
        again: The number, computed from the answers on disk; None where none count.
    """

    rows: Sequence[ParsedReply]
    before: Sequence[ParsedReply]
    left_out: Mapping[str, Sequence[str]]
    again: float | None
    metric: Metric


def explained(number: Number, phases: Mapping[str, Evidence], benchmark: Benchmark) -> Explained:
    """Returns what a number counts.

    Args:
        phases: The answers of each phase, whose `parser` is the primary one.
    """
    if number.phase:
        return _of_phase(number, phases[number.phase], benchmark)
    metric = benchmark.primary_metric
    first, second = (_of_phase(number, phases[name], benchmark) for name in ("zero_shot", "final"))
    about = [[*each.rows] for each in (first, second)]
    both = {row.question.id for row in about[0]} & {row.question.id for row in about[1]}
    before, after = scored_everywhere([[row for row in rows if row.question.id in both] for rows in about])
    left_out = {why: list(ids) for why, ids in first.left_out.items()}
    for why, ids in second.left_out.items():
        left_out[why] = list(dict.fromkeys((*left_out.get(why, ()), *ids)))
    again = metric.value(after) - metric.value(before) if after else None
    return Explained(after, before, left_out, again, metric)


def _of_phase(number: Number, evidence: Evidence, benchmark: Benchmark) -> Explained:
    parser = number.parser or evidence.parser
    rows = _rows(evidence, number.condition, parser)
    if number.is_outside:
        found = dict(parts(rows, benchmark)).get(number.metric, CountedRows((), ()))
        metric = benchmark.metrics[number.metric]
    else:
        name = number.metric or benchmark.primary
        if name not in benchmark.metrics:
            raise ValueError(
                f"{number.path}: {name} is no metric of the benchmark itself (BERTScore is made by a model of text), "
                "and is not explained"
            )
        metric = benchmark.metrics[name]
        of_replies = reads_replies_alone(parser, evidence.questions, evidence.predictions, benchmark.parsers)
        found = counted(rows, metric, replies_alone=parser != evidence.parser and of_replies)
    left_out = {why: [row.question.id for row in found.left_out(why)] for why in dict.fromkeys(found.why) if why}
    is_here = [not number.facet or row.question.facets.get(number.facet) == number.level for row in found.rows]
    kept = [row for row, here in zip(found.rows, is_here, strict=True) if here]
    others = [row.question.id for row, here in zip(found.rows, is_here, strict=True) if not here]
    known = {row.question.id for row in found.of}
    if number.is_outside:
        left_out[NOT_ABOUT] = [row.question.id for row in rows if row.question.id not in known] + left_out.get(
            NOT_ABOUT, []
        )
        known |= {row.question.id for row in rows}
    left_out |= {OTHER_LEVEL: others, NOT_ASKED: [each.id for each in evidence.questions if each.id not in known]}
    named = {why: ids for why, ids in left_out.items() if ids}
    return Explained(kept, (), named, metric.value(kept) if kept else None, metric)


def _rows(evidence: Evidence, condition: str, parser: str) -> Sequence[ParsedReply]:
    found = [rows[parser] for name, rows in evidence.parsed.items() if name == condition and parser in rows]
    return found[0] if found else ()


def number_lines(number: Number, found: Explained, results: ResultsFile, *, most: int | None) -> Iterator[str]:
    """Yields the explanation as lines of text.

    Args:
        most: Number of ids to name of each kind; None names all.
    """
    rows = found.rows
    reach = "" if number.ci95 is None else f" ({number.ci95[0]:.3f} to {number.ci95[1]:.3f})"
    value = "no value" if number.value is None else f"{number.value:.6g}{reach}"
    name = number.metric or results.primary.name
    how = f"{name} of what {number.parser!r} read under {number.condition!r}" if number.phase else f"change of {name}"
    yield f"{number.path}: {value}, the {how}"
    asked = len(rows) + sum(map(len, found.left_out.values()))
    yield f"counts     {len(rows):,} of {asked:,} questions{_named([row.question.id for row in rows], most)}"
    if rows:
        yield f"           {_outcomes(rows)}"
    for why, ids in found.left_out.items():
        yield f"leaves out {len(ids):,}: {why}{_named(ids, most)}"
    yield f"joined     {_joined(number, found)}"
    if rows:
        yield f"interval   {results.interval_method or 'its method is not recorded'}"
    if found.again is None or number.value is None:
        yield "again      nothing counts, so that there is no value"
    elif abs(found.again - number.value) <= WITHIN * max(1.0, abs(number.value)):
        yield f"again      {found.again:.6g}, computed from the answers in the folder"
    else:
        yield (
            f"again      {found.again:.6g}, which is another number: the answers, the verdicts, the data or medtune's "
            "version are not those with which results.json was written"
        )


def _named(ids: Sequence[str], most: int | None) -> str:
    shown = ids if most is None else ids[:most]
    return f": {', '.join(shown)}" + (", ..." if len(shown) < len(ids) else "") if shown else ""


def _outcomes(rows: Sequence[ParsedReply]) -> str:
    replies = [reply for row in rows for reply in row.passes]
    said = Counter(
        "not answered, counts as wrong"
        if reply.prediction is None
        else "no answer could be read, counts as wrong"
        if reply.parsed is None
        else "the true answer"
        if reply.correct
        else "another answer"
        for reply in replies
    )
    return "; ".join(f"{what}: {number:,}" for what, number in said.items())


def _joined(number: Number, found: Explained) -> str:
    if not found.rows:
        return "nothing"
    patients = len({row.question.patient_id for row in found.rows})
    statistic = found.metric.by_pass(found.rows)[0]
    kind = (
        "the metric is computed anew of all replies together"
        if isinstance(statistic, Recomputed)
        else "each reply adds its numbers to sums, of which the metric is made (a mean, where it has one number)"
    )
    repeats = max(len(row.passes) for row in found.rows)
    more = [text for text in (passes_text(repeats),) if text]
    more += ["after minus before, paired by question"] if not number.phase else []
    more += [f"{len(set(folds_of(found.rows)))} folds, pooled"] if folds_of(found.rows) else []
    return f"{kind}; {len(found.rows):,} questions of {patients:,} patients, who are the clusters" + "".join(
        f"; {each}" for each in more
    )
