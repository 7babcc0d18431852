"""Audit rows about the model's replies: one answer given too often, two readings that disagree, unparsable replies."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean

import numpy as np

from medtune.data.grouping import grouped
from medtune.data.types import Interval, Prediction, Question
from medtune.eval.audit.audited_phase import Answers, AuditedPhase, answers_in, rights_in
from medtune.eval.audit.row import CHECKS_ALPHA, AuditRow, Collapse, accuracy_row, flagged, ids_of
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parse_replies import LIKELIHOOD, PER_TOKEN
from medtune.eval.statistics import intervals
from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.patient_swaps import patient_p

COLLAPSE_EXCESS = 0.15
"""How far the share of the most frequent answer has to lie above its share of the truth, with its whole interval, for a
flag. The value is our own choice."""
ALWAYS = 0.95
"""From this share on, one answer is given to nearly every question, and any clear excess over the truth is flagged."""
READING_MARGIN = 0.05
"""The smallest difference in accuracy between two readings that is flagged, if it is also surely one."""
UNPARSABLE_LIMIT = 0.05
"""The share of unparsable replies above which the row is flagged."""
LONGER_WORDS = 3
"""The words beyond the longest option from which on replies are flagged. The value is our own choice."""
CUT_LIMIT = 0.5
"""The share of replies that the limit cut from which they are no answers that end by themselves."""
EVERY_OPTION_LIMIT = 0.05
"""The share of replies that name every option above which the row is flagged. The value is our own choice."""
_ANY = Interval(-math.inf, math.inf)
NO_TASK = "all"
"""The name of the questions that have neither task nor subtype."""

CUE_MARGIN = 0.05
"""How far the whole interval of a cue has to lie above guessing for a flag. The value is our own choice."""
GUESSING = ("random", "majority", "question_prior", "constant_letter", "longest_option")


def collapse_by_subtype(subject: AuditedPhase) -> dict[str, Collapse]:
    """Returns for each subtype the model's most frequent answer and how often this answer is the true one.

    The keys are "TASK: SUBTYPE"; for questions without a subtype they are "TASK".
    """
    kinds = grouped(zip(subject.questions, subject.answers, strict=True), lambda pair: _kind(pair[0]))
    return {
        kind: _collapse([question for question, _ in pairs], [answer for _, answer in pairs])
        for kind, pairs in kinds.items()
    }


def most_frequent_answer_row(subject: AuditedPhase, collapse: dict[str, Collapse]) -> AuditRow:
    """Returns the row of the subtype whose most frequent answer is given the most above its share of the truth."""
    worst = max(collapse, key=lambda kind: collapse[kind].share - collapse[kind].truth_share)
    found = collapse[worst]
    names = [kind for kind, each in collapse.items() if each.flag]
    return AuditRow(
        "most_frequent_answer",
        "most frequent answer above its share of the truth, worst subtype",
        subject.phase,
        "share difference",
        found.share - found.truth_share,
        found.n,
        found.excess_ci95,
        flag=f"answers collapse to one in {', '.join(names)}" if names else None,
        note=f"{worst}: {found.answer!r} is {found.share:.0%} of the answers, {found.truth_share:.0%} of the truth",
        counts=ids_of(question for question in subject.questions if _kind(question) == worst),
    )


def reading_rows(subject: AuditedPhase) -> list[AuditRow]:
    """Returns the rows "likelihood_against_generation" and "unparsable_share".

    The first is left out if there is only one reading, and the second if no reply was generated.
    """
    image = subject.parsed["image"]
    parsers = [name for name in image if name not in (LIKELIHOOD, PER_TOKEN)]
    rows = []
    is_likelihood = subject.parser in (LIKELIHOOD, PER_TOKEN)
    other = next(iter(parsers), None) if is_likelihood else (LIKELIHOOD if LIKELIHOOD in image else None)
    if other:
        said = answers_in(image[other])
        agree = sum(map(_agreement, said, subject.answers)) / len(said)
        row = accuracy_row(
            "likelihood_against_generation",
            f"the other reading of the same model ({other})",
            rights_in(image[other]),
            subject.patients,
            model=subject.right,
            phase=subject.phase,
            note=f"both readings give the same answer to {agree:.0%} of the questions",
        )
        rows.append(flagged(row, _disagreement(row, subject, rights_in(image[other]))))
    generation = other if is_likelihood else subject.parser
    if generation:
        rows += [_unparsable(subject, generation), *reply_form_rows(subject, generation)]
    return rows


def reply_form_rows(subject: AuditedPhase, parser: str) -> list[AuditRow]:
    """Returns the rows "reply_words", "cut_replies" and "names_every_option", in which a gamed reward shows.

    The first is flagged where replies surely have LONGER_WORDS more words than the longest option, so that they are
    longer than any answer; the second where the share of replies that the limit cut is surely above CUT_LIMIT; the
    third where that of replies with every option in them is surely above EVERY_OPTION_LIMIT, because a parser may find
    the right one there.
    """
    passes = [
        (row.question, [each.prediction for each in row.passes if each.prediction is not None])
        for row in subject.parsed["image"][parser]
    ]
    replied = [(question, [each.text or "" for each in said]) for question, said in passes if said]
    said = [(question, [normalised(text).split() for text in texts]) for question, texts in replied if texts]
    if not said:
        return []
    patients, counts = [question.patient_id for question, _ in said], ids_of(question for question, _ in said)
    beyond = [
        fmean(len(words) for words in texts) - max(len(normalised(option).split()) for option in question.options)
        for question, texts in said
    ]
    every = [fmean(_names_every(question, words) for words in texts) for question, texts in said]
    longer = intervals.statistic_interval(mean_of(beyond), patients, right=None, bounds=_ANY)
    named = intervals.mean_interval(every, patients)
    value, share = fmean(beyond), fmean(every)
    return [
        AuditRow(
            "reply_words", f"words of a reply beyond the longest option ({parser})", subject.phase, "words", value,
            len(said), longer, note="a reward for length, or none for an end, shows here", counts=counts,
            flag=f"replies have {value:.1f} words more than the longest option" if longer.low > LONGER_WORDS else None,
        ),
        *_cut_rows(subject, passes, parser),
        AuditRow(
            "names_every_option", f"replies that name every option ({parser})", subject.phase, "share", share,
            len(said), named, note="a reply that names them all cannot be wrong in each of them", counts=counts,
            flag=f"{share:.0%} of the replies name every option" if named.low > EVERY_OPTION_LIMIT else None,
        ),
    ]  # fmt: skip


def _cut_rows(
    subject: AuditedPhase, passes: Sequence[tuple[Question, Sequence[Prediction]]], parser: str
) -> list[AuditRow]:
    # Other tools' files do not say why a reply ended.
    known = [
        (question, fmean(each.finish_reason == "length" for each in said))
        for question, said in passes
        if said and all(each.finish_reason is not None for each in said)
    ]
    if not known:
        return []
    patients, cut = [question.patient_id for question, _ in known], [share for _, share in known]
    bounds = intervals.mean_interval(cut, patients)
    return [
        AuditRow(
            "cut_replies", f"replies that were cut at their largest length ({parser})", subject.phase, "share",
            fmean(cut), len(cut), bounds, note="an answer that ends by itself is shorter than the limit",
            flag=f"{fmean(cut):.0%} of the replies were cut at their largest length"
            if bounds.low > CUT_LIMIT else None, counts=ids_of(question for question, _ in known),
        )
    ]  # fmt: skip


def _names_every(question: Question, words: Sequence[str]) -> float:
    text = f" {' '.join(words)} "
    return float(all(f" {normalised(option)} " in text for option in question.options))


def _kind(question: Question) -> str:
    names = [question.facets[facet] for facet in ("task", "subtype") if facet in question.facets]
    return ": ".join(names) or NO_TASK


def _collapse(questions: Sequence[Question], said: Sequence[Answers]) -> Collapse:
    answer, _ = Counter(chain.from_iterable(said)).most_common(1)[0]
    given = [each.count(answer) / len(each) for each in said]
    true = [float(question.answer == answer) for question in questions]
    excess = intervals.gain_interval(true, given, [question.patient_id for question in questions])
    share, truth_share = sum(given) / len(given), sum(true) / len(true)
    flag = None
    if excess.low > (0 if share >= ALWAYS else COLLAPSE_EXCESS):
        flag = f"{share:.0%} of the answers are {answer!r}, which is the truth for {truth_share:.0%}"
    return Collapse(answer, share, truth_share, excess, len(questions), flag)


def _agreement(first: Answers, second: Answers) -> float:
    return sum(one == two for one in first for two in second) / (len(first) * len(second))


def _disagreement(row: AuditRow, subject: AuditedPhase, right: Sequence[float]) -> str | None:
    assert row.gap is not None
    low, high = row.gap.ci95
    if low <= 0 <= high or abs(row.gap.value) < READING_MARGIN:
        return None
    # One test more beside the checks of the page, at their level.
    if patient_p(mean_of([*right, *subject.right]), subject.patients) > CHECKS_ALPHA:
        return None
    return f"the two readings differ by {row.gap.value:+.3f}"


def _unparsable(subject: AuditedPhase, parser: str) -> AuditRow:
    lost = [each.count(None) / len(each) for each in answers_in(subject.parsed["image"][parser])]
    value = sum(lost) / len(lost)
    flag = f"{value:.0%} of the replies hold no answer" if value > UNPARSABLE_LIMIT else None
    if flag and parser != subject.parser:
        # The score then has no unreadable answers, which would contradict this.
        flag = f"where the model writes, {flag}; the score compares the options and reads no reply"
    return AuditRow(
        "unparsable_share",
        f"replies without a readable answer ({parser})",
        subject.phase,
        "share",
        value,
        len(lost),
        intervals.mean_interval(lost, subject.patients),
        flag=flag,
        note="unanswered questions included; they count as wrong",
    )


def guessing_rows(subject: AuditedPhase) -> list[AuditRow]:
    """Returns the rows "random", "constant_letter" and "longest_option", and with a train split two rows more.

    These two are "majority" and "question_prior". The row "longest_option" is flagged if always choosing the longest
    option is clearly better than guessing.
    """
    chance = [1 / len(question.options) for question in subject.questions]
    random = accuracy_row(
        "random", "guessing", chance, subject.patients, model=subject.right, note="mean of 1 / number of options"
    )
    rows = [replace(random, ci95=None)]
    if subject.learnt:
        learnt = subject.learnt
        rows += [
            subject.row_of(
                "majority",
                "most frequent train answer of the task",
                subject.answered(learnt.majority),
                note="ties go to the answer seen first",
            ),
            subject.row_of(
                "question_prior",
                "most frequent train answer to the same question and options",
                subject.answered(learnt.prior),
                note="the task's most frequent answer where train never asked it with these options",
            ),
        ]
    best = max(
        range(max(len(question.options) for question in subject.questions)),
        key=lambda place: sum(subject.right_of(subject.answered(lambda question: _option_at(question, place)))),
    )
    letter = subject.row_of(
        "constant_letter",
        "always the same position",
        subject.answered(lambda question: _option_at(question, best)),
        note=f"position {best + 1}, the best of all on these very questions, so it flatters",
    )
    longest = _longest_row(subject, float(np.mean(chance)))
    return [*rows, letter, longest]


def longest_option(question: Question) -> str:
    """Returns the option with the most characters; if several are equally long, the first of them."""
    return max(question.options, key=len)


def _longest_row(subject: AuditedPhase, chance: float) -> AuditRow:
    row = subject.row_of(
        "longest_option",
        "always the longest option",
        subject.answered(longest_option),
        note="most characters; of several the one shown first",
    )
    is_cue = row.ci95 is not None and row.ci95.low > chance + CUE_MARGIN
    return flagged(row, f"the length of an option tells of the answer (guessing: {chance:.3f})" if is_cue else None)


def _option_at(question: Question, place: int) -> str | None:
    return question.options[place] if place < len(question.options) else None
