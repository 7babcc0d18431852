"""Refuses a recipe whose answers could not be scored, before a model is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass

from medtune.data.prepared.read import Prepared
from medtune.data.types import Question, Split
from medtune.eval.benchmark import Benchmark
from medtune.trainer.experiment.prepared_data import limited
from medtune.trainer.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class _Asked:
    split: Split
    questions: Sequence[Question]
    drawn_by: str

    @property
    def name(self) -> str:
        drawn = f" that {self.drawn_by} draws" if self.drawn_by else ""
        return f"the {len(self.questions):,} questions of the split {self.split!r}{drawn}"


def check_scored(
    recipe: Recipe, prepared: Prepared, benchmark: Benchmark, *, parser: str, training: bool, limit: int | None
) -> None:
    """Refuses a recipe whose answers would have no primary score: at the end, or in a validation during training.

    Args:
        recipe: The recipe, with the readings that it asks for.
        prepared: The folder with the questions; no split that is needed is empty.
        benchmark: The benchmark for the questions of the evaluated split.
        parser: The parser whose answers the primary score counts.
        training: Whether the model is trained, and therefore validated.
        limit: About how many questions of each split are used; None uses all.
    """
    options, seed = recipe.eval, recipe.train.seed
    asked = [_drawn(prepared, options.split, options.questions, "eval.questions", limit=limit, seed=seed)]
    if training:
        asked.append(_drawn(prepared, "val", options.val_questions, "eval.val_questions", limit=limit, seed=seed))
    for each in asked:
        covered = [question for question in each.questions if benchmark.primary_metric.covers(question)]
        if not covered:
            way = "Raise that number" if each.drawn_by else "Prepare the folder so that each split has some"
            raise ValueError(
                f"{prepared.root}: none of {each.name} is one that the primary metric {benchmark.primary!r} is about. "
                f"{way}"
            )
        _check_parser(recipe, covered, parser, each)
        if training and each.split == "val" and _waits_for_judge(benchmark, covered):
            raise ValueError(
                f"{prepared.root}: the primary metric {benchmark.primary!r} of all of {each.name} needs a judge, who "
                "has no part in training, so that no checkpoint could be chosen. Put questions with options into the "
                "split val, or train with another benchmark"
            )


def _check_parser(recipe: Recipe, covered: Sequence[Question], parser: str, asked: _Asked) -> None:
    readings = recipe.eval.known_readings
    named = f"eval.parser is {parser!r}" if recipe.eval.parser else f"the primary parser is {parser!r}"
    has_options = [bool(question.options) for question in covered]
    if parser.startswith("likelihood"):
        if "likelihood" not in readings:
            raise ValueError(f"{named} and eval.readings is {list(readings)}: add likelihood to the readings")
        if not any(has_options):
            raise ValueError(
                f"{named} and eval.readings is {list(readings)}, but none of {asked.name} that count has options whose "
                "likelihood could be read. Set eval.readings=[generation], or leave it out"
            )
    elif "generation" not in readings and any(has_options):
        raise ValueError(
            f"{named}, which reads replies, and eval.readings is {list(readings)}, so that questions with options "
            "would have none and count as wrong: add generation to the readings, or leave eval.parser out"
        )


def _waits_for_judge(benchmark: Benchmark, covered: Sequence[Question]) -> bool:
    judging = benchmark.judging
    return judging is not None and all(judging.is_needed(question) for question in covered)


def _drawn(
    prepared: Prepared, split: Split, questions: int | None, field: str, *, limit: int | None, seed: int
) -> _Asked:
    wanted = [(number, name) for number, name in ((limit, "--limit"), (questions, field)) if number is not None]
    everything = prepared.questions(split)
    least, drawn_by = min(wanted, default=(len(everything), ""))
    if least >= len(everything):
        return _Asked(split, everything, "")
    groups = limited(prepared.groups(split), questions=least, seed=seed)
    return _Asked(split, [question for group in groups for question in group.questions], drawn_by)
