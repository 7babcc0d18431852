"""Says of one question what was asked and answered, what each parser read and by which rule, and what it scored."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace

from medtune.data.types import Prediction, Prompt, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.evidence import Evidence
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.counted import NOT_ABOUT, counted
from medtune.eval.scoring.parse_replies import LIKELIHOOD, needs_judge, parse
from medtune.eval.scoring.parsers.noted_rules import with_rule
from medtune.eval.scoring.score import parts
from medtune.eval.statistics.calibration import option_probabilities

LONGEST = 2000
"""The number of characters of a reply that are shown."""


def asked_lines(question: Question, prompt: Prompt) -> Iterator[str]:
    """Yields the question, its true answer and its prompt as lines of text."""
    facets = ", ".join(f"{name} {value}" for name, value in question.facets.items())
    yield f"question   {question.id}, about {question.media_id or 'no media'}"
    yield f"           {facets}" if facets else "           without facets"
    for turn in question.turns:
        yield f"turn       {turn.asked!r}, answered {turn.answer!r}"
    yield f"asks       {question.text!r}"
    if question.options:
        yield f"options    {', '.join(map(repr, question.options))}"
    unit = f" {question.unit}" if question.unit else ""
    yield f"truth      {question.answer!r}{unit} ({question.answer_kind})"
    yield f"prompt     {prompt.text!r}"
    yield f"learnt as  {prompt.target!r}"


def answer_lines(question: Question, phases: Mapping[str, Evidence], benchmark: Benchmark) -> Iterator[str]:
    """Yields the answers to a question in each phase, what was read in them and what it scored, as lines of text."""
    for name, evidence in phases.items():
        yield f"\n{name}"
        said = sorted((each for each in evidence.predictions if each.key.question_id == question.id), key=_order)
        if not said:
            yield "  was not answered, which counts as wrong where it was asked"
        for prediction in said:
            yield from _answer(question, prediction, benchmark)
        yield from (f"  {line}" for line in _scored(question, evidence, benchmark))


def _order(prediction: Prediction) -> tuple[str, str, int]:
    key = prediction.key
    return ("" if key.condition == "image" else key.condition, key.reading, key.repeat)


def _answer(question: Question, prediction: Prediction, benchmark: Benchmark) -> Iterator[str]:
    key = prediction.key
    again = f", pass {key.repeat + 1}" if key.repeat else ""
    yield f"  {key.condition}, {key.reading}{again}: {_reply_text(question, prediction)}"
    waits = needs_judge(question, prediction, benchmark)
    for name, read in parse(question, prediction, benchmark).items():
        if read is not None:
            right = "right" if ParsedReply(question, prediction, read).correct else "not the true answer"
            outcome = f"reads {read!r}, {right}"
        else:
            outcome = "reads nothing, and waits for a judge" if waits else "reads nothing, which counts as wrong"
        yield f"    {name} {outcome}: {_rule(name, question, prediction, benchmark)}"


def _reply_text(question: Question, prediction: Prediction) -> str:
    logprobs = prediction.option_logprobs
    if not logprobs:
        text = prediction.text or ""
        return repr(text[:LONGEST]) + (f" (the first {LONGEST:,} of {len(text):,} characters)" * (len(text) > LONGEST))
    shown, shares = prediction.options_shown or question.options, option_probabilities(logprobs)
    return ", ".join(
        f"{option!r} {logprob:.3f} ({share:.1%})"
        for option, logprob, share in zip(shown, logprobs, shares, strict=True)
    )


def _rule(name: str, question: Question, prediction: Prediction, benchmark: Benchmark) -> str:
    if name not in benchmark.parsers:
        each = "" if name == LIKELIHOOD else " after division by its number of tokens"
        return f"the option with the highest log-probability{each}, of equal ones the first"
    parser = benchmark.parsers[name]
    shown = prediction.options_shown or question.options
    asked = question if shown == question.options else replace(question, options=shown)
    read, rule = with_rule(lambda: parser(prediction.text or "", asked))
    if rule and read is None:
        return f"the last that applied is {rule}, and it finds no single one"
    # A parser that notes no rule says in its first sentence what it does.
    return rule or (inspect.getdoc(parser) or f"the parser {name}").partition("\n")[0]


def _scored(question: Question, evidence: Evidence, benchmark: Benchmark) -> Iterator[str]:
    rows = evidence.parsed["image"].get(evidence.parser, ())
    mine = next((row for row in rows if row.question.id == question.id), None)
    if mine is None:
        yield f"is not read by {evidence.parser!r}, so that no number of that parser counts it"
        return
    for name, found in parts(rows, benchmark):
        if not any(row.question.id == question.id for row in found.about):
            continue
        metric, is_primary = benchmark.metrics[name], name == benchmark.primary
        (why,) = counted([mine], metric).why
        if why is not None:
            yield f"{name} does not count it: {why}"
        elif metric.is_composite:
            yield f"{name} counts it, as a part of a number that is made of several"
        else:
            beside = "" if is_primary else " (the primary metric does not)"
            yield f"{name} counts it{beside}: {metric.value([mine]):.4g} by itself"
        return
    yield f"no metric counts it: {NOT_ABOUT}"
