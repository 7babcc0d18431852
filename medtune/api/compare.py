"""`medtune.compare`: the difference between two sets of answers to the same questions, with interval and test."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from medtune.api.dataset import Dataset, Questions
from medtune.api.evaluation import Evaluation
from medtune.api.plain_questions import Answers, Options, Truths
from medtune.api.score import score
from medtune.data.types import Interval
from medtune.eval.comparing import compare as sides
from medtune.eval.comparing.compare_text import comparison_plot, comparison_table, judgement
from medtune.eval.scoring.score import other_answers
from medtune.eval.scoring.tables import table_text
from medtune.eval.statistics.patient_swaps import p_equals

NAMES = ("first", "second")


@dataclass(frozen=True, repr=False)
class Comparison:
    """The comparison of two evaluations, paired by question: second minus first.

    Attributes:
        first: The first evaluation.
        second: The second evaluation.
        found: The comparison as `medtune compare` computes it, with the differences by task.
    """

    first: Evaluation
    second: Evaluation
    found: sides.ComparedSides

    @property
    def gain(self) -> float:
        """The primary metric of the second minus that of the first, on the questions that both answered."""
        return self.found.overall.paired.value

    @property
    def ci95(self) -> Interval:
        """The 95 % interval of the gain, with patients as clusters."""
        return self.found.overall.paired.ci95

    @property
    def p(self) -> float:
        """The two-sided p value of the gain, from swaps of the two sides for whole patients."""
        return self.found.overall.paired.permutation_p

    @property
    def n(self) -> int:
        """The number of questions that are compared."""
        return self.found.both

    @property
    def by_task(self) -> Mapping[str, sides.Difference]:
        """The differences by task, with p values that Holm's method corrects for their number."""
        return self.found.by_task

    @cached_property
    def judgement(self) -> str:
        """Which side is better, or why that cannot be told, as sentences."""
        return judgement(self.found)

    @property
    def plot(self) -> str:
        """The differences as a forest plot, in SVG."""
        return comparison_plot(self.found)

    def __str__(self) -> str:
        return table_text(comparison_table(self.found))

    def __repr__(self) -> str:
        return (
            f"{self.found.metric}, {self.found.names[1]} minus {self.found.names[0]}: {self.gain:+.3f} (95 % interval "
            f"{self.ci95.text(signed=True)}, {p_equals(self.p)}, {self.n} questions)"
        )


def compare(
    first: Evaluation | Answers,
    second: Evaluation | Answers,
    *,
    truths: Questions | Dataset | Truths | None = None,
    patients: Truths | None = None,
    options: Options | None = None,
    names: tuple[str, str] | None = None,
) -> Comparison:
    """Returns the difference between two evaluations, or two sets of answers, to the same questions.

    Args:
        first: An evaluation; or the replies, in the order of `truths` or by the question's id.
        second: The same of the other side.
        truths: The true answers or the questions, as `medtune.score` takes them; for replies only.
        patients: The patient of each question, as `medtune.score` takes them; for replies only.
        options: The options of each question, as `medtune.score` takes them; for replies only.
        names: The names of the two sides in tables; None takes those of the evaluations.

    Raises:
        TypeError: One side is an evaluation and the other is not, or an answer is no text.
        ValueError: The questions, benchmarks or parsers differ, no question was answered on both sides, or replies come
            without `truths`.
    """
    given = (truths, patients, options)
    if isinstance(first, Evaluation) and isinstance(second, Evaluation):
        if any(each is not None for each in given):
            raise ValueError("truths=, patients= and options= are for replies; evaluations have their questions")
        one, other = first, second
        called = names or ((one.name, other.name) if one.name != other.name else NAMES)
    elif isinstance(first, Evaluation) or isinstance(second, Evaluation):
        raise TypeError("one side is an evaluation and the other is not; score the other one first: medtune.score")
    else:
        if truths is None:
            raise ValueError("two lists of answers need truths=: the true answers, or the questions of a loaded folder")
        called = names or NAMES
        # What an iterator yields is read for both sides.
        truths = list(truths) if isinstance(truths, Iterator) else truths
        patients = list(patients) if isinstance(patients, Iterator) else patients
        options = list(options) if isinstance(options, Iterator) else options
        one = score(truths, first, patients=patients, options=options, name=called[0])
        other = score(truths, second, patients=patients, options=options, name=called[1])
    if one.scores.parser != other.scores.parser:
        raise ValueError(
            f"{called[0]} was read by {one.scores.parser!r} and {called[1]} by {other.scores.parser!r}; evaluate both "
            "with the same readings="
        )
    found = sides.compare(_side(one, called[0]), _side(other, called[1]), one.benchmark)
    return Comparison(one, other, found)


def _side(of: Evaluation, name: str) -> sides.Side:
    about = sides.About(
        name=name,
        benchmark=f"{of.benchmark.title} {of.benchmark.version}",
        data_hash=of.data_hash,
        split=of.split,
        parser=of.scores.parser,
        label=of.label,
    )
    return sides.Side(about, of.rows, other_answers(of.predictions, of.scores.parser, of.benchmark))
