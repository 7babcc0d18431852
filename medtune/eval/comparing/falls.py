"""Names the tasks and true answers on which a model got worse, so that a gain over all questions does not hide them.

A claim about a part, in words or as a marked cell, is made only where all questions together changed surely: the tests
are ordered, first the whole and then its parts. The p values of the parts in all tables of a page are adjusted together
by Holm's method. Both keep the probability that anything is claimed wrongly at about 5 %: without any true change the
test of the whole decides alone, and otherwise the parts share 5 %.

Source: ordered families of tests: Dmitrienko et al. 2003, doi:10.1002/sim.1526; Holm 1979,
https://www.jstor.org/stable/4615733.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from medtune.data.readable import spoken
from medtune.eval.comparing.verdict import TASK, Certainty, Verdict, leading_p, verdict
from medtune.eval.results.gain_schema import LevelGain
from medtune.eval.statistics.patient_swaps import p_equals

MAX_FALLS = 3
MIN_FALL = 0.05
"""The smallest fall that is named although chance may explain it: 0.05, or 5 % of a value above 1. The value is our own
choice."""
_MAX_LETTERS = 60


@dataclass(frozen=True, slots=True)
class Fall:
    """A part of the questions on which the model got worse."""

    name: str  # The part, e.g. "the answer 'malignant' (diagnosis)".
    change: LevelGain  # The difference on this part.
    # "sure" if the p value and the interval say so and all questions together changed surely, "open" if only the latter
    # is missing, else "unsure".
    certainty: Certainty
    verb: str  # "fell" or "rose": lower is worse for most metrics.

    @property
    def words(self) -> str:
        """The fall as a clause, e.g. "the task 'plane' fell from 0.50 to 0.35"."""
        before, after = self.change.before, self.change.after
        if before is None or after is None:
            return f"{self.name} {self.verb} by {abs(self.change.value):.2f}"
        return f"{self.name} {self.verb} from {before:.2f} to {after:.2f}"

    @property
    def sentence(self) -> str:
        """The fall as a sentence that says how sure it is."""
        p = leading_p(self.change)
        test = "no p value recorded" if p is None else f"{p_equals(p)} after Holm's correction"
        sure = {
            "sure": "more than chance explains",
            "open": "not called sure, because all questions together show no sure change",
            "unsure": "chance may explain it",
        }[self.certainty]
        words = self.words[:1].upper() + self.words[1:]
        return f"{words} ({self.change.n:,} questions; {test}; {sure})."


def falls(
    overall: Verdict,
    by: Mapping[str, Mapping[str, LevelGain]],
    answers: Mapping[str, Mapping[str, LevelGain]],
    *,
    higher_is_better: bool,
) -> tuple[Fall, ...]:
    """Returns the sure falls and those of at least `MIN_FALL`: the sure ones first, then by size.

    Args:
        by: Facet -> level -> difference of the primary metric; the tasks count, or the first facet without tasks.
        answers: Task -> true answer -> difference of the share of right ones.
    """
    found = [*_of_tasks(overall, by, higher_is_better=higher_is_better), *_of_answers(overall, answers)]
    order = {"sure": 0, "open": 1, "unsure": 2}
    return tuple(sorted(found, key=lambda fall: (order[fall.certainty], -abs(fall.change.value))))


def fall_sentences(found: tuple[Fall, ...]) -> tuple[str, ...]:
    """Returns the first `MAX_FALLS` falls as sentences, and a sentence with the number of the others."""
    said = [fall.sentence for fall in found[:MAX_FALLS]]
    more = len(found) - len(said)
    return (
        *said,
        *([f"{more} more parts got worse; the tables by task and by true answer have them all."] if more else []),
    )


def _of_tasks(overall: Verdict, by: Mapping[str, Mapping[str, LevelGain]], *, higher_is_better: bool) -> Iterator[Fall]:
    facet = TASK if TASK in by else next(iter(by), None)
    levels = by[facet] if facet is not None else {}
    # A single level is all questions, which the headline judges anyway.
    for name, change in levels.items() if len(levels) > 1 else ():
        found = _fall(f"the {spoken(facet or TASK)} {_quoted(spoken(name))}", change, overall, higher_is_better)
        if found:
            yield found


def _of_answers(overall: Verdict, answers: Mapping[str, Mapping[str, LevelGain]]) -> Iterator[Fall]:
    for task, levels in answers.items():
        for name, change in levels.items():
            share = f"the share of right ones where the answer is {_quoted(name)} ({spoken(task)})"
            found = _fall(share, change, overall, higher_is_better=True)
            if found:
                yield found


def _fall(name: str, change: LevelGain, overall: Verdict, higher_is_better: bool) -> Fall | None:
    if change.value == 0 or (change.value > 0) == higher_is_better:
        return None
    verb = "fell" if higher_is_better else "rose"
    if verdict(change, higher_is_better=higher_is_better) == "loss":
        return Fall(name, change, "open" if overall == "unclear" else "sure", verb)
    is_large = abs(change.value) >= MIN_FALL * max(1.0, abs(change.before or 0.0)) - 1e-9
    return Fall(name, change, "unsure", verb) if is_large else None


def _quoted(text: str) -> str:
    plain = " ".join(text.split())
    return f"'{plain if len(plain) <= _MAX_LETTERS else plain[: _MAX_LETTERS - 1] + '…'}'"
