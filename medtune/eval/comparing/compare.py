"""Compares two sets of answers to the same questions, paired by question, overall and for each task.

The difference is second minus first, like the gain, which is after minus before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from medtune.data.grouping import grouped
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.compare_file import ComparedLevel, CompareFile, RightAndWrong
from medtune.eval.comparing.gain import PairedGain, adjusted_by_holm, level_gain
from medtune.eval.comparing.verdict import verdict
from medtune.eval.data_label import DataLabel
from medtune.eval.metric import ParsedReply, num_passes, scored_everywhere
from medtune.eval.results.schema import Labelled
from medtune.eval.scoring.score import correctness
from medtune.eval.scoring.tables import finite_number

Pair = tuple[ParsedReply, ParsedReply]


@dataclass(frozen=True, slots=True)
class About:
    """Describes a set of answers. Two sets can be compared if the fields from the benchmark to the parser are equal."""

    name: str
    benchmark: str  # Name and version of the benchmark, e.g. "my_questions 1.0".
    data_hash: str  # SHA-256 of the prepared folder with the questions, in hex digits.
    split: str
    parser: str
    label: DataLabel
    thinking: str = ""  # How the model's thoughts were set, as `model.thinking`; "" if it is not recorded.


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sets of answers that are compared."""

    about: About
    rows: tuple[ParsedReply, ...]  # All questions of the split; those without a prediction were not answered.
    # Number of answers by condition and reading that are not among the rows.
    other_answers: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.about.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(ComparedLevel):
    """The difference between the sides on some of the questions that both answered, as compare.json has it."""

    # All of the difference; for a task, `permutation_p_holm` is Holm's correction over the tasks.
    paired: PairedGain


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSides(CompareFile):
    """What compare.json has, and what only the page and the table say."""

    overall: Difference
    by_task: Mapping[str, Difference]
    same: int  # Number of questions to which both gave the same answers.
    thinking: tuple[str, str]  # How each side's thoughts were set (`About.thinking`).
    higher_is_better: bool


def compare(first: Side, second: Side, benchmark: Benchmark, *, seed: int = 0) -> ComparedSides:
    """Returns the comparison of two sides on the questions that both answered.

    Questions with an answer that waits for a judge are left out.
    """
    check_comparable(first.about, second.about)
    asked = [benchmark.primary_metric.covered(side.rows) for side in (first, second)]
    _check_questions(first, second)
    found = [{row.question.id: row for row in rows if row.is_answered} for rows in asked]
    shared = [row.question.id for row in asked[0] if row.question.id in found[0] and row.question.id in found[1]]
    if not shared:
        raise ValueError(
            f"{first.name} answered {len(found[0])} questions and {second.name} {len(found[1])}, but none in common: "
            "evaluate both on the same split, with the same --limit"
        )
    pairs = [*zip(*scored_everywhere([[rows[id_] for id_ in shared] for rows in found]), strict=True)]
    if not pairs:
        raise ValueError(
            f"{first.name} and {second.name} answered {len(shared)} questions in common, and of each an answer waits "
            "for a judge: `medtune judge` both, then compare"
        )
    ids = {row.question.id for rows in asked for row in rows}
    benchmark = benchmark.for_part([row.question for row, _ in pairs])
    return ComparedSides(
        names=(first.name, second.name),
        labels=(Labelled(**asdict(first.about.label)), Labelled(**asdict(second.about.label))),
        benchmark=first.about.benchmark,
        metric=benchmark.primary,
        parser=first.about.parser,
        both=len(pairs),
        only_first=len(found[0].keys() - found[1].keys()),
        only_second=len(found[1].keys() - found[0].keys()),
        neither=len(ids - found[0].keys() - found[1].keys()),
        reworded=sum(_is_reworded(*pair) for pair in pairs),
        same=sum(_answers(first) == _answers(second) for first, second in pairs),
        higher_is_better=benchmark.higher_is_better,
        overall=_difference(pairs, level_gain(*_sides(pairs), benchmark.primary_metric, seed=seed), benchmark),
        by_task=_by_task(pairs, benchmark, seed=seed),
        unscored=len(shared) - len(pairs),
        repeats=(num_passes(first.rows), num_passes(second.rows)),
        other_answers=(dict(first.other_answers), dict(second.other_answers)),
        thinking=(first.about.thinking, second.about.thinking),
    )


def _by_task(pairs: Sequence[Pair], benchmark: Benchmark, *, seed: int) -> dict[str, Difference]:
    tasks = grouped(pairs, lambda pair: pair[0].question.facets.get("task", "(no task)"))
    metric = benchmark.primary_metric
    gains = {task: level_gain(*_sides(chosen), metric, seed=seed) for task, chosen in tasks.items()}
    return {task: _difference(tasks[task], paired, benchmark) for task, paired in adjusted_by_holm(gains).items()}


def _sides(pairs: Sequence[Pair]) -> tuple[list[ParsedReply], list[ParsedReply]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


def _difference(pairs: Sequence[Pair], paired: PairedGain, benchmark: Benchmark) -> Difference:
    is_simple = all(correctness(side) is not None for side in _sides(pairs))
    return Difference(
        n=paired.n,
        num_patients=paired.num_patients,
        first=paired.before,
        second=paired.after,
        difference=finite_number(paired.value),
        ci95=(finite_number(paired.ci95.low), finite_number(paired.ci95.high)),
        verdict=verdict(paired, higher_is_better=benchmark.higher_is_better),
        permutation_p=paired.permutation_p,
        holm_p=paired.permutation_p_holm,
        mcnemar_p=paired.mcnemar_p if is_simple else None,
        readability=paired.readability,
        counts=RightAndWrong(
            both_right=paired.counts.both_right,
            only_first=paired.counts.only_before,
            only_second=paired.counts.only_after,
            both_wrong=paired.counts.both_wrong,
        ),
        paired=paired,
    )


def _answers(row: ParsedReply) -> list[str | None]:
    """Returns the answer of each pass; the reply itself where none can be read in it."""
    said = [(reply.parsed, reply.prediction) for reply in row.passes]
    return [reply.text if parsed is None and reply else parsed for parsed, reply in said]


def _is_reworded(first: ParsedReply, second: ParsedReply) -> bool:
    hashes = [row.prediction and row.prediction.prompt_hash for row in (first, second)]
    return None not in hashes and hashes[0] != hashes[1]


def check_comparable(first: About, second: About) -> None:
    """Checks that two sides were asked the same questions and read by the same parser."""
    if first.name == second.name:
        raise ValueError(f"both sides are called {first.name!r}; compare two different runs or files")
    for what, one, other, todo in (
        ("benchmarks", first.benchmark, second.benchmark, "only answers to one version of one benchmark can be paired"),
        ("data (hashes)", first.data_hash[:16], second.data_hash[:16], "evaluate both on the same prepared folder"),
        ("splits", first.split, second.split, "evaluate both on one"),
        ("parsers", first.parser, second.parser, "name one that fits both with --parser"),
    ):
        if one != other:
            raise ValueError(f"{first.name} and {second.name} have different {what}: {one} and {other}; {todo}")


def _check_questions(first: Side, second: Side) -> None:
    known = {row.question.id: row.question for row in first.rows}
    for row in second.rows:
        question = known.get(row.question.id, row.question)
        if question != row.question:
            raise ValueError(
                f"question {question.id!r} is not the same for {first.name} and {second.name} (wording, options, "
                "answer or patient differ); prepare the data once and evaluate both on that folder"
            )
