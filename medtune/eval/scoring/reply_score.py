"""Says what a single reply is worth by its benchmark's own metric, which a training on rewards pays.

Of the benchmark's metrics counts the first that is about the question and is the mean of a number for each reply. A
metric of another kind, such as corpus BLEU or macro F1, has a value for many replies together and none for one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from medtune.data.catalog import nearest
from medtune.data.types import Prediction, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.scoring.parse_replies import parse, words_of
from medtune.eval.statistics.column_sums import Sums

OWN = "the benchmark's own score of a reply"
JUDGED = "the judge's points"


@dataclass(frozen=True, slots=True)
class ScoredReply:
    """A reply with what was read from it.

    Attributes:
        row: The reply as a metric takes it: `row.parsed` is the answer that was read, None if none was.
        score: What it is worth, from 0 (or the metric's worst) to 1; 0 where no answer could be read.
    """

    row: ParsedReply
    score: float


@dataclass(frozen=True)
class ReplyScore:
    """The score of single replies to a benchmark's questions.

    Args:
        metric: The name of the metric that counts; None takes the first that is about the question.
        has_judge: Whether a judge scores replies to questions that nothing else scores.
    """

    benchmark: Benchmark
    metric: str | None = None
    has_judge: bool = False

    def __post_init__(self) -> None:
        known = self.benchmark.metrics
        if self.metric is not None and self.metric not in known:
            raise ValueError(
                f"train.replies.metric is {self.metric!r}, and {self.benchmark.title} has none of that name."
                f"{nearest(self.metric, known)} There are: {', '.join(known)}"
            )

    def named_for(self, question: Question) -> str | None:
        """Returns the name of what scores a reply to the question; None where nothing does."""
        if self.benchmark.judging is not None and self.benchmark.judging.is_needed(question):
            return JUDGED if self.has_judge else None
        if self.metric is None and self.benchmark.reply_score is not None:
            return OWN
        names = [*self.benchmark.metrics] if self.metric is None else [self.metric]
        return next((name for name in names if _scores(self.benchmark.metrics[name], question)), None)

    def waits_for_judge(self, question: Question, prediction: Prediction) -> bool:
        """Returns whether the judge has to score the reply; one without words behind its thought is worth 0."""
        return self.named_for(question) == JUDGED and bool(words_of(prediction))

    def of(self, question: Question, prediction: Prediction, *, verdict: str | None = None) -> ScoredReply:
        """Returns what a generated reply is worth behind its thought, read by the benchmark's first parser.

        Args:
            verdict: The judge's reply, where the reply waited for one; a reply without a verdict is worth 0.
        """
        said = replace(prediction, text=words_of(prediction))
        if self.named_for(question) == JUDGED:
            row = ParsedReply(question, said, None if verdict is None else said.text)
            return ScoredReply(row, 0.0 if verdict is None else self._points(verdict))
        read = parse(question, said, self.benchmark)[next(iter(self.benchmark.parsers))]
        row = ParsedReply(question, said, read)
        return ScoredReply(row, 0.0 if read is None else self._number(question)(row))

    def _points(self, verdict: str) -> float:
        task = self.benchmark.judging
        assert task is not None
        return task.points(verdict) / task.levels[-1]

    def _number(self, question: Question) -> Callable[[ParsedReply], float]:
        name = self.named_for(question)
        if name is None:
            raise ValueError(f"question {question.id!r}: no metric of {self.benchmark.title} scores a single reply")
        if name == OWN:
            assert self.benchmark.reply_score is not None
            return self.benchmark.reply_score
        metric = self.benchmark.metrics[name]
        return lambda row: (metric.value([row]) - metric.worst) / (metric.best - metric.worst)


def refuse_unscored(scores: Sequence[tuple[ReplyScore, Sequence[Question]]]) -> dict[str, int]:
    """Returns how many of the questions each metric scores, by its name; refuses questions that none does."""
    found: dict[str, int] = {}
    for score, questions in scores:
        left = [question for question in questions if score.named_for(question) is None]
        if left:
            _refuse(score, left, of=len(questions))
        for question in questions:
            name = str(score.named_for(question))
            found[name] = found.get(name, 0) + 1
    return found


def _refuse(score: ReplyScore, left: Sequence[Question], *, of: int) -> None:
    benchmark, named = score.benchmark, score.metric
    able = [name for name, metric in benchmark.metrics.items() if any(_scores(metric, each) for each in left)]
    otherwise = f"name one that does ({', '.join(able)})" if able else "learn from the answers (train.loss.name)"
    only = "restrict the stage to questions with a score of their own (train.stages, `only`)"
    if named is not None:
        metric = benchmark.metrics[named]
        kind = "has no value for a single reply" if not _is_mean(metric, left[0]) else "is not about all questions"
        raise ValueError(
            f"train.replies.metric is {named!r}, which {kind}: it scores {of - len(left):,} of the {of:,} training "
            f"questions of {benchmark.title}. Leave it out, {otherwise}, or {only}"
        )
    raise ValueError(
        f"train.replies.reward: {len(left):,} of the {of:,} training questions of {benchmark.title} have no score of a "
        f"single reply, for instance {left[0].id!r} (free answers that a judge scores, or metrics over many replies); "
        f"{otherwise}, name a judge (eval.judge) and set train.replies.judge=true where it scores them, or {only}"
    )


def _scores(metric: Metric, question: Question) -> bool:
    return (
        not metric.is_composite
        and metric.covers(question)
        and math.isfinite(metric.worst)
        and math.isfinite(metric.best)
        and _is_mean(metric, question)
    )


def _is_mean(metric: Metric, question: Question) -> bool:
    statistic = metric.statistic([ParsedReply(question, None, None)])
    return isinstance(statistic, Sums) and statistic.is_mean
