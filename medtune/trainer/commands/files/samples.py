"""Prints questions of a prepared folder as a model will see them."""

from collections.abc import Iterator
from itertools import islice, zip_longest
from textwrap import indent

from medtune.data.prepared.read import Prepared
from medtune.data.readable import readable_text
from medtune.data.types import SPLITS, Question, Split
from medtune.eval.benchmark import Benchmark

_NUM_SAMPLES = 3


def print_samples(prepared: Prepared, benchmark: Benchmark) -> None:
    """Prints three questions as a model will see them, from different splits where there are several."""
    by_split = (_shown(prepared, split) for split in SPLITS)
    for question, media in islice((row for rank in zip_longest(*by_split) for row in rank if row), _NUM_SAMPLES):
        prompt = benchmark.render(question, "text")
        turns = "".join(f"user: {turn.asked}\nassistant: {turn.answer}\n" for turn in question.turns)
        options = f"options: {' | '.join(question.options)}\n" if question.options else ""
        print(f"\n{question.split} question {question.id}, as a model will see it ({question.answer_kind}):")
        shown = readable_text(f"{turns}{prompt.text}")
        print(indent(f"{shown}\n{options}target: {prompt.target}\nmedia: {media}", "    "))


def _shown(prepared: Prepared, split: Split) -> Iterator[tuple[Question, str]]:
    if prepared.manifest.without_media:
        yield from ((question, "left out") for question in islice(prepared.questions(split), _NUM_SAMPLES))
        return
    for group in islice(prepared.groups(split), _NUM_SAMPLES):
        yield group.questions[0], ", ".join(f"{ref.kind} {ref.path}" for ref in group.media) or "none"
