"""Reads the answer in each prediction of every pass, with one row for each question and parser.

A generated reply is read by every parser of the benchmark, a likelihood by none of them: the likeliest option is its
answer, in total (`LIKELIHOOD`) and per token (`PER_TOKEN`). `primary_parser` says which of them `overall` counts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from medtune.data.catalog import nearest
from medtune.data.files import replace_file
from medtune.data.types import OF_OPTIONS, Condition, Prediction, PredictionKey, Question, Reading
from medtune.eval.benchmark import Benchmark
from medtune.eval.evidence import ParsedReplies
from medtune.eval.metric import ParsedReply, joined_passes
from medtune.eval.predictions.files import describe_key
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.choice_statements import without_thinking

LIKELIHOOD = "likelihood"
PER_TOKEN = "likelihood_per_token"
UNSCORED = "unscored"
MAX_SHORT_WORDS = 5
"""The words of the longest true answer that counts as short, after normalisation; a longer one is a text."""


def parse_replies(
    questions: Sequence[Question],
    predictions: Iterable[Prediction],
    benchmark: Benchmark,
    *,
    reading: Reading,
    condition: Condition = "image",
) -> dict[str, list[ParsedReply]]:
    """Returns, for each parser of a reading, one row per question in their order, with the replies of all passes.

    A likelihood reading has two names in the place of parsers and covers the questions that have options (`parse_all`
    adds the others, which are read from their replies). "likelihood" takes the option with the highest log-probability;
    of equal ones, the one shown first. "likelihood_per_token" does the same after division by the number of tokens, and
    is left out if a prediction has no token counts. A generation has the benchmark's parsers. A question without a
    prediction has a row with `prediction=None`. A free answer that no judge has judged is `unscored`. An empty answer
    is not, because no judge could give it points: it counts as unparsable.

    The passes are the numbers of repeats that occur among these predictions. A question without a prediction in one of
    them counts as unanswered there, as it does in a single pass.
    """
    by_id = index(questions)
    found: dict[PredictionKey, Prediction] = {}
    for prediction in predictions:
        question_of(prediction, by_id)
        if prediction.key[1:3] != (condition, reading):
            continue
        earlier = found.setdefault(prediction.key, prediction)
        if earlier is not prediction and earlier != prediction:
            raise ValueError(
                f"{describe_key(prediction.key)} has two different predictions; keep one, or number them as repeats"
            )
    if reading == "likelihood":
        questions = [question for question in questions if question.options]
    names = [*benchmark.parsers] if reading == "generation" else [LIKELIHOOD, PER_TOKEN]
    equal: dict[tuple[str | None, ...], tuple[str | None, ...]] = {}
    parsed = dict[PredictionKey, tuple[str | None, ...]]()
    for key, prediction in found.items():
        read = tuple(parse(by_id[key.question_id], prediction, benchmark).values())
        parsed[key] = equal.setdefault(read, read)
    names = names[: min(map(len, parsed.values()), default=len(names))]
    passes = sorted({key.repeat for key in found}) or [0]
    rows: dict[str, list[ParsedReply]] = {name: [] for name in names}
    nothing = (None,) * len(names)
    for question in questions:
        keys = [PredictionKey(question.id, condition, reading, repeat) for repeat in passes]
        said, reads = [found.get(key) for key in keys], [parsed.get(key, nothing) for key in keys]
        # Parsers that read the same share a row: most replies are read alike by all of them.
        made: dict[tuple[str | None, ...], ParsedReply] = {}
        for name, *told in zip(names, *reads, strict=False):
            if (row := made.get(tuple(told))) is None:
                replies = [ParsedReply(question, *each) for each in zip(said, told, strict=True)]
                waits = any(
                    each.prediction is not None
                    and each.parsed is None
                    and needs_judge(question, each.prediction, benchmark)
                    for each in replies
                )
                row = made[tuple(told)] = joined_passes(replies, unscored=waits)
            rows[name].append(row)
    return rows


def parse_all(questions: Sequence[Question], predictions: Sequence[Prediction], benchmark: Benchmark) -> ParsedReplies:
    """Returns parsed replies by condition and parser, for every condition and reading that has predictions.

    The condition "image" is always included. If it has no predictions, its questions count as unanswered generations.
    Where likelihoods were read, each question is read in its own way: one without options has, among the rows of the
    likelihood, its row of the benchmark's first parser, so that a score by likelihood leaves no question out.
    """
    asked = {(prediction.key.condition, prediction.key.reading) for prediction in predictions}
    if not any(condition == "image" for condition, _ in asked):
        asked.add(("image", "generation"))
    found: dict[Condition, dict[str, list[ParsedReply]]] = {}
    for condition in get_args(Condition):
        for reading in get_args(Reading):
            if (condition, reading) in asked:
                parsed = parse_replies(questions, predictions, benchmark, reading=reading, condition=condition)
                found.setdefault(condition, {}).update(parsed)
    for condition, rows in found.items():
        if LIKELIHOOD in rows and condition not in OF_OPTIONS:
            free = [question for question in questions if not question.options]
            replied = {row.question.id: row for row in rows.get(next(iter(benchmark.parsers)), ())}
            replied = {**{each.id: ParsedReply(each, None, None) for each in free}, **replied}
            for name in {LIKELIHOOD, PER_TOKEN} & rows.keys():
                read = {**{each.id: replied[each.id] for each in free}, **{row.question.id: row for row in rows[name]}}
                rows[name] = [read[question.id] for question in questions]
    return found


def primary_parser(readings: Sequence[Reading], benchmark: Benchmark, *, named: str | None = None) -> str:
    """Returns the parser by which the primary score goes: the named one, or the one of the first reading."""
    return named or (LIKELIHOOD if [*readings[:1]] == ["likelihood"] else next(iter(benchmark.parsers)))


def read_by(parser: str, questions: Iterable[Question], benchmark: Benchmark) -> str:
    """Returns how a parser reads these questions, in words: "'likelihood' (3 without options by 'robust')"."""
    free = sum(not question.options for question in questions) if parser in (LIKELIHOOD, PER_TOKEN) else 0
    return f"{parser!r}" + (f" ({free:,} without options by {next(iter(benchmark.parsers))!r})" if free else "")


def needs_judge(question: Question, prediction: Prediction, benchmark: Benchmark) -> bool:
    """Returns whether a prediction is a free answer with words in it, which a judge has to score."""
    is_free = benchmark.judging is not None and benchmark.judging.is_needed(question)
    return is_free and prediction.key.reading == "generation" and bool(words_of(prediction))


def words_of(prediction: Prediction) -> str:
    """Returns the words of a reply after its <think> blocks; "" if there are none."""
    return without_thinking(prediction.text or "")


def parse(question: Question, prediction: Prediction, benchmark: Benchmark) -> dict[str, str | None]:
    """Returns the answer that each parser of the prediction's reading finds in it; None if it finds none."""
    shown = prediction.options_shown or question.options
    if shown != question.options and sorted(shown) != sorted(question.options):
        raise ValueError(
            f"question {question.id!r}: the prediction was shown the options {list(shown)}, but the question has "
            f"{list(question.options)}; score it with the questions that it was made for"
        )
    if prediction.key.reading == "generation":
        asked = question if shown == question.options else replace(question, options=shown)
        return {name: parser(prediction.text or "", asked) for name, parser in benchmark.parsers.items()}
    logprobs, tokens = prediction.option_logprobs or (), prediction.option_tokens
    if len(logprobs) != len(shown) or not shown:
        raise ValueError(
            f"question {question.id!r}: {len(logprobs)} log-probabilities for {len(shown)} options; wanted one each"
        )
    read: dict[str, str | None] = {LIKELIHOOD: shown[_first_highest(logprobs)]}
    if tokens is not None:
        read[PER_TOKEN] = shown[_first_highest([sum_ / n for sum_, n in zip(logprobs, tokens, strict=True)])]
    return read


def write_parsed(path: Path, predictions: Iterable[Prediction], parsed: ParsedReplies, benchmark: Benchmark) -> None:
    """Writes parsed.jsonl: one line per prediction, in their order, with the true answer and one field per parser.

    If an answer waits for a judge, its line also has the field "unscored" with the names of the parsers concerned.

    Args:
        parsed: What `parse_all` returns for these predictions.
    """
    every = next(iter(parsed["image"].values()))
    places = {row.question.id: place for place, row in enumerate(every)}

    def line(prediction: Prediction) -> bytes:
        key, place = prediction.key, places[prediction.key.question_id]
        question = every[place].question
        if key.reading == "generation":
            rows = {name: parsed[key.condition][name][place] for name in benchmark.parsers}
            read = {name: _reply_with(key, row).parsed for name, row in rows.items()}
        else:
            read = parse(question, prediction, benchmark)
        row = {**key._asdict(), "answer": question.answer, **read}
        waits = [name for name, said in read.items() if said is None and needs_judge(question, prediction, benchmark)]
        if waits:
            row[UNSCORED] = waits
        return json.dumps(row).encode("ascii") + b"\n"

    replace_file(path, map(line, predictions))


def _reply_with(key: PredictionKey, row: ParsedReply) -> ParsedReply:
    """Returns the reply of the pass with this key."""
    if not row.later:
        return row
    return next(each for each in (row, *row.later) if each.prediction is not None and each.prediction.key == key)


def index(questions: Iterable[Question]) -> dict[str, Question]:
    by_id: dict[str, Question] = {}
    for question in questions:
        if question.id in by_id:
            raise ValueError(
                f"two questions have the id {question.id!r}; ids have to be unique: prepare the data again"
            )
        by_id[question.id] = question
    return by_id


def question_of(prediction: Prediction, by_id: Mapping[str, Question]) -> Question:
    id_ = prediction.key.question_id
    if id_ not in by_id:
        raise ValueError(f"no question {id_!r} among the {len(by_id)} to be scored.{nearest(id_, by_id)}")
    return by_id[id_]


def _first_highest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def is_closed(question: Question) -> bool:
    """Returns whether a question lists the answers to choose from."""
    return bool(question.options)


def is_open(question: Question) -> bool:
    """Returns whether a question is answered in free words or with a number, and compared with one true answer."""
    return not question.options and question.answer_kind not in ("rubric", "set")


def num_words(question: Question) -> int:
    """Returns the number of words of the true answer after normalisation."""
    return len(normalised(question.answer).split())


def is_short(question: Question) -> bool:
    """Returns whether a question is open and its true answer is a number, a word or a short phrase.

    >>> asked = Question("q", "m", "?", (), "The left upper lobe", "text", "p")
    >>> is_short(asked), num_words(asked)
    (True, 3)
    """
    return is_open(question) and num_words(question) <= MAX_SHORT_WORDS
