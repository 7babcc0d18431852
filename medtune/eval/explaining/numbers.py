"""Says which questions a number of results.json counts, which it does not and why, and how they are joined."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from medtune.data.catalog import nearest
from medtune.data.types import Interval
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.gain import both_correctness
from medtune.eval.evidence import Evidence
from medtune.eval.metric import Metric, ParsedReply, passes_text, scored_everywhere
from medtune.eval.results.gain_schema import LevelGain
from medtune.eval.results.phase_schema import Measured
from medtune.eval.results.schema import ResultsFile
from medtune.eval.scoring.counted import NOT_ABOUT, counted, reads_replies_alone
from medtune.eval.scoring.score import correctness, folds_of, parts
from medtune.eval.statistics.column_sums import Recomputed, mean_over_passes
from medtune.eval.statistics.intervals import Limits, method_for, statistic_gain_limits, statistic_limits
from medtune.eval.statistics.patient_swaps import SwapTest, p_equals, patient_test

PHASES, GAIN = "phases", "gain"
OTHER_LEVEL = "it is of another level"
NOT_ASKED = "it was not asked, or not read, in this way"
_FIELDS = ("value", "n", "ci95", "before", "after", "permutation_p", "permutation_p_holm", "mcnemar_p")
"""What stands beside the value of a number or of a gain, and is explained with it."""
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
    ci95: Interval | None
    condition: str = "image"
    parser: str = ""
    metric: str = ""  # Name of the metric; "" is the primary one.
    facet: str = ""
    level: str = ""
    is_outside: bool = False
    gain: LevelGain | None = None  # What results.json says of a gain; None for the number of a phase.


def numbers_of(results: ResultsFile) -> dict[str, Number]:
    """Returns every number that can be explained, by its path in results.json."""
    return {number.path: number for number in _numbers(results)}


def find_number(path: str, results: ResultsFile) -> Number:
    """Returns the number at a path, which may end with one of the fields that stand beside the value."""
    known = numbers_of(results)
    top, _, last = path.rpartition(".")
    named = top if last in _FIELDS and path not in known else path
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
        yield Number(GAIN, "", gain.value, gain.n, gain.ci95, gain=gain)
        for facet, level, each in _levels(gain.by):
            number = Number(f"{GAIN}.by.{facet}.{level}", "", each.value, each.n, each.ci95, gain=each)
            yield replace(number, facet=facet, level=level)


def _levels(by: Mapping[str, Mapping[str, Held]]) -> Iterator[tuple[str, str, Held]]:
    return ((facet, level, each) for facet, found in by.items() for level, each in found.items())


@dataclass(frozen=True, slots=True)
class Explained:
    """What a number counts.

    Attributes:
        rows: The rows that count; of the gain those after training.
        before: Of the gain, the same questions before training; else ().
        left_out: The reasons in words -> the ids of the questions that do not count for this reason, each once.
        again: The number, computed from the answers on disk; None where none count.
        limits: What its interval is made of, with patients as clusters; None without an interval.
        test: The test of the gain, computed again; None for the number of a phase.
    """

    rows: Sequence[ParsedReply]
    before: Sequence[ParsedReply]
    left_out: Mapping[str, Sequence[str]]
    again: float | None
    metric: Metric
    limits: Limits | None = None
    test: SwapTest | None = None


def explained(number: Number, phases: Mapping[str, Evidence], benchmark: Benchmark) -> Explained:
    """Returns what a number counts.

    Args:
        phases: The answers of each phase, whose `parser` is the primary one.
    """
    if number.phase:
        found = _of_phase(number, phases[number.phase], benchmark)
        return found if number.ci95 is None else replace(found, limits=_limits(found))
    metric = benchmark.primary_metric
    first, second = (_of_phase(number, phases[name], benchmark) for name in ("zero_shot", "final"))
    about = [[*each.rows] for each in (first, second)]
    both = {row.question.id for row in about[0]} & {row.question.id for row in about[1]}
    before, after = scored_everywhere([[row for row in rows if row.question.id in both] for rows in about])
    counts, left_out = {row.question.id for row in after}, dict[str, list[str]]()
    reasons = {id_: why for each in (second, first) for why, ids in each.left_out.items() for id_ in ids}
    for id_, why in reasons.items():
        if id_ not in counts:
            left_out.setdefault(why, []).append(id_)
    if not after:
        return Explained(after, before, left_out, None, metric)
    again, patients = metric.value(after) - metric.value(before), _patients(after)
    limits = statistic_gain_limits(
        metric.on(before), metric.on(after), patients, right=both_correctness(before, after), bounds=metric.bounds
    )
    return Explained(
        after, before, left_out, again, metric, limits, patient_test(metric.on([*before, *after]), patients)
    )


def _limits(found: Explained) -> Limits:
    statistic = mean_over_passes(found.metric.by_pass(found.rows))
    right = correctness(found.rows)
    return statistic_limits(statistic, _patients(found.rows), right=right, bounds=found.metric.bounds)


def _patients(rows: Sequence[ParsedReply]) -> list[str]:
    return [row.question.patient_id for row in rows]


def _of_phase(number: Number, evidence: Evidence, benchmark: Benchmark) -> Explained:
    parser = number.parser or evidence.parser
    rows = _rows(evidence, number.condition, parser)
    if number.is_outside:
        metric = benchmark.metrics[number.metric]
        found = dict(parts(rows, benchmark)).get(number.metric) or counted((), metric)
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

    def is_here(row: ParsedReply) -> bool:
        return not number.facet or row.question.facets.get(number.facet) == number.level

    left_out = {
        why: [row.question.id for row in found.left_out(why) if is_here(row)] for why in dict.fromkeys(found.why) if why
    }
    kept = [row for row in found.rows if is_here(row)]
    others = [row.question.id for row in found.of if not is_here(row)]
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
    reach = "" if number.ci95 is None else f" ({number.ci95.text()})"
    value = "no value" if number.value is None else f"{number.value:.6g}{reach}"
    name = number.metric or results.primary.name
    how = f"{name} of what {number.parser!r} read under {number.condition!r}" if number.phase else f"change of {name}"
    yield f"{number.path}: {value}, the {how}"
    if number.gain is not None and number.gain.before is not None and number.gain.after is not None:
        yield f"before     {number.gain.before:.6g}, after {number.gain.after:.6g}, of the same questions"
    asked = len(rows) + sum(map(len, found.left_out.values()))
    yield f"counts     {len(rows):,} of {asked:,} questions{named_ids([row.question.id for row in rows], most)}"
    if rows:
        yield f"           {_outcomes(rows)}"
        if wrong := [row.question.id for row in rows if not all(reply.correct for reply in row.passes)]:
            yield f"not right  {len(wrong):,}{named_ids(wrong, most)}"
    for why, ids in found.left_out.items():
        yield f"leaves out {len(ids):,}: {why}{named_ids(ids, most)}"
    yield f"joined     {_joined(number, found)}"
    if found.limits is not None:
        yield f"interval   {_basis(found, number.ci95)}; {method_for(_patients(rows), folds=_folds(rows))}"
    if number.gain is not None and found.test is not None:
        yield f"test       {_test(number.gain, found.test)}"
    if found.again is None or number.value is None:
        yield "again      nothing counts, so that there is no value"
    elif abs(found.again - number.value) <= WITHIN * max(1.0, abs(number.value)):
        yield f"again      {found.again:.6g}, computed from the answers in the folder"
    else:
        yield (
            f"again      {found.again:.6g}, which is another number: the answers, the verdicts, the data or medtune's "
            "version are not those with which results.json was written"
        )


def _folds(rows: Sequence[ParsedReply]) -> int:
    return len(set(folds_of(rows)))


def _basis(found: Explained, recorded: Interval | None) -> str:
    limits = found.limits
    assert limits is not None
    told = "" if limits.effective is None else f"as many as {limits.effective:.1f} independent questions tell"
    quantile = "" if limits.freedom is None else f"t with {limits.freedom:.3g} degrees of freedom"
    wider = "wider by the intervals of before and after, as few patients are wrong or right in one" * limits.is_wider
    basis = ", ".join(filter(None, (told, quantile, wider))) or "patients do not differ"
    if _folds(found.rows) > 1:
        return f"with patients as clusters {basis}"
    apart = max(abs(one - other) for one, other in zip(limits.interval, recorded or limits.interval, strict=True))
    return basis if apart <= WITHIN else f"{basis}, computed again {limits.interval.text()}, which is another one"


def _test(gain: LevelGain, found: SwapTest) -> str:
    if gain.permutation_p is None:
        return "its p value is not recorded"
    which = "all" if found.is_exact else "of 2 to the power of the patients drawn by the seed 0:"
    told = f"{p_equals(gain.permutation_p)} by swaps of before and after for whole patients ({which} "
    told += f"{found.arrangements:,} arrangements of the {found.num_patients:,} patients whose swap changes something)"
    if abs(found.p - gain.permutation_p) > WITHIN:
        told += f", computed again {p_equals(found.p)}"
    if gain.permutation_p_holm is not None:
        told += (
            f"; {p_equals(gain.permutation_p_holm)} after Holm's correction over all tasks and answers, which decides"
        )
    return f"{told}; McNemar's test, which takes questions as independent, has {p_equals(gain.mcnemar_p)}"


def named_ids(ids: Sequence[str], most: int | None) -> str:
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
    more += [f"{_folds(found.rows)} folds, pooled"] if _folds(found.rows) else []
    return f"{kind}; {len(found.rows):,} questions of {patients:,} patients, who are the clusters" + "".join(
        f"; {each}" for each in more
    )
